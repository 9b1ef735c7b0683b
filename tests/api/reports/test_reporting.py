"""Making reports: of what the reporter can see only, once for each thing, with the text kept."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import parse_message_id
from tests.api.attaching.files import add_file, send
from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.reports.calls import (
    MAKE,
    find_node,
    list_reports,
    make_report,
    root,
    said_by,
    stored_reports,
)
from tests.api.sample_channels import SampleChannels, create_sample_channels

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


async def test_a_message_in_a_channel_is_reported_to_the_workspace(api: Api, workspace: SampleChannels) -> None:
    message = await said_by(api, workspace.other, workspace.general, "insult")
    made = await make_report(api, workspace.member, message=message, reason="HARASSMENT", note="please look")
    assert made == made | {
        "reporter": {"id": workspace.member},
        "message": {"id": message, "content": "insult", "state": "NORMAL"},
        "text": "insult",
        "user": {"id": workspace.other},
        "attachment": None,
        "reason": "HARASSMENT",
        "note": "please look",
        "state": "OPEN",
        "action": None,
        "resolvedBy": None,
    }
    assert made["id"].startswith("x_")
    assert await list_reports(api, workspace.owner, workspace.id) == [made]
    assert made["id"] not in [each["id"] for each in await list_reports(api, root())]


async def test_a_reply_in_a_thread_is_reported_to_the_workspace(api: Api, workspace: SampleChannels) -> None:
    message = await said_by(api, workspace.member, workspace.general)
    reply = await said_by(api, workspace.other, message, "reply")
    made = await make_report(api, workspace.member, message=reply)
    assert [each["text"] for each in await list_reports(api, workspace.owner, workspace.id)] == ["reply"]
    assert made["message"]["id"] == reply


@pytest.mark.parametrize("kind", ["private", "group", "user"])
async def test_everything_else_is_reported_to_the_deployment(api: Api, kind: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    if kind == "user":
        made = await make_report(api, bob, user=alice)
        assert (made["message"], made["text"]) == (None, None)
    else:
        to = bob if kind == "private" else await api.create_group(alice, bob, carol)
        made = await make_report(api, bob, message=await said_by(api, alice, to))
        assert made["text"] == "insult"
    (found,) = [each for each in await list_reports(api, root()) if each["id"] == made["id"]]
    # An admin who is not in the conversation reads the reported text, and nothing else.
    assert found == made | {"message": None}
    assert found["user"] == {"id": alice}


async def test_a_file_is_reported_with_its_message(api: Api, workspace: SampleChannels) -> None:
    file = await add_file(api, workspace.member, workspace.staff)
    message = (await send(api, workspace.member, workspace.staff, [file]))["message"]
    made = await make_report(api, workspace.moderator, attachment=file)
    assert made["attachment"]["id"] == file and made["attachment"]["url"]
    assert made["message"]["id"] == message["id"] and made["text"] is None
    # The owner is not in the PRIVATE channel.
    (found,) = await list_reports(api, workspace.owner, workspace.id)
    assert found == made | {"message": None, "attachment": made["attachment"] | {"url": None}}
    await api.recall(workspace.member, message["id"])
    (found,) = await list_reports(api, workspace.owner, workspace.id)
    assert found["attachment"]["filename"] == made["attachment"]["filename"]
    own = await find_node(api, workspace.moderator, made["id"])
    assert own is not None and own["attachment"]["url"] is None


async def test_repeating_answers_the_first_report(api: Api, workspace: SampleChannels) -> None:
    message = await said_by(api, workspace.other, workspace.general)
    made = await make_report(api, workspace.member, message=message, reason="SPAM", note="first")
    await api.edit(workspace.other, message, "edited")
    again = await make_report(api, workspace.member, message=message, reason="ILLEGAL", note="second")
    assert again == made | {"message": made["message"] | {"content": "edited"}}
    assert len(await list_reports(api, workspace.owner, workspace.id)) == 1
    # Others make reports of their own.
    other = await make_report(api, workspace.moderator, message=message)
    assert other["id"] != made["id"] and other["text"] == "edited"


async def test_the_same_report_twice_at_once_is_one(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    message = await said_by(api, workspace.other, workspace.general)
    made = await gather_all(
        *(
            make_report(each, workspace.member, message=message, note=str(n))
            for n in range(8)
            for each in (api, other_api)
        )
    )
    assert len({(each["id"], each["note"], each["createdAt"]) for each in made}) == 1
    assert len(await list_reports(api, workspace.owner, workspace.id)) == 1


async def test_a_user_whose_id_looks_like_that_of_a_message_is_another_thing(
    api: Api, workspace: SampleChannels
) -> None:
    message = await said_by(api, workspace.other, workspace.general)
    await api.upsert_users({"id": message, "displayName": "Trick"})
    of_user = await make_report(api, workspace.member, user=message)
    of_message = await make_report(api, workspace.member, message=message)
    assert of_user["id"] != of_message["id"]


@pytest.mark.parametrize("fate", ["edited", "recalled", "deleted channel", "removed row"])
async def test_the_text_is_kept_whatever_becomes_of_the_message(
    api: Api, other_api: Api, workspace: SampleChannels, fate: str
) -> None:
    message = await said_by(api, workspace.other, workspace.general)
    made = await make_report(api, workspace.member, message=message)
    shown: dict[str, Any] | None = None
    match fate:
        case "edited":
            await api.edit(workspace.other, message, "harmless")
            shown = {"id": message, "content": "harmless", "state": "NORMAL"}
        case "recalled":
            await api.recall(workspace.other, message)
            shown = {"id": message, "content": None, "state": "RECALLED"}
        case "deleted channel":
            await api.data(
                workspace.owner, "mutation ($id: ID!) { deleteChannel(channelId: $id) }", id=workspace.general
            )
        case _:
            api.database["messages"].delete_one({"_id": parse_message_id(message)})
    await api.wait_until_idle()
    for viewer in (workspace.owner, workspace.member):
        # Another process has not kept the message in memory.
        found = await find_node(other_api, viewer, made["id"])
        assert found == {"__typename": "Report"} | made | {"message": shown}


async def test_a_recalled_message_can_be_reported_without_its_text(api: Api, workspace: SampleChannels) -> None:
    message = await said_by(api, workspace.other, workspace.general)
    await api.recall(workspace.other, message)
    made = await make_report(api, workspace.member, message=message)
    assert made["text"] is None and made["user"] == {"id": workspace.other}
    assert [row for row in stored_reports(api) if row["_id"] == made["id"] and "x" in row] == []


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({}, Refusal("INVALID_INPUT", "messageId")),
        ({"message": "@message", "user": "@other"}, Refusal("INVALID_INPUT", "userId")),
        ({"message": "@message", "attachment": "f_1"}, Refusal("INVALID_INPUT", "attachmentId")),
        ({"message": "@message", "user": "@other", "attachment": "f_1"}, Refusal("INVALID_INPUT", "userId")),
        ({"user": "@member"}, Refusal("INVALID_INPUT", "userId")),
        ({"message": "@own"}, Refusal("INVALID_INPUT", "messageId")),
        ({"attachment": "@own_file"}, Refusal("INVALID_INPUT", "attachmentId")),
        ({"message": "@hidden"}, NO_MESSAGE),
        ({"message": "@private"}, NO_MESSAGE),
        ({"message": "m_1"}, NO_MESSAGE),
        ({"message": "nonsense"}, NO_MESSAGE),
        ({"message": ""}, NO_MESSAGE),
        ({"user": "nobody"}, Refusal("NOT_FOUND", "userId")),
        ({"user": "not a user"}, Refusal("NOT_FOUND", "userId")),
        ({"attachment": "@hidden_file"}, Refusal("NOT_FOUND", "attachmentId")),
        ({"attachment": "@unsent"}, Refusal("NOT_FOUND", "attachmentId")),
        ({"attachment": "f_1"}, Refusal("NOT_FOUND", "attachmentId")),
        ({"attachment": "nonsense"}, Refusal("NOT_FOUND", "attachmentId")),
        ({"message": "@message", "note": "x" * 501}, Refusal("INVALID_INPUT", "note")),
        ({"message": "@message", "note": "a\0b"}, Refusal("INVALID_INPUT", "note")),
        ({"message": "@message", "note": "\ud800"}, Refusal("INVALID_INPUT", "note")),
        ({"message": "@message", "reason": "BORED"}, Refusal("INVALID_INPUT", "reason")),
    ],
)  # fmt: skip
async def test_bad_input_stores_nothing(
    api: Api, workspace: SampleChannels, fields: dict[str, str], refusal: Refusal
) -> None:
    await workspace.remove_from_staff(workspace.member)
    hidden_file = await add_file(api, workspace.moderator, workspace.staff)
    own_file = await add_file(api, workspace.member, workspace.general)
    ids = {
        "@message": await said_by(api, workspace.other, workspace.general),
        "@own": await said_by(api, workspace.member, workspace.general),
        "@hidden": (await send(api, workspace.moderator, workspace.staff, [hidden_file]))["message"]["id"],
        "@private": await said_by(api, workspace.moderator, workspace.owner),
        "@hidden_file": hidden_file,
        "@own_file": own_file,
        "@unsent": await add_file(api, workspace.other, workspace.general),
        "@other": workspace.other,
        "@member": workspace.member,
    }
    before = await api.stored_hashes()
    variables = {name: ids.get(value, value) for name, value in fields.items()}
    found = await api.expect_refusal(workspace.member, MAKE, **variables)
    assert (found.code, found.field or refusal.field) == (refusal.code, refusal.field)
    assert await api.stored_hashes() == before


async def test_hidden_and_missing_messages_take_the_same_reads(api: Api, workspace: SampleChannels) -> None:
    alice, bob = await api.create_users("alice", "bob")
    private = await said_by(api, alice, bob)
    mongo = api.services.app.store.mongo
    counts = []
    for message in ("m_1", private):
        await api.expect_refusal(workspace.member, MAKE, message=message)
        before = mongo.trips
        assert await api.expect_refusal(workspace.member, MAKE, message=message) == NO_MESSAGE
        counts.append(mongo.trips - before)
    assert counts[0] == counts[1]


async def test_messages_from_before_a_membership_are_not_found(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, dave)
    message = await said_by(api, alice, group)
    await api.invite(alice, group, carol)
    assert await api.expect_refusal(carol, MAKE, message=message) == NO_MESSAGE
    assert (await make_report(api, bob, message=message))["text"] == "insult"


async def test_reports_are_rate_limited(open_api: OpenApi) -> None:
    async with open_api("limited", invite_lookups_per_minute=4) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        await make_report(api, alice, user=bob)
        await make_report(api, alice, user=carol)
        before = stored_reports(api)
        refusal = await api.expect_refusal(alice, MAKE, user=bob)
        assert (refusal.code, refusal.retryable) == ("RATE_LIMITED", True)
        assert stored_reports(api) == before
