"""Messages of workspaces that expire."""

from __future__ import annotations

import pytest

from tests.api.channels.calls import FIND as FIND_CHANNEL
from tests.api.channels.calls import Made, make_workspace
from tests.api.channels.session_calls import FOLLOW, attention_of, session_of
from tests.api.client import Api, Refusal
from tests.api.conftest import Deployments
from tests.api.pins.calls import PIN, PIN_COUNT, PINNED
from tests.api.reactions.calls import ADD
from tests.api.retention.calls import FIND, UPDATE, advance, dies_at_write, expire, keep_for, remove_expired, send
from tests.api.retention.conftest import NAME
from tests.api.search.calls import SEARCH
from tests.api.threads.calls import contents, find_thread, list_threads, thread_of
from tests.api.workspaces.calls import add_members
from tests.api.workspaces.role_calls import create_role, set_roles
from tests.checking import find_differences
from tests.clock import ManualClock

BY_ID = "query ($id: ID!) { message(id: $id) { id content replyTo { id content } } node(id: $id) { id } }"
EDIT = 'mutation ($id: ID!) { editMessage(messageId: $id, content: "new") { id } }'
RECALL = "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }"
GONE = Refusal("NOT_FOUND", "messageId")


@pytest.mark.parametrize("days", [-1, 36_501])
async def test_other_numbers_of_days_are_refused_and_nothing_changes(api: Api, made: Made, days: int) -> None:
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(made.owner, UPDATE, id=made.id, days=days)
    assert refusal == Refusal("INVALID_INPUT", "retentionDays")
    assert await api.stored_hashes() == stored


async def test_the_number_of_days_is_shown_and_zero_means_kept(api: Api, made: Made) -> None:
    assert await keep_for(made, 36_500) == 36_500
    assert await keep_for(made, 1) == 1
    assert await keep_for(made, None) == 1
    assert (await api.data(made.member, FIND, id=made.id))["workspace"]["retentionDays"] == 1
    assert await keep_for(made, 0) is None
    assert await keep_for(made, None) is None
    row = api.database["workspaces"].find_one({"_id": made.id})
    assert row is not None and "rd" not in row


async def test_members_without_the_permission_may_not_set_it(api: Api, made: Made) -> None:
    stored = await api.stored_hashes()
    assert (await api.expect_refusal(made.member, UPDATE, id=made.id, days=1)).code == "FORBIDDEN"
    assert await api.stored_hashes() == stored


async def test_expired_messages_are_invisible_at_once_on_all_servers(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    await api.data(made.member, FOLLOW, id=channel)
    old = await send(api, made.owner, channel, "an old word", mentions=[made.member])
    await api.data(made.owner, PIN, id=old["id"])
    reply = await send(api, made.owner, old["id"], "a reply")
    await advance(processes, clock, 10)
    new = await send(api, made.owner, channel, "a new word", replyToId=old["id"])
    for each in processes:
        assert await contents(each, made.member, channel) == [
            "an old word",
            await pin_text(each, made, channel),
            "a new word",
        ]
        assert (await session_of(each, made.member, channel) or {})["unreadCount"] == 2
    await keep_for(made, 5)
    for each in processes:
        assert await contents(each, made.member, channel) == ["a new word"]
        shown = await each.data(made.member, BY_ID, id=old["id"])
        assert shown == {"message": None, "node": None}
        assert (await each.data(made.member, BY_ID, id=new["id"]))["message"]["replyTo"] is None
        session = await session_of(each, made.member, channel)
        assert session is not None and (session["unreadCount"], session["unreadMentionCount"]) == (1, 0)
        assert session["lastMessage"]["id"] == new["id"]
        assert await find_thread(each, made.member, thread_of(old)) is None
        assert await list_threads(each, made.member, channel) == []
        assert (await each.data(made.member, BY_ID, id=reply["id"]))["message"] is None
        assert (await each.data(made.member, PINNED, id=channel))["pinnedMessages"]["edges"] == []
        assert (await each.data(made.member, PIN_COUNT, id=channel))["channel"]["pinCount"] == 0
        found = await each.data(made.member, SEARCH, query="word")
        assert [edge["node"]["id"] for edge in found["searchMessages"]["edges"]] in ([], [new["id"]])


async def pin_text(api: Api, made: Made, channel: str) -> str:
    history = await api.history(made.member, channel)
    return str(next(message["content"] for message in history if message["contentType"] == "SYSTEM"))


async def test_expired_messages_can_not_be_changed(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    old = await send(api, made.owner, channel, "old")
    reply = await send(api, made.owner, old["id"], "a reply")
    await advance(processes, clock, 10)
    await keep_for(made, 5)
    for each in processes:
        await each.wait_until_idle()
    stored = await api.stored_hashes()
    for each in processes:
        for message in (old["id"], reply["id"]):
            assert await each.expect_refusal(made.owner, EDIT, id=message) == GONE
            assert await each.expect_refusal(made.owner, RECALL, id=message) == GONE
            assert await each.expect_refusal(made.owner, PIN, id=message) == GONE
            assert await each.expect_refusal(made.owner, ADD, id=message, emoji="👍") == GONE
            unknown = await each.expect_send_refusal(made.owner, channel, replyToId="m_1")
            assert await each.expect_send_refusal(made.owner, channel, replyToId=message) == unknown
        for place in (old["id"], thread_of(old)):
            assert (await each.expect_send_refusal(made.owner, place)).code == "NOT_FOUND"
    assert await api.stored_hashes() == stored


async def test_messages_expire_by_themselves(
    processes: list[Api], api: Api, made: Made, clock: ManualClock, deployments: Deployments
) -> None:
    channel, quiet = (await made.create())["id"], (await made.create("quiet"))["id"]
    await keep_for(made, 5)
    await send(api, made.owner, channel, "first")
    await advance(processes, clock, 3)
    second = await send(api, made.owner, channel, "second")
    await expire(api)
    assert await contents(api, made.member, channel) == ["first", "second"]
    await advance(processes, clock, 2.01)
    await expire(api)
    for each in processes:
        assert await contents(each, made.member, channel) == ["second"]
    await advance(processes, clock, 3)
    await expire(api)
    for each in processes:
        assert await contents(each, made.member, channel) == []
    deployments.flush_redis(NAME)
    await remove_expired(processes, clock)
    deployments.flush_redis(NAME)
    third = await send(processes[1], made.owner, channel, "third")
    assert third["seq"] == second["seq"] + 1
    assert await contents(processes[2], made.member, channel) == ["third"]
    assert (await made.find(made.member, channel) or {})["messageCount"] == 3
    assert await contents(api, made.member, quiet) == []


async def test_everything_that_hangs_on_expired_messages_is_removed(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    await api.data(made.member, FOLLOW, id=channel)
    old = await send(api, made.owner, channel, "old")
    await api.data(made.member, ADD, id=old["id"], emoji="👍")
    await api.data(made.owner, PIN, id=old["id"])
    reply = await send(api, made.member, old["id"], "a reply", broadcast=True)
    await api.data(made.owner, ADD, id=reply["id"], emoji="👍")
    await send(api, made.owner, channel, "look", mentions=[made.member])
    await api.wait_until_idle()
    await advance(processes, clock, 10)
    new = await send(api, made.owner, channel, "new")
    assert await attention_of(api, made.member) == (0, 1)
    await keep_for(made, 5)
    await remove_expired(processes, clock)
    database, thread = api.database, thread_of(old)
    rows = database["messages"].find({"c": {"$in": [channel, thread]}})
    assert [row["s"] for row in rows] == [new["seq"]]
    assert database["conversations"].find_one({"_id": thread}) is None
    for name in ("reactions", "members", "sessions"):
        assert [row["_id"] for row in database[name].find() if thread in row["_id"]] == []
    assert [row["_id"] for row in database["reactions"].find() if channel in row["_id"]] == []
    assert list(database["expired"].find({"_id": channel})) == []
    for each in processes:
        assert await attention_of(each, made.member) == (0, 0)
        assert (await session_of(each, made.member, channel) or {})["unreadCount"] == 1
    assert await find_differences(api.services.app.store) == []


async def test_copies_of_replies_are_recalled_with_the_thread(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    old = await send(api, made.owner, channel, "old")
    await advance(processes, clock, 10)
    await send(api, made.member, old["id"], "a reply", broadcast=True)
    await keep_for(made, 5)
    for each in processes:
        assert await contents(each, made.owner, channel) == ["a reply"]
    await remove_expired(processes, clock)
    for each in processes:
        (copy,) = await each.history(made.owner, channel)
        assert (copy["state"], copy["content"]) == ("RECALLED", None)
        last = (await each.data(made.owner, FIND_CHANNEL, id=channel))["channel"]["lastMessage"]
        assert last["content"] is None
    assert await find_differences(api.services.app.store) == []


async def test_sessions_of_expired_threads_are_not_counted(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    old = await send(api, made.owner, channel, "old")
    await send(api, made.member, old["id"], "mine")
    await send(api, made.owner, old["id"], "yours", mentions=[made.member])
    await advance(processes, clock, 10)
    assert (await attention_of(api, made.member))[1] == 1
    await keep_for(made, 5)
    await remove_expired(processes, clock)
    for each in processes:
        assert await attention_of(each, made.member) == (0, 0)
    assert await find_differences(api.services.app.store) == []


@pytest.mark.parametrize("step", range(12))
async def test_another_server_continues_after_any_step(
    processes: list[Api], api: Api, made: Made, clock: ManualClock, step: int
) -> None:
    channel = (await made.create())["id"]
    await api.data(made.member, FOLLOW, id=channel)
    old = await send(api, made.owner, channel, "old")
    await api.data(made.member, ADD, id=old["id"], emoji="👍")
    await send(api, made.member, old["id"], "a reply", broadcast=True)
    await send(api, made.owner, channel, "look", mentions=[made.member])
    await api.wait_until_idle()
    await advance(processes, clock, 10)
    new = await send(api, made.owner, channel, "new")
    await keep_for(made, 5)
    store = processes[-1].services.app.store
    with dies_at_write(store.mongo, step):
        await remove_expired(processes, clock)
    await remove_expired(processes[:2], clock)
    rows = api.database["messages"].find({"c": {"$in": [channel, thread_of(old)]}})
    assert [row["s"] for row in rows] == [new["seq"]]
    assert list(api.database["expired"].find({"_id": channel})) == []
    assert [row["_id"] for row in api.database["reactions"].find() if channel in row["_id"]] == []
    for each in processes:
        assert await attention_of(each, made.member) == (0, 0)
        assert (await session_of(each, made.member, channel) or {})["unreadCount"] == 1
    assert await find_differences(api.services.app.store) == []


async def test_sessions_of_users_who_only_looked_at_a_thread_are_removed(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    role = await create_role(api, made.owner, made.id, "guides")
    reader, guide = await api.create_users("reader", "guide")
    await add_members(api, made.id, reader, guide)
    await set_roles(api, made.owner, made.id, guide, role)
    old = await send(api, made.owner, channel, "old")
    await send(api, made.member, old["id"], "a reply")
    await send(api, made.owner, old["id"], "guides", mentionRoleIds=[role])
    await api.mark_read(reader, thread_of(old))
    await api.wait_until_idle()
    thread = thread_of(old)
    assert len([row for row in api.database["sessions"].find() if row["_id"].endswith(thread)]) == 4
    await advance(processes, clock, 10)
    await keep_for(made, 5)
    await remove_expired(processes, clock)
    assert [row["_id"] for row in api.database["sessions"].find() if row["_id"].endswith(thread)] == []
    for each in processes:
        for user in (reader, guide):
            assert await attention_of(each, user) == (0, 0)


async def test_one_search_reaches_all_workspaces_that_are_due(
    processes: list[Api], api: Api, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.retention.retention._WORKSPACES", 1)
    all_made = [await make_workspace(api) for _ in range(3)]
    channels = [(await made.create())["id"] for made in all_made]
    for made, channel in zip(all_made, channels, strict=True):
        await keep_for(made, 5)
        await send(api, made.owner, channel, "old")
    await advance(processes, clock, 6)
    await expire(api)
    for made, channel in zip(all_made, channels, strict=True):
        assert await contents(api, made.member, channel) == []


async def test_a_message_with_an_old_id_does_not_take_younger_ones_with_it(
    processes: list[Api], api: Api, made: Made, clock: ManualClock
) -> None:
    channel = (await made.create())["id"]
    old = await send(api, made.owner, channel, "old")
    await advance(processes, clock, 10)
    for content in ("young", "of a wrong clock", "younger"):
        await send(api, made.owner, channel, content)
    await api.wait_until_idle()
    messages = api.database["messages"]
    row = messages.find_one({"c": channel, "t": "of a wrong clock"})
    assert row is not None
    messages.delete_one({"_id": row["_id"]})
    messages.insert_one(row | {"_id": int(old["id"][2:]) + 1})
    await keep_for(made, 5)
    assert [text for text in await contents(api, made.member, channel) if text != "of a wrong clock"] == [
        "young",
        "younger",
    ]
