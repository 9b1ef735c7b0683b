"""createUpload: who may send which file where. A refused call stores nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal, private_id
from tests.api.files.calls import CANCEL, CREATE_UPLOAD, create_upload, find_file, rows, upload_input
from tests.api.sample_channels import create_sample_channels

OVERRIDE, ISOLATE = "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{LEFT-TO-RIGHT ISOLATE}"

BAD_INPUT: dict[str, tuple[dict[str, Any], Refusal]] = {
    "no name": ({"filename": ""}, Refusal("INVALID_INPUT", "filename")),
    "only white space": ({"filename": "  "}, Refusal("INVALID_INPUT", "filename")),
    "a long name": ({"filename": "x" * 256}, Refusal("INVALID_INPUT", "filename")),
    "a path": ({"filename": "../notes.txt"}, Refusal("INVALID_INPUT", "filename")),
    "a path of Windows": ({"filename": "C:\\notes.txt"}, Refusal("INVALID_INPUT", "filename")),
    "the folder": ({"filename": "."}, Refusal("INVALID_INPUT", "filename")),
    "the folder above": ({"filename": ".."}, Refusal("INVALID_INPUT", "filename")),
    "the folder above, hidden": ({"filename": f".{OVERRIDE}."}, Refusal("INVALID_INPUT", "filename")),
    "NUL": ({"filename": "notes.txt\0.exe"}, Refusal("INVALID_INPUT", "filename")),
    "a line break": ({"filename": "a\nb"}, Refusal("INVALID_INPUT", "filename")),
    "a control character": ({"filename": "a\x85b"}, Refusal("INVALID_INPUT", "filename")),
    "only hidden characters": ({"filename": OVERRIDE}, Refusal("INVALID_INPUT", "filename")),
    "no bytes": ({"sizeBytes": 0}, Refusal("INVALID_INPUT", "sizeBytes")),
    "a negative size": ({"sizeBytes": -1}, Refusal("INVALID_INPUT", "sizeBytes")),
    "too many bytes": ({"sizeBytes": 25 * 1024 * 1024 + 1}, Refusal("TOO_LARGE", "sizeBytes")),
    "a short checksum": ({"sha256": "a" * 63}, Refusal("INVALID_INPUT", "sha256")),
    "an upper-case checksum": ({"sha256": "A" * 64}, Refusal("INVALID_INPUT", "sha256")),
    "a checksum with a line break": ({"sha256": "a" * 64 + "\n"}, Refusal("INVALID_INPUT", "sha256")),
    "an empty type": ({"contentType": ""}, Refusal("INVALID_INPUT", "contentType")),
    "a type with a line break": ({"contentType": "a/b\r\nx: y"}, Refusal("INVALID_INPUT", "contentType")),
    "a long description": ({"description": "x" * 1_001}, Refusal("INVALID_INPUT", "description")),
    "a description with NUL": ({"description": "\0"}, Refusal("INVALID_INPUT", "description")),
    "an empty key": ({"idempotencyKey": ""}, Refusal("INVALID_INPUT", "idempotencyKey")),
    "no conversation": ({"conversationId": "x"}, Refusal("NOT_FOUND", "conversationId")),
    "a gateway": ({"conversationId": "b_shop"}, Refusal("NOT_FOUND", "conversationId")),
    "an unknown group": ({"conversationId": "g_1"}, Refusal("NOT_FOUND", "conversationId")),
}


@pytest.mark.parametrize("case", BAD_INPUT, ids=str)
async def test_bad_input_is_refused_and_stores_nothing(api: Api, case: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    changes, refusal = BAD_INPUT[case]
    before = rows(api)
    wanted = upload_input(private_id(alice, bob)) | changes
    assert await api.expect_refusal(alice, CREATE_UPLOAD, input=wanted) == refusal
    assert rows(api) == before


async def test_the_limit_is_in_the_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    wanted = upload_input(private_id(alice, bob)) | {"sizeBytes": 2_000_000_000}
    (error,) = (await api.run(alice, CREATE_UPLOAD, input=wanted))["errors"]
    assert error["message"] == "this file is too large; send one of at most 26,214,400 bytes (25 MiB)"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (f"photo{OVERRIDE}gpj.exe", "photogpj.exe"),
        (f"{ISOLATE}a\N{ZERO WIDTH SPACE}b.txt", "ab.txt"),
        ("x" * 255, "x" * 255),
        (" .profile", " .profile"),
        ("\N{FAMILY}.png", "\N{FAMILY}.png"),
    ],
)
async def test_hidden_characters_are_removed_from_the_name(api: Api, given: str, stored: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(api, alice, private_id(alice, bob), filename=given)
    found = await find_file(api, alice, upload["id"])
    assert found is not None and found["filename"] == stored


async def test_the_owner_sees_what_was_announced_until_the_upload_is_complete(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    upload = await create_upload(
        api, alice, private_id(alice, bob), contentType="image/png", description="A cat", spoiler=True
    )
    assert await find_file(api, alice, upload["id"]) == {
        "id": upload["id"],
        "filename": "notes.txt",
        "contentType": "image/png",
        "sizeBytes": 10,
        "description": "A cat",
        "state": "UPLOADING",
        "url": None,
        "width": None,
        "height": None,
        "thumbHash": None,
        "thumbnailUrl": None,
        "spoiler": True,
    }
    assert await find_file(api, bob, upload["id"]) is None
    assert (upload["method"], upload["headers"]) == ("PUT", [])


async def test_the_same_key_and_input_answer_the_same_upload(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob)
    uploads = await asyncio.gather(
        *(create_upload(api, alice, conversation, idempotencyKey="k", description="") for _ in range(4))
    )
    again = await create_upload(api, alice, conversation, idempotencyKey="k")
    assert len({upload["id"] for upload in (*uploads, again)}) == 1
    for changes in ({"filename": "other.txt"}, {"sizeBytes": 11}, {"spoiler": True}, {"sha256": "a" * 64}):
        wanted = upload_input(conversation, idempotencyKey="k") | changes
        refusal = await api.expect_refusal(alice, CREATE_UPLOAD, input=wanted)
        assert refusal == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
    assert (await create_upload(api, bob, conversation, idempotencyKey="k"))["id"] != again["id"]
    assert (await create_upload(api, alice, private_id(alice, carol)))["id"] != again["id"]


async def test_a_file_may_be_for_a_private_conversation_that_does_not_exist_yet(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    assert await create_upload(api, alice, private_id(alice, bob, "shop"))
    for conversation in (private_id(bob, carol), private_id(alice, f"nobody-{alice}")):
        refusal = await api.expect_refusal(alice, CREATE_UPLOAD, input=upload_input(conversation))
        assert refusal == Refusal("NOT_FOUND", "conversationId")
    refusal = await api.expect_refusal(alice, CREATE_UPLOAD, input=upload_input(f"p_{alice}_{alice}"))
    assert refusal == Refusal("INVALID_INPUT", "conversationId")


async def test_members_send_files_to_groups_and_their_threads(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    parent = (await api.send(alice, group, "parent"))["message"]
    missing = f"t_{parent['seq']}_{group}"
    assert (await api.expect_refusal(alice, CREATE_UPLOAD, input=upload_input(missing))).code == "NOT_FOUND"
    thread = (await api.send(bob, parent["id"], "reply"))["message"]["conversationId"]
    for conversation in (group, thread):
        assert await create_upload(api, carol, conversation)
        assert (await api.expect_refusal(dave, CREATE_UPLOAD, input=upload_input(conversation))).code == "NOT_FOUND"
    await api.leave(carol, group)
    for conversation in (group, thread):
        refusal = await api.expect_refusal(carol, CREATE_UPLOAD, input=upload_input(conversation))
        assert refusal.code == "NOT_A_MEMBER"


async def test_a_locked_thread_takes_files_of_moderators_and_of_the_parent_sender(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    parent = (await api.send(bob, group, "parent"))["message"]
    thread = (await api.send(carol, parent["id"], "reply"))["message"]["conversationId"]
    await api.data(alice, "mutation ($id: ID!) { lockThread(threadId: $id) { id } }", id=thread)
    assert await create_upload(api, alice, thread) and await create_upload(api, bob, thread)
    refusal = await api.expect_refusal(carol, CREATE_UPLOAD, input=upload_input(thread))
    assert refusal == Refusal("FORBIDDEN", "conversationId")


async def test_channels_need_the_right_to_attach_files(api: Api) -> None:
    sample = await create_sample_channels(api)
    assert await create_upload(api, sample.member, sample.general)
    assert await create_upload(api, sample.member, sample.staff)

    async def refused(user: str, channel: str) -> str:
        return (await api.expect_refusal(user, CREATE_UPLOAD, input=upload_input(channel))).code

    assert await refused(sample.outsider, sample.general) == "NOT_FOUND"
    assert await refused(sample.other, sample.staff) == "NOT_FOUND"
    assert await refused(sample.member, sample.old) == "ARCHIVED"
    for denied in (Permission.ATTACH_FILES, Permission.SEND_MESSAGES):
        await sample.overwrite(sample.general, sample.member, denied)
        assert await refused(sample.member, sample.general) == "FORBIDDEN"


async def test_a_user_has_at_most_100_files_in_no_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    uploads = [await create_upload(api, alice, conversation) for _ in range(98)]
    outcomes = await asyncio.gather(
        *(api.run(alice, CREATE_UPLOAD, input=upload_input(conversation)) for _ in range(6))
    )
    created = [outcome for outcome in outcomes if "errors" not in outcome]
    refused = {outcome["errors"][0]["extensions"]["code"] for outcome in outcomes if "errors" in outcome}
    assert len(created) <= 2 and refused == {"LIMIT_REACHED"}
    assert len([row for row in rows(api) if row["o"] == alice]) == 98 + len(created)
    for _ in range(2 - len(created)):
        await create_upload(api, alice, conversation)
    before = rows(api)
    assert (await api.expect_refusal(alice, CREATE_UPLOAD, input=upload_input(conversation))).code == "LIMIT_REACHED"
    assert rows(api) == before
    assert await create_upload(api, bob, conversation)
    assert (await api.data(alice, CANCEL, id=uploads[0]["id"]))["cancelUpload"]
    assert await create_upload(api, alice, conversation)
