"""Each check finds data that was changed by hand, and derives it again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest

from store.base.ids import ConversationId, UserId
from store.mongo.collections import session_row_id
from store.redis.cache import Call
from tests.api.checking.conftest import Data
from tests.checking import run_checks

Break = Callable[[Data], Awaitable[None]]


def set_fields(collection: str, row: Callable[[Data], str], **fields: Any) -> Break:
    """Return a function that changes a stored document."""

    async def change(data: Data) -> None:
        assert data.api.database[collection].update_one({"_id": row(data)}, {"$set": fields}).modified_count

    return change


def change_head(row: Callable[[Data], str], **fields: Any) -> Break:
    """Return a function that changes a stored head, and makes sure that no copy of it is cached."""
    change_document = set_fields("conversations", row, **fields)

    async def change(data: Data) -> None:
        await change_document(data)
        store = data.api.services.app.store
        await store.conversations.drop(ConversationId(row(data)))
        for user in (data.alice, data.bob, data.carol):
            await store.cache.one(Call("DEL", store.keys.user(UserId(user))))

    return change


def call(name: str, key: Callable[[Data, Any], str], *args: Any) -> Break:
    """Return a function that runs a command on a key of Redis."""

    async def run(data: Data) -> None:
        store = data.api.services.app.store
        await store.cache.one(Call(name, (key(data, store.keys),), args))

    return run


async def insert_message(data: Data) -> None:
    """Store a message of which the head knows nothing."""
    first = data.api.database["messages"].find_one({"c": data.group, "s": 1})
    newest = data.api.database["messages"].find_one({"c": data.group}, sort=[("s", -1)])
    assert first is not None and newest is not None
    place = {"_id": newest["_id"] + 1, "s": newest["s"] + 1, "n": newest["n"] + 1}
    data.api.database["messages"].insert_one({name: first[name] for name in ("c", "b", "u", "k", "t", "ma")} | place)
    data.api.database["conversations"].update_one({"_id": data.group}, {"$push": {"ma": place["s"]}})
    await data.api.services.app.store.conversations.drop(ConversationId(data.group))
    store = data.api.services.app.store
    for user in (data.alice, data.bob, data.carol):
        await store.cache.one(Call("DEL", store.keys.user(UserId(user))))


async def remove_follow_mark(data: Data) -> None:
    row = {"_id": f"{data.made.member} {data.channel}"}
    assert data.api.database["sessions"].update_one(row, {"$unset": {"fw": 1}}).modified_count
    store = data.api.services.app.store
    await store.cache.one(Call("DEL", store.keys.user(UserId(data.made.member))))


async def add_follow_mark(data: Data) -> None:
    data.api.database["sessions"].insert_one(
        {"_id": f"{data.alice} {data.channel}", "fw": 1, "ch": data.channel, "r": 0, "rn": 0, "d": 0}
    )


async def change_role_count(data: Data) -> None:
    found = {"_id": data.made.id, "ro.i": data.role}
    assert data.api.database["workspaces"].update_one(found, {"$set": {"ro.$.mc": 7}}).modified_count


async def remove_own_row(data: Data) -> None:
    assert data.api.database["workspaces_of"].delete_one({"_id": f"{data.made.member} {data.made.id}"}).deleted_count
    data.api.database["workspaces_of"].update_one({"_id": f"{data.made.member} "}, {"$inc": {"n": -1}})


async def add_own_row(data: Data) -> None:
    data.api.database["workspaces_of"].insert_one({"_id": f"{data.alice} {data.made.id}", "j": 1})
    data.api.database["workspaces_of"].insert_one({"_id": f"{data.alice} ", "n": 1})


def change_summary(*summary: object) -> Break:
    """Return a function that changes the summaries of a message in the group that is not its newest one."""

    async def change(data: Data) -> None:
        message = {"_id": int(data.message[2:])}
        change = {"$set": {"rx": [list(summary)]}} if summary else {"$unset": {"rx": 1}}
        assert data.api.database["messages"].update_one(message, change).modified_count

    return change


async def remove_reactions(data: Data) -> None:
    assert data.api.database["reactions"].delete_many({"m": int(data.message[2:])}).deleted_count


async def remove_thread_mark(data: Data) -> None:
    message = {"_id": int(data.message[2:])}
    assert data.api.database["messages"].update_one(message, {"$unset": {"th": 1}}).modified_count
    await data.api.services.app.store.conversations.drop(ConversationId(data.group))


async def remove_thread_follow(data: Data) -> None:
    row = {"_id": session_row_id(UserId(data.alice), ConversationId(f"t_1_{data.group}"))}
    assert data.api.database["sessions"].update_one(row, {"$unset": {"fw": 1}}).modified_count
    store = data.api.services.app.store
    await store.cache.one(Call("DEL", store.keys.user(UserId(data.alice))))


async def change_reply(data: Data) -> None:
    row = {"_id": f"t_1_{data.group} {data.alice}"}
    assert data.api.database["members"].update_one(row, {"$set": {"lr": 7}}).modified_count
    await data.api.services.app.store.conversations.drop(ConversationId(f"t_1_{data.group}"))


def change_record(**fields: Any) -> Break:
    """Return a function that changes alice's cached record of the group."""

    async def change(data: Data) -> None:
        store = data.api.services.app.store
        key = store.keys.of_user(UserId(data.alice), "sessions")
        text = await store.cache.one(Call("HGET", (key,), (data.group,)))
        await store.cache.one(Call("HSET", (key,), (data.group, orjson.dumps(orjson.loads(text) | fields))))

    return change


async def change_member_record(data: Data) -> None:
    store = data.api.services.app.store
    key = store.keys.conversation(ConversationId(data.group))[1]
    member = {"r": "ADMIN", "i": [[1, -1]], "j": 1}
    assert await store.cache.one(Call("HSET", (key,), (data.bob, orjson.dumps(member)))) == 0


def _head(data: Data, keys: Any) -> str:
    return str(keys.head(ConversationId(data.group)))


def _thread(data: Data) -> str:
    return f"t_1_{data.group}"


def _thread_head(data: Data, keys: Any) -> str:
    return str(keys.head(ConversationId(_thread(data))))


def _meta(data: Data, keys: Any) -> str:
    return str(keys.user(UserId(data.alice))[0])


def _list(data: Data, keys: Any) -> str:
    return str(keys.of_user(UserId(data.alice), "list"))


def _group(data: Data) -> str:
    return data.group


def _private(data: Data) -> str:
    return data.private


def _workspace(data: Data) -> str:
    return data.made.id


def _channel_row(data: Data) -> str:
    return f"{data.made.id} {data.channel}"


BREAKS: dict[str, tuple[str, Break, str]] = {
    "the newest seq": ("heads", change_head(_group, s=5), "newest seq is 5, expected 2"),
    "a number of messages that is too high": (
        "heads",
        change_head(_private, n=5),
        "number of messages is 5, expected 2",
    ),
    "the time of the last message": ("heads", change_head(_group, w=1, at=1), "last message is 1, expected"),
    "a missing mention": ("messages", change_head(_group, ma=[]), r"mentions of everybody is [], expected [1]"),
    "the newest message of a person": ("messages", change_head(_private, q0=0), "expected 1"),
    "a number of reactions": (
        "reactions",
        change_summary("👍", 3, ["x", "y"], 7),
        "is [('👍', 3, ['x', 'y'])]",
    ),
    "a missing summary of reactions": ("reactions", change_summary(), "is [], expected [('👍', 2, ['carol-"),
    "a summary of another emoji": ("reactions", change_summary("🎉", 1, ["x"], 7), "expected [('👍', 2, ['carol-"),
    "a summary without reactions": ("reactions", remove_reactions, "'])], expected []"),
    "a pinned message that is not listed": ("pins", change_head(_group, pi=[]), "pinned messages is [], expected [1]"),
    "a listed message that is not pinned": (
        "pins",
        change_head(_group, pi=[{"s": 1, "v": 1}, {"s": 9, "v": 1}]),
        "pinned messages is [1, 9], expected [1]",
    ),
    "the recalled replies of a thread": ("threads", change_head(_thread, x=2), "recalled replies is 2, expected 1"),
    "the people who replied": ("threads", change_head(_thread, rp=7), "people who replied is 7, expected 3"),
    "the followers of a thread": ("members", change_head(_thread, mc=7), "number of members is 7, expected 3"),
    "a missing mark of a parent message": ("threads", remove_thread_mark, "mark of the parent message is False"),
    "the newest reply of a user": ("threads", change_reply, "is 7, expected 1"),
    "a missing mark of a followed thread": ("thread-follows", remove_thread_follow, "is False, expected True"),
    "the cached recalled replies": ("cached-heads", call("HSET", _thread_head, "x", 4), "is 4, expected 1"),
    "the members of a group": ("members", change_head(_group, mc=9), "number of members is 9, expected 3"),
    "the followers of a channel": ("members", set_fields("channels", _channel_row, mc=9), "is 9, expected"),
    "a missing follow mark": ("follows", remove_follow_mark, "is False, expected True"),
    "a follow mark of a user who does not follow": ("follows", add_follow_mark, "is True, expected False"),
    "the members of a workspace": ("workspaces", set_fields("workspaces", _workspace, mc=9), "is 9, expected 2"),
    "the invitations of a workspace": ("workspaces", set_fields("workspaces", _workspace, iv=9), "is 9, expected 1"),
    "the members with a role": ("roles", change_role_count, "is 7, expected 1"),
    "a missing workspace of a user": ("memberships", remove_own_row, "is False, expected True"),
    "a workspace that a user is not in": ("users", add_own_row, "is True, expected False"),
    "a cached newest seq": ("cached-heads", call("HINCRBY", _head, "ls", 1), "newest seq is 3, expected 2"),
    "a cached number of members": ("cached-heads", call("HSET", _head, "mc", 9), "is 9, expected 3"),
    "a cached newest message": ("cached-heads", call("HSET", _head, "last", '{"t": "x"}'), "newest message is"),
    "a cached membership": ("cached-members", change_member_record, "membership of bob-"),
    "a cached total": ("cached-sessions", call("HINCRBY", _meta, "total", 3), "total of unread messages is"),
    "a cached sum of mentions": (
        "cached-sessions",
        call("HINCRBY", _meta, "mentions", 3),
        "sum mentions is 4, expected 1",
    ),
    "a cached read position": ("cached-sessions", change_record(r=2, rn=1), "acknowledged_seq is 2, expected 0"),
    "a cached number of messages": ("cached-sessions", change_record(n=7), "n is 7, expected 1"),
    "a head behind its messages": ("heads", insert_message, "newest seq is 2, expected 3"),
}


@pytest.mark.parametrize("case", BREAKS)
async def test_a_check_finds_and_repairs(data: Data, case: str) -> None:
    name, break_data, expected = BREAKS[case]
    await break_data(data)
    store = data.api.services.app.store
    found = (await run_checks(store, [name]))[name]
    assert expected in "\n".join(map(str, found.differences))
    assert found.repaired == []
    # Without --repair nothing is changed.
    again = (await run_checks(store, [name]))[name]
    assert again.differences == found.differences
    repaired = (await run_checks(store, [name], repairs=True))[name]
    assert repaired.differences == []
    assert repaired.repaired == found.differences


async def test_an_entry_missing_in_a_cached_list_is_found(data: Data) -> None:
    store = data.api.services.app.store
    key = _list(data, store.keys)
    entry = (await store.cache.one(Call("ZRANGE", (key,), (0, 0))))[0]
    await store.cache.run([Call("ZREM", (key,), (entry,)), Call("ZADD", (key,), (0, "m\n0000000000000007\ng_7"))])
    found = (await run_checks(store, ["cached-sessions"], repairs=True))["cached-sessions"]
    assert len(found.repaired) == 2
    assert found.differences == []


async def test_a_wrong_count_of_a_message_is_reported_and_not_repaired(data: Data) -> None:
    messages = data.api.database["messages"]
    messages.update_one({"c": data.private, "s": 1}, {"$set": {"n": 3}})
    store = data.api.services.app.store
    found = (await run_checks(store, ["messages"], repairs=True))["messages"]
    assert [(each.field, each.value, each.expected) for each in found.differences] == [
        ("n of seq 1", 3, 1),
        ("n of seq 2", 2, 4),
    ]
    assert found.repaired == []
    messages.update_one({"c": data.private, "s": 1}, {"$set": {"n": 1}})
