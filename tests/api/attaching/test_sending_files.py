"""Sending messages with files: who may send which file where, and what is refused."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from store.channels.sending.sending_rights import SendingRefusal
from store.files.file import FileState
from store.files.file_store import UNUSED_MS
from store.files.message_files import ClaimedFiles
from store.messages.message import ReservedMessage
from store.messages.outbox.places import ReservationReason
from subscriptions.delivery.commit_stage import reserve_place
from tests.api.attaching.files import (
    UNUSABLE,
    add_file,
    add_files,
    expect_refusal,
    find,
    find_file,
    ids,
    is_bound,
    is_free,
    new_message,
    number_of,
    page,
    send,
    sweep,
)
from tests.api.client import Api, Refusal, make_caller, private_id
from tests.api.conftest import OpenApi
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import thread_of
from tests.api.workspaces.role_calls import overwrite
from tests.clock import DAY_MS, ManualClock

INVALID_CONTENT = Refusal("INVALID_INPUT", "content")


async def _make_place(api: Api, kind: str) -> tuple[str, str, str]:
    """Return a sender, a reader, and the conversation."""
    if kind == "channel":
        sample = await create_sample_channels(api)
        return sample.member, sample.other, str(sample.general)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    return alice, bob, private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_a_message_shows_its_files_in_order_to_all_readers(api: Api, kind: str) -> None:
    alice, bob, conversation = await _make_place(api, kind)
    # The first message opens the private conversation.
    files = (await add_files(api, alice, conversation, 10))[::-1]
    payload = await send(api, alice, bob if kind == "private" else conversation, files, idempotencyKey="k")
    sent = payload["message"]
    assert ids(sent) == files and sent["content"] == ""
    (first, *_) = sent["attachments"]
    assert first == {
        "id": files[0],
        "filename": f"{files[0][2:]}.png",
        "contentType": "image/png",
        "sizeBytes": 70,
        "description": "a picture",
        "state": "READY",
        "width": 4,
        "height": 3,
        "thumbHash": "1QcSHQRnh493V4dIh4eXh1h4kJUI",
        "spoiler": True,
    }
    for user in (alice, bob):
        assert await find(api, user, sent["id"]) == sent
        assert (await page(api, user, conversation))[-1] == sent
    await api.wait_until_idle()
    assert all([await is_bound(api, file, sent["id"]) for file in files])
    replayed = await send(api, alice, conversation, files, idempotencyKey="k")
    assert replayed == payload | {"replayed": True}


async def test_too_many_files_and_a_file_named_twice_are_refused(api: Api) -> None:
    alice, bob, _ = await api.create_users("alice", "bob", "carol")
    files = await add_files(api, alice, private_id(alice, bob), 11)
    before = await api.stored_hashes()
    assert await expect_refusal(api, alice, bob, files) == UNUSABLE
    assert await expect_refusal(api, alice, bob, [files[0], files[1], files[0]]) == UNUSABLE
    assert await api.stored_hashes() == before


@pytest.mark.parametrize(
    "case", ["unknown", "malformed", "of another user", "elsewhere", "uploading", "scanning", "rejected", "removed"]
)
async def test_a_file_that_the_sender_may_not_send_is_refused_and_releases_the_others(api: Api, case: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    here, elsewhere = private_id(alice, bob), private_id(alice, carol)
    good, states = await add_file(api, alice, here), {state.name.lower(): state for state in FileState}
    match case:
        case "unknown":
            bad = "f_12345"
        case "malformed":
            bad = "f_x"
        case "of another user":
            bad = await add_file(api, bob, here)
        case "elsewhere":
            bad = await add_file(api, alice, elsewhere)
        case _:
            bad = await add_file(api, alice, here, state=states[case])
    before = await api.stored_documents()
    messages = set()
    for files in ([bad], [good, bad], [bad, good]):
        answer = await api.run(alice, SEND_ONE, input={"toUserId": bob, "content": "hello", "attachmentIds": files})
        (error,) = answer["errors"]
        assert (error["extensions"]["code"], error["extensions"]["field"]) == ("INVALID_INPUT", "attachmentIds")
        messages.add(error["message"])
    assert len(messages) == 1
    after = await api.stored_documents()
    assert {name: rows for name, rows in after.items() if name != "files"} == {
        name: rows for name, rows in before.items() if name != "files"
    }
    assert await is_free(api, good)
    assert ids((await send(api, alice, bob, [good]))["message"]) == [good]


SEND_ONE = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { replayed } }"


async def test_all_unusable_files_are_refused_with_the_same_words(api: Api) -> None:
    alice, bob, _ = await api.create_users("alice", "bob", "carol")
    here = private_id(alice, bob)
    used = await add_file(api, alice, here)
    await send(api, alice, bob, [used])
    await api.wait_until_idle()
    cases = [used, "f_12345", "", await add_file(api, bob, here), await add_file(api, alice, "g_1")]
    answers = [await api.run(alice, SEND_ONE, input=_input(bob, file)) for file in cases]
    assert len({answer["errors"][0]["message"] for answer in answers}) == 1
    assert len(await page(api, bob, here)) == 1


def _input(to: str, file: str) -> dict[str, object]:
    return {"toUserId": to, "content": "hello", "attachmentIds": [file]}


async def test_a_file_goes_into_one_message_even_after_its_recall(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, alice, group)
    sent = (await send(api, alice, group, [file]))["message"]
    assert await expect_refusal(api, alice, group, [file]) == UNUSABLE
    await api.recall(alice, sent["id"])
    assert await expect_refusal(api, alice, group, [file]) == UNUSABLE
    assert len(await page(api, bob, group)) == 1


async def test_content_may_be_empty_with_files_only(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, alice, group)
    for content, files in (("", []), (" \n", [file]), ("a\0b", [file]), ("x" * 4_001, [file])):
        assert await expect_refusal(api, alice, group, files, content) == INVALID_CONTENT
    assert await is_free(api, file)
    sent = (await send(api, alice, group, [file]))["message"]
    assert sent["content"] == ""
    assert (await api.edit(alice, sent["id"], "with words"))["content"] == "with words"
    assert (await api.edit(alice, sent["id"], ""))["content"] == ""
    assert (await api.edit(alice, sent["id"], ""))["editCount"] == 2
    refused = await api.run(alice, EDIT, id=sent["id"], content=" ")
    assert refused["errors"][0]["extensions"]["field"] == "content"
    shown = await find(api, bob, sent["id"])
    assert (shown["content"], ids(shown)) == ("", [file])


EDIT = "mutation ($id: ID!, $content: String!) { editMessage(messageId: $id, content: $content) { id } }"


async def test_a_key_stands_for_the_files_too(api: Api) -> None:
    alice, bob, _ = await api.create_users("alice", "bob", "carol")
    first, second = await add_files(api, alice, private_id(alice, bob), 2)
    await send(api, alice, bob, [first], "hello", idempotencyKey="k")
    conflict = Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
    for files in ([], [second], [first, second]):
        assert await expect_refusal(api, alice, bob, files, "hello", idempotencyKey="k") == conflict
    assert await is_free(api, second)


async def test_files_of_a_thread_may_be_uploaded_for_it_or_for_its_parent_conversation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    parent = (await send(api, alice, group, [await add_file(api, alice, group)]))["message"]
    # The first reply opens the thread.
    for_parent = await add_file(api, bob, group)
    reply = (await send(api, bob, parent["id"], [for_parent]))["message"]
    for_thread = await add_file(api, bob, reply["conversationId"])
    assert ids((await send(api, bob, reply["conversationId"], [for_thread]))["message"]) == [for_thread]
    another = await add_file(api, bob, reply["conversationId"])
    assert await expect_refusal(api, bob, group, [another]) == UNUSABLE
    other_parent = (await api.send(alice, group))["message"]
    assert await expect_refusal(api, bob, other_parent["id"], [another]) == UNUSABLE
    assert await is_free(api, another)


@pytest.mark.parametrize("content_type", ["SYSTEM", "BOT_COMMAND"])
async def test_messages_of_every_type_may_have_files(api: Api, content_type: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, alice, group)
    caller = make_caller(alice, CallerRole.SERVICE)
    sent = (await api.data(caller, SEND_IDS, input=_to_group(group, file, content_type)))["sendMessage"]["message"]
    assert ids(await find(api, bob, sent["id"])) == [file]
    await api.wait_until_idle()
    assert await is_bound(api, file, sent["id"])


SEND_IDS = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"


def _to_group(group: str, file: str, content_type: str) -> dict[str, object]:
    return {"conversationId": group, "content": "", "contentType": content_type, "attachmentIds": [file]}


@pytest.mark.parametrize("place", ["channel", "thread", "broadcast"])
async def test_files_in_a_channel_need_a_permission(api: Api, place: str) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.other, sample.general, "parent"))["message"]
    more = {"broadcast": True} if place == "broadcast" else {}
    to = str(sample.general) if place == "channel" else parent["id"]
    first, second = await add_files(api, sample.member, sample.general, 2)
    assert ids((await send(api, sample.member, to, [first], **more))["message"]) == [first]
    await overwrite(api, sample.owner, channel=sample.general, user=sample.member, deny=["ATTACH_FILES"])
    assert await expect_refusal(api, sample.member, to, [second], **more) == Refusal("FORBIDDEN", "attachmentIds")
    assert await is_free(api, second)
    assert (await api.send(sample.member, to, "words only", **more))["message"]["content"] == "words only"


@pytest.mark.parametrize("place", ["former member", "outsider", "archived", "locked"])
async def test_a_refused_message_gives_its_files_back(api: Api, place: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sender, to = carol, group
    if place == "former member":
        await api.data(carol, "mutation ($id: ID!) { leaveGroup(groupId: $id) }", id=group)
    elif place == "outsider":
        (sender,) = await api.create_users("dave")
    elif place == "archived":
        sample = await create_sample_channels(api)
        sender, to = sample.member, str(sample.old)
    else:
        parent = (await api.send(alice, group, "parent"))["message"]
        to, thread = parent["id"], thread_of(parent)
        await api.send(alice, to, "reply")
        await api.data(alice, "mutation ($id: ID!) { lockThread(threadId: $id) { id } }", id=thread)
    file = await add_file(api, sender, group if to.startswith("m_") else to)
    refusal = await expect_refusal(api, sender, to, [file], idempotencyKey="k")
    expected = {"former member": "NOT_A_MEMBER", "outsider": "NOT_FOUND", "archived": "ARCHIVED", "locked": "FORBIDDEN"}
    assert refusal.code == expected[place]
    assert await is_free(api, file)


async def test_a_file_older_than_a_day_is_not_sent(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("old", clock=clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        file = await add_file(api, alice, private_id(alice, bob))
        await api.advance_days(clock, UNUSED_MS / DAY_MS)
        assert await expect_refusal(api, alice, bob, [file]) == UNUSABLE
        assert (await find_file(api, file)).message is None


@pytest.mark.parametrize("place", ["channel", "thread"])
async def test_no_second_place_is_given_without_the_permission(api: Api, place: str) -> None:
    sample, store = await create_sample_channels(api), api.services.app.store
    parent = (await api.send(sample.other, sample.general, "parent"))["message"]
    await api.send(sample.member, parent["id"], "first reply")
    conversation = str(sample.general) if place == "channel" else thread_of(parent)
    message = new_message(api, sample.member, conversation)
    claimed = await store.message_files.claim(message, [number_of(await add_file(api, sample.member, conversation))])
    assert isinstance(claimed, ClaimedFiles)
    with_files = message._replace(attachments=claimed.attachments)
    await overwrite(api, sample.owner, channel=sample.general, user=sample.member, deny=["ATTACH_FILES"])
    assert (
        await reserve_place(store, with_files, ReservationReason.DISPLACED_MESSAGE) is SendingRefusal.NEEDS_ATTACH_FILES
    )
    assert isinstance(await reserve_place(store, message, ReservationReason.DISPLACED_MESSAGE), ReservedMessage)
    await sweep(api)
