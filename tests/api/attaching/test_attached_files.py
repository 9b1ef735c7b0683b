"""Files of messages, wherever messages are shown, and what becomes of them when a message is recalled."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId
from subscriptions.delivery.files.file_sweeper import FileSweeper
from tests.api.attaching.files import (
    ATTACHMENT,
    FIELDS,
    add_file,
    add_files,
    check_files,
    find,
    ids,
    is_bound,
    is_removed,
    page,
    send,
    sweep,
)
from tests.api.broadcast.calls import copies_of
from tests.api.client import RECALL, Api, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.files.calls import blob_names, upload_file
from tests.api.files.calls import find_file as find_uploaded
from tests.api.recovery.failing_steps import Fault, failing
from tests.api.threads.live_calls import PLACES, make_thread
from tests.clock import ManualClock

_SHOWN = f"lastMessage {{ id content attachments {{ {ATTACHMENT} }} }}"
EVERYWHERE = f"""query ($id: ID!, $message: ID!) {{
    session(conversationId: $id) {{ {_SHOWN} conversation {{ {_SHOWN} }} }}
    offlineMessages {{ edges {{ node {{ {FIELDS} }} }} }}
    message(id: $message) {{ replyTo {{ {FIELDS} }} }} }}"""
THREAD = f"query ($id: ID!) {{ thread(id: $id) {{ title parent {{ {FIELDS} }} {_SHOWN} }} }}"
LIVE = f"""subscription ($since: Cursor) {{ messageEvents(since: $since) {{ __typename
    ... on MessageCreated {{ message {{ {FIELDS} }} }} ... on MessageUpdated {{ message {{ {FIELDS} }} }}
    ... on MessageRecalled {{ message {{ {FIELDS} }} }} ... on CaughtUp {{ cursor reset }} }} }}"""


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_files_are_shown_wherever_a_message_is(api: Api, deployments: Deployments, is_flushed: bool) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    files = await add_files(api, alice, group, 2)
    quoted = (await send(api, alice, group, files[:1]))["message"]
    sent = (await send(api, alice, group, files[1:], replyToId=quoted["id"]))["message"]
    await api.wait_until_idle()
    if is_flushed:
        deployments.flush_redis("main")
        await api.services.housekeeper.check_redis()
    shown = await api.data(bob, EVERYWHERE, id=group, message=sent["id"])
    assert ids(shown["message"]["replyTo"]) == files[:1]
    assert [ids(edge["node"]) for edge in shown["offlineMessages"]["edges"]] == [files[1:], files[:1]]
    for owner in (shown["session"], shown["session"]["conversation"]):
        assert owner["lastMessage"] == {name: sent[name] for name in ("id", "content", "attachments")}


async def test_a_thread_shows_the_files_of_its_parent_and_takes_its_title_from_them(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, alice, group)
    parent = (await send(api, alice, group, [file]))["message"]
    reply = (await send(api, bob, parent["id"], [await add_file(api, bob, group)]))["message"]
    shown = (await api.data(carol, THREAD, id=reply["conversationId"]))["thread"]
    assert shown["parent"] == parent
    assert shown["title"] == f"{file[2:]}.png"
    assert shown["lastMessage"]["attachments"] == reply["attachments"]


async def test_events_have_the_files_until_the_recall(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    since = (await (await api.subscribe(bob, LIVE)).next())["cursor"]
    live = await other_api.listen(bob, LIVE)
    file = await add_file(api, alice, group)
    sent = (await send(api, alice, group, [file]))["message"]
    assert await live.next() == {"__typename": "MessageCreated", "message": sent}
    await api.edit(alice, sent["id"], "with words")
    event = await live.next()
    assert event["__typename"] == "MessageUpdated" and ids(event["message"]) == [file]
    await api.wait_until_idle()
    replayed = await api.subscribe(bob, LIVE, since=since)
    assert ids((await replayed.next())["message"]) == [file]
    await api.recall(alice, sent["id"])
    event = await live.next()
    assert event["__typename"] == "MessageRecalled" and ids(event["message"]) == []
    await api.wait_until_idle()
    replayed = await api.subscribe(bob, LIVE, since=since)
    assert ids((await replayed.next())["message"]) == []


async def test_a_recall_withholds_and_removes_the_files(api: Api, other_api: Api, deployments: Deployments) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = [(await send(api, alice, group, [await add_file(api, alice, group)], "words"))["message"] for _ in range(3)]
    await api.data(alice, "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }", id=sent[1]["id"])
    for message in sent[1:]:
        await api.recall(alice, message["id"])
    await api.wait_until_idle()
    assert await is_bound(api, *ids(sent[0]), sent[0]["id"])
    for message in sent[1:]:
        assert await is_removed(api, *ids(message))
        shown = await find(other_api, bob, message["id"])
        assert (shown["content"], shown["attachments"]) == (None, [])
    for record in deployments.redis_dump("main"):
        assert ids(sent[2])[0][2:].encode() not in record
    before = await api.stored_documents()
    await api.recall(alice, sent[1]["id"])
    assert (await api.stored_documents())["files"] == before["files"]


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("recalled", ["reply", "copy"])
async def test_reply_and_copy_have_the_same_files(api: Api, kind: str, recalled: str) -> None:
    place = await make_thread(api, kind)
    files = [await add_file(api, place.second, where) for where in (place.conversation, place.id)]
    reply = (await send(api, place.second, place.parent["id"], files, broadcast=True))["message"]
    (copy,) = await copies_of(api, place.first, place, reply["id"])
    await api.wait_until_idle()
    for message in (reply["id"], copy["id"]):
        assert ids(await find(api, place.first, message)) == files
    assert ids((await page(api, place.first, place.conversation))[-1]) == files
    for file in files:
        assert await is_bound(api, file, reply["id"])
    await api.recall(place.second, {"reply": reply, "copy": copy}[recalled]["id"])
    for message in (reply["id"], copy["id"]):
        shown = await find(api, place.first, message)
        assert (shown["state"], shown["attachments"]) == ("RECALLED", [])
    await check_files(api, *files)
    for file in files:
        assert await is_removed(api, file)


@pytest.mark.parametrize("at", [2, 3, 4, 6])
async def test_a_recall_of_a_dead_server_removes_files_with_the_content(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, alice, group)
    sent = (await send(api, alice, group, [file]))["message"]
    await api.wait_until_idle()
    with failing(api, monkeypatch, Fault.DEATH, at, lambda: None):
        await api.run(alice, RECALL, id=sent["id"])
    await sweep(other_api)
    await check_files(api, file)
    await other_api.recall(alice, sent["id"])
    await check_files(api, file)
    assert await is_removed(api, file)


async def test_files_of_a_removed_channel_and_its_threads_are_removed(api: Api) -> None:
    place = await make_thread(api, "channel")
    files = [await add_file(api, place.second, where) for where in (place.conversation, place.conversation, place.id)]
    for file, where in zip(files, (place.conversation, place.conversation, place.id), strict=True):
        await send(api, place.second, where, [file])
    await api.wait_until_idle()
    # As a server of the previous version recalls it.
    recalled = {"at.0.0": files[1][2:]}
    assert api.database["messages"].update_one(recalled, {"$set": {"rc": 1, "rb": place.second}}).modified_count
    contents = api.services.app.store.channel_removal._contents
    while await contents.remove_some(ConversationId(place.conversation)):
        pass
    for file in files:
        assert await is_removed(api, file)


async def test_who_clears_or_leaves_a_conversation_removes_no_files(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, carol, group)
    sent = (await send(api, carol, group, [file]))["message"]
    await api.wait_until_idle()
    for user, query in (
        (bob, "mutation ($id: ID!) { deleteSession(conversationId: $id, hard: true) { id } }"),
        (carol, "mutation ($id: ID!) { leaveGroup(groupId: $id) }"),
        (alice, "mutation ($id: ID!) { deleteConversation(conversationId: $id) }"),
    ):
        await api.data(user, query, id=group)
    assert await is_bound(api, file, sent["id"])
    assert ids(await find(api, bob, sent["id"])) == [file]


async def test_outsiders_see_no_files(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    file = await add_file(api, alice, private_id(alice, bob))
    sent = (await send(api, alice, bob, [file]))["message"]
    assert (await api.data(carol, f"query ($id: ID!) {{ message(id: $id) {{ {FIELDS} }} }}", id=sent["id"])) == {
        "message": None
    }


async def test_an_uploaded_file_reaches_readers_and_is_deleted_after_the_recall(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("from upload to recall", clock=clock) as api:
        alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
        group = await api.create_group(alice, bob, carol)
        file = (await upload_file(api, alice, group))["id"]
        assert await find_uploaded(api, bob, file) is None
        sent = (await send(api, alice, group, [file]))["message"]
        assert [attachment["filename"] for attachment in sent["attachments"]] == ["notes.txt"]
        await api.wait_until_idle()
        assert await find_uploaded(api, bob, file) is not None
        assert await find_uploaded(api, dave, file) is None
        sweeper = FileSweeper(api.services.app.store)
        await api.advance_days(clock, 2)
        await sweeper.sweep()
        assert blob_names(api)
        # The owner of the group may recall it at any time.
        await api.recall(alice, sent["id"])
        assert await find_uploaded(api, bob, file) is None
        await api.advance_days(clock, 1)
        await sweeper.sweep()
        assert blob_names(api) == set()
