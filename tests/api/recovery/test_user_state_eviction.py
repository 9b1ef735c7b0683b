"""Redis may evict any key of a user at any time: answers stay right, and listening devices miss nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId, UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions.session_rows import SessionRows
from tests.api.client import SYNC, Api, Json, gather_all, private_id, wait_until
from tests.api.device import ApiDevice
from tests.api.session_calls import SESSION, SESSIONS

STATE_KEYS = ("meta", "sessions", "index", "list", "mutes", "log", "routes")
SOME_KEYS = [
    name if name in ("meta", "list", "log", "routes") else pytest.param(name, marks=pytest.mark.long)
    for name in STATE_KEYS
]

EVERYTHING = f"""{{ totalUnread sessionCategories {{ categoryId sessionCount unreadCount writeTs }}
    main: sessions {{ totalUnread edges {{ node {{ {SESSION} }} }} }}
    category: sessions(categoryId: "work") {{ edges {{ node {{ {SESSION} }} }} }}
    shop: sessions(subBiz: "shop") {{ edges {{ node {{ {SESSION} }} }} }}
    syncSessions {{ totalUnread sessions {{ {SESSION} }} }} }}"""

SETTINGS = """mutation ($muted: ID!, $pinned: ID!, $deleted: ID!) {
    muteSession(conversationId: $muted, muted: true, until: "2090-01-01T00:00:00Z") { id }
    pinSession(conversationId: $pinned, priority: 3) { id }
    assignCategory(conversationIds: [$muted, $pinned], categoryId: "work") { id }
    deleteSession(conversationId: $deleted) { id } }"""


async def create_busy_user(api: Api) -> list[str]:
    """Create a user with sessions of every kind, and the users who write to them. Return their ids."""
    alice, *others = await api.create_users("alice", "bob", "carol", "dave", "erin")
    for other in others:
        await api.send(other, alice)
    await api.send(others[0], alice, subBiz="shop")
    await api.create_group(alice, *others[:2], subBiz="shop")
    bob, carol, dave, _ = others
    await api.data(
        alice, SETTINGS, muted=private_id(alice, bob), pinned=private_id(alice, carol), deleted=private_id(alice, dave)
    )
    return [alice, *others]


async def read_everything(api: Api, user: str) -> Json:
    """Return everything that the user can read, except activeTs: recent changes may move again after a load."""
    data = await api.data(user, EVERYTHING)
    for session in [edge["node"] for name in ("main", "category", "shop") for edge in data[name]["edges"]]:
        del session["activeTs"]
    for session in data["syncSessions"]["sessions"]:
        del session["activeTs"]
    return data


async def evict(api: Api, user: str, *names: str) -> int:
    store = api.services.app.store
    keys = [store.keys.of_user(UserId(user), name) for name in names]
    deleted: int = await store.cache.one(Call("DEL", tuple(keys)))
    return deleted


@pytest.mark.parametrize("name", STATE_KEYS)
async def test_reads_return_the_same_after_an_eviction(api: Api, other_api: Api, name: str) -> None:
    alice, *_ = await create_busy_user(api)
    listener = await api.listen(alice)
    before = await read_everything(api, alice)
    assert await evict(api, alice, name) == 1
    assert await read_everything(other_api, alice) == before
    await evict(api, alice, name)
    answers = await gather_all(*(read_everything(process, alice) for process in (api, other_api) for _ in range(5)))
    assert all(answer == before for answer in answers)
    await listener.stop()


@pytest.mark.parametrize("name", SOME_KEYS)
async def test_a_device_stays_up_to_date_after_an_eviction(api: Api, other_api: Api, name: str) -> None:
    alice, bob, carol, *_ = await create_busy_user(api)
    devices = [ApiDevice(api, alice), ApiDevice(other_api, alice)]
    for device in devices:
        await device.start()
        await device.agrees()
    assert await evict(api, alice, name) == 1
    await api.send(bob, alice)
    await api.send(carol, alice, subBiz="shop")
    for device in devices:
        await device.agrees()
    await evict(api, alice, name)
    await other_api.mark_read(alice, private_id(alice, bob))
    for device in devices:
        await device.agrees()


@pytest.mark.parametrize("name", SOME_KEYS)
async def test_a_listening_device_receives_the_next_message_after_an_eviction(
    api: Api, other_api: Api, name: str
) -> None:
    alice, bob, *_ = await create_busy_user(api)
    listener = await other_api.listen(alice)
    assert await evict(api, alice, name) == 1
    sent = await api.send(bob, alice)
    event = await listener.next()
    assert event.get("reset") or event["message"] == sent["message"]


@pytest.mark.parametrize("name", SOME_KEYS)
async def test_changes_after_an_eviction_are_counted_once(api: Api, other_api: Api, name: str) -> None:
    alice, bob, *_ = await create_busy_user(api)
    conversation = private_id(alice, bob)
    for process in (api, other_api):
        await process.send(bob, alice)
        await evict(process, alice, name)
        session = await process.mark_read(alice, conversation)
        assert (session["unreadCount"], session["unreadStatus"]) == (0, False)
        await evict(process, alice, name)
        await process.send(bob, alice)
        assert await process.unread(alice, conversation) == 1


SEND = f"mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{ session {{ {SESSION} }} }} }}"
SESSION_BY_ID = f"query ($id: ID!) {{ node(id: $id) {{ ... on Session {{ {SESSION} }} }} }}"


async def test_the_answer_to_a_send_after_an_eviction_is_the_session_that_is_read_next(
    api: Api, other_api: Api
) -> None:
    alice, bob, *_ = await create_busy_user(api)
    listener = await api.listen(alice)
    answered_at = 0
    for name in STATE_KEYS:
        for sub_biz in (None, "shop"):
            await read_everything(api, alice)
            await evict(api, alice, name)
            to = {"toUserId": bob, "subBiz": sub_biz, "content": "hello"}
            answer = (await api.data(alice, SEND, input=to))["sendMessage"]["session"]
            assert (await other_api.data(alice, SESSION_BY_ID, id=answer["id"]))["node"] == answer, name
            assert answer["activeTs"] > answered_at
            answered_at = answer["activeTs"]
    await listener.stop()


async def test_the_answer_to_a_send_has_a_change_that_was_interrupted(api: Api) -> None:
    """The server that made the change died between MongoDB and Redis, and its lock has expired."""
    alice, bob, *_ = await create_busy_user(api)
    await read_everything(api, alice)
    conversation, store = private_id(alice, bob), api.services.app.store
    api.database[SESSION_ROWS].update_one({"_id": f"{alice} {conversation}"}, {"$set": {"p": 7}})
    await store.cache.one(Call("HSET", (store.keys.of_user(UserId(alice), "meta"),), ("held", "dead:1")))
    answer = (await api.data(alice, SEND, input={"toUserId": bob, "content": "hello"}))["sendMessage"]["session"]
    assert answer["priority"] == 7
    assert (await api.data(alice, SESSION_BY_ID, id=answer["id"]))["node"] == answer


async def test_the_clock_continues_after_an_eviction(api: Api, other_api: Api) -> None:
    alice, bob, *_ = await create_busy_user(api)
    last_tick = 0
    for name in STATE_KEYS:
        for process in (api, other_api):
            before = (await process.data(alice, SYNC))["syncSessions"]["cursor"]
            await evict(process, alice, name)
            await process.send(bob, alice)
            delta = (await process.data(alice, SYNC, since=before))["syncSessions"]
            newest = max(session["activeTs"] for session in delta["sessions"])
            assert newest > last_tick
            last_tick = newest


async def test_pending_messages_evicted_during_a_load_are_not_lost(api: Api) -> None:
    """A message that arrives during a load waits in a list, and the list may be evicted."""
    alice, bob, *_ = await create_busy_user(api)
    store = api.services.app.store
    keys = store.keys.user(UserId(alice))
    await evict(api, alice, *USER_KEYS)
    now = store.clock.now_ms()
    assert await store.cache.one(Call("load_begin", keys, (now, "mine", 60_000))) == b"go"
    # Read the rows now, without the next message.
    state = await store.session_rows.read(UserId(alice))
    await api.send(bob, alice)
    assert await evict(api, alice, "pending") == 1
    for part in state.parts(100):
        assert await store.cache.one(Call("load_part", keys, (now, "loading", "mine", 60_000, *part))) == 1
    assert await store.cache.one(Call("load_finish", keys, (now, "mine", *state.totals))) == 0
    assert await api.unread(alice, private_id(alice, bob)) == 2


async def test_a_state_loaded_during_a_departure_ends_at_the_last_visible_message(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group, "seen")
    await api.wait_until_idle()
    await evict(api, bob, *USER_KEYS)
    mongo: Any = api.services.app.store.mongo
    find, has_left = mongo.find, False

    async def find_then_leave(collection: str, *args: Any, **options: Any) -> Any:
        nonlocal has_left
        rows = await find(collection, *args, **options)
        if collection == SESSION_ROWS and not has_left:
            has_left = True
            await api.leave(bob, group)
            await api.send(alice, group, "after the departure")
            await api.wait_until_idle()
        return rows

    monkeypatch.setattr(mongo, "find", find_then_leave)
    session = await api.own_session(bob, group)
    assert has_left
    assert (session["writeSeq"], session["unreadCount"], session["lastMessage"]["content"]) == (1, 1, "seen")


async def test_a_half_loaded_state_of_a_dead_server_is_loaded_again(api: Api) -> None:
    alice, *_ = await create_busy_user(api)
    before = await read_everything(api, alice)
    store = api.services.app.store
    keys = store.keys.user(UserId(alice))
    await evict(api, alice, *USER_KEYS)
    now = store.clock.now_ms()
    await store.cache.one(Call("load_begin", keys, (now, "dead", 60_000)))
    record = '{"s":9,"n":9,"r":0,"rn":0,"d":0,"p":0,"a":9,"w":9}'
    assert (
        await store.cache.one(Call("load_part", keys, (now, "loading", "dead", 1, "sessions", 2, "g_1", record))) == 1
    )
    assert await read_everything(api, alice) == before
    assert (
        await store.cache.one(Call("load_part", keys, (now, "loading", "dead", 1, "sessions", 2, "g_2", record))) == 0
    )
    assert await read_everything(api, alice) == before


async def test_concurrent_readers_at_two_servers_load_a_state_once(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, *_ = await create_busy_user(api)
    before = await read_everything(api, alice)
    await evict(api, alice, *STATE_KEYS)
    read, loaded = SessionRows.read, list[UserId]()

    async def count(rows: SessionRows, user: UserId) -> Any:
        loaded.append(user)
        return await read(rows, user)

    monkeypatch.setattr(SessionRows, "read", count)
    answers = await gather_all(*(read_everything(process, alice) for process in (api, other_api) for _ in range(25)))
    assert all(answer == before for answer in answers)
    assert loaded == [alice]


async def test_housekeeping_restores_evicted_routes_of_a_listening_device(api: Api) -> None:
    alice, bob, *_ = await create_busy_user(api)
    device = ApiDevice(api, alice)
    await device.start()
    await evict(api, alice, *STATE_KEYS)
    await api.send(bob, alice)
    await api.services.app.hub.check_feeds()
    await device.agrees()


async def test_repeated_evictions_under_load_are_never_visible(api: Api, other_api: Api, deployments: object) -> None:
    """While messages arrive and states are lost repeatedly, the state that a reader sees only moves forward."""
    alice, bob, carol, *_ = await create_busy_user(api)
    conversation = ConversationId(private_id(alice, bob))
    sent = 1
    all_sent = asyncio.Event()
    reads = {id(process): 0 for process in (api, other_api)}

    async def write() -> None:
        nonlocal sent
        for _ in range(30):
            await api.send(bob, alice)
            sent += 1
        all_sent.set()

    async def read(process: Api) -> None:
        before: Json = {"writeSeq": 0, "unreadCount": 0, "activeTs": 0}
        while not all_sent.is_set():
            acknowledged = sent
            session = await process.session(alice, conversation)
            assert session is not None
            assert session["writeSeq"] >= max(before["writeSeq"], acknowledged)
            assert session["unreadCount"] == session["writeSeq"]
            assert session["activeTs"] >= before["activeTs"]
            before = session
            reads[id(process)] += 1

    async def evict_repeatedly() -> None:
        while not all_sent.is_set():
            await evict(api, alice, *STATE_KEYS)
            await asyncio.sleep(0.03)
            # A read is refused if its state is evicted in each of its tries. Let both processes finish one first.
            before = dict(reads)
            while not all_sent.is_set() and any(reads[id] == before[id] for id in reads):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    await gather_all(write(), read(api), read(other_api), evict_repeatedly())

    async def is_complete() -> bool:
        return await other_api.unread(alice, conversation) == sent

    await wait_until(is_complete)
    page = (await api.data(carol, SESSIONS))["sessions"]
    assert page["totalUnread"] == 0


async def test_messages_during_the_load_of_a_large_state_do_not_delay_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listening user's state is gone, and messages arrive while parts of it are written back."""
    monkeypatch.setattr("store.sessions.loading.state_loader.SESSIONS_PER_CALL", 1)
    alice, bob, *_ = await create_busy_user(api)
    device = ApiDevice(api, alice)
    await device.start()
    store = api.services.app.store
    await evict(api, alice, "meta")
    trips_before = store.mongo.trips
    load = asyncio.create_task(store.sessions.load(UserId(alice)))
    for _ in range(3):
        await api.send(bob, alice)
    await load
    assert await api.unread(alice, private_id(alice, bob)) == 4
    await device.agrees()
    assert store.mongo.trips - trips_before < 40
