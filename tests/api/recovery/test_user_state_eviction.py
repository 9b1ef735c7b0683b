"""Redis may evict any key of a user's at any time: answers stay right, and devices that listen are told what follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId, UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from tests.api.client import SYNC, Api, Json, gather_all, private_id, wait_until
from tests.api.device import ApiDevice
from tests.api.session_calls import SESSION, SESSIONS

STATE_KEYS = ("meta", "sessions", "index", "list", "mutes", "log", "routes")

SHOWN = f"""{{ totalUnread sessionCategories {{ categoryId sessionCount unreadCount writeTs }}
    main: sessions {{ totalUnread edges {{ node {{ {SESSION} }} }} }}
    folder: sessions(categoryId: "work") {{ edges {{ node {{ {SESSION} }} }} }}
    shop: sessions(subBiz: "shop") {{ edges {{ node {{ {SESSION} }} }} }}
    syncSessions {{ totalUnread sessions {{ {SESSION} }} }} }}"""

SETTINGS = """mutation ($muted: ID!, $pinned: ID!, $deleted: ID!) {
    muteSession(conversationId: $muted, muted: true, until: "2090-01-01T00:00:00Z") { id }
    pinSession(conversationId: $pinned, priority: 3) { id }
    assignCategory(conversationIds: [$muted, $pinned], categoryId: "work") { id }
    deleteSession(conversationId: $deleted) { id } }"""


async def _busy(api: Api) -> list[str]:
    """Somebody with sessions of every kind, and those who write to them."""
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


async def _shown(api: Api, user: str) -> Json:
    """All that the user is shown, but for activeTs: what moved just now may move once more when its state is loaded anew."""
    data = await api.data(user, SHOWN)
    for session in [edge["node"] for name in ("main", "folder", "shop") for edge in data[name]["edges"]]:
        del session["activeTs"]
    for session in data["syncSessions"]["sessions"]:
        del session["activeTs"]
    return data


async def _evict(api: Api, user: str, *names: str) -> int:
    store = api.services.app.store
    keys = [store.keys.of_user(UserId(user), name) for name in names]
    gone: int = await store.cache.one(Call("DEL", tuple(keys)))
    return gone


@pytest.mark.parametrize("name", STATE_KEYS)
async def test_whatever_is_evicted_answers_stay_the_same(api: Api, other_api: Api, name: str) -> None:
    alice, *_ = await _busy(api)
    listener = await api.listen(alice)
    shown = await _shown(api, alice)
    assert await _evict(api, alice, name) == 1
    assert await _shown(other_api, alice) == shown
    await _evict(api, alice, name)
    again = await gather_all(*(_shown(process, alice) for process in (api, other_api) for _ in range(5)))
    assert all(answer == shown for answer in again)
    await listener.stop()


@pytest.mark.parametrize("name", STATE_KEYS)
async def test_whatever_is_evicted_a_device_goes_on_seeing_what_happens(api: Api, other_api: Api, name: str) -> None:
    alice, bob, carol, *_ = await _busy(api)
    devices = [ApiDevice(api, alice), ApiDevice(other_api, alice)]
    for device in devices:
        await device.start()
        await device.agrees()
    assert await _evict(api, alice, name) == 1
    await api.send(bob, alice)
    await api.send(carol, alice, subBiz="shop")
    for device in devices:
        await device.agrees()
    await _evict(api, alice, name)
    await other_api.mark_read(alice, private_id(alice, bob))
    for device in devices:
        await device.agrees()


@pytest.mark.parametrize("name", STATE_KEYS)
async def test_whatever_is_evicted_a_device_that_asks_for_nothing_hears_of_the_next_message(
    api: Api, other_api: Api, name: str
) -> None:
    alice, bob, *_ = await _busy(api)
    listener = await other_api.listen(alice)
    assert await _evict(api, alice, name) == 1
    sent = await api.send(bob, alice)
    event = await listener.next()
    assert event.get("reset") or event["message"] == sent["message"]


@pytest.mark.parametrize("name", USER_KEYS)
async def test_whatever_is_evicted_changes_work_and_count_once(api: Api, other_api: Api, name: str) -> None:
    alice, bob, *_ = await _busy(api)
    conversation = private_id(alice, bob)
    for process in (api, other_api):
        await process.send(bob, alice)
        await _evict(process, alice, name)
        session = await process.mark_read(alice, conversation)
        assert (session["unreadCount"], session["unreadStatus"]) == (0, False)
        await _evict(process, alice, name)
        await process.send(bob, alice)
        assert await process.unread(alice, conversation) == 1


async def test_the_clock_goes_on_whatever_is_evicted(api: Api, other_api: Api) -> None:
    alice, bob, *_ = await _busy(api)
    last = 0
    for name in STATE_KEYS:
        for process in (api, other_api):
            before = (await process.data(alice, SYNC))["syncSessions"]["cursor"]
            await _evict(process, alice, name)
            await process.send(bob, alice)
            delta = (await process.data(alice, SYNC, since=before))["syncSessions"]
            newest = max(session["activeTs"] for session in delta["sessions"])
            assert newest > last
            last = newest


async def test_what_is_evicted_while_a_state_is_loaded_does_not_get_lost(api: Api) -> None:
    """A message that came while the state was read waits in a list, and the list may go."""
    alice, bob, *_ = await _busy(api)
    store = api.services.app.store
    keys = store.keys.user(UserId(alice))
    await _evict(api, alice, *USER_KEYS)
    now = store.clock.now_ms()
    assert await store.cache.one(Call("load_begin", keys, (now, "mine", 60_000))) == b"go"
    # Read now, without what comes next.
    records = await store.session_rows.read(UserId(alice))
    await api.send(bob, alice)
    assert await _evict(api, alice, "pending") == 1
    finish = Call("load_finish", keys, (now, "mine", "epoch", now, 0))
    assert len(records) > 0
    assert await store.cache.one(finish) == 0
    assert await api.unread(alice, private_id(alice, bob)) == 2


async def test_a_state_that_is_loaded_while_one_leaves_a_group_ends_at_the_last_message_one_could_see(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group, "seen")
    await api.wait_until_idle()
    await _evict(api, bob, *USER_KEYS)
    mongo: Any = api.services.app.store.mongo
    find, left = mongo.find, False

    async def find_first(collection: str, *args: Any, **more: Any) -> Any:
        nonlocal left
        rows = await find(collection, *args, **more)
        if collection == SESSION_ROWS and not left:
            left = True
            await api.leave(bob, group)
            await api.send(alice, group, "not for who left")
            await api.wait_until_idle()
        return rows

    monkeypatch.setattr(mongo, "find", find_first)
    session = await api.own_session(bob, group)
    assert left
    assert (session["writeSeq"], session["unreadCount"], session["lastMessage"]["content"]) == (1, 1, "seen")


async def test_a_state_that_was_half_written_when_its_loader_died_is_loaded_anew(api: Api) -> None:
    alice, *_ = await _busy(api)
    shown = await _shown(api, alice)
    store = api.services.app.store
    keys = store.keys.user(UserId(alice))
    await _evict(api, alice, *USER_KEYS)
    now = store.clock.now_ms()
    await store.cache.one(Call("load_begin", keys, (now, "dead", 300)))
    record = '{"s":9,"n":9,"r":0,"rn":0,"d":0,"p":0,"a":9,"w":9}'
    assert await store.cache.one(Call("load_part", keys, (now, "dead", 300, "g_1", record))) == 1
    assert await _shown(api, alice) == shown
    assert await store.cache.one(Call("load_part", keys, (now, "dead", 300, "g_2", record))) == 0
    assert await _shown(api, alice) == shown


async def test_many_who_ask_on_two_servers_load_a_state_once(api: Api, other_api: Api) -> None:
    alice, *_ = await _busy(api)
    shown = await _shown(api, alice)
    # Names of people are read by each server once.
    assert await _shown(other_api, alice) == shown
    stores = [process.services.app.store for process in (api, other_api)]
    await _evict(api, alice, *STATE_KEYS)
    before = sum(store.mongo.trips for store in stores)
    answers = await gather_all(*(_shown(process, alice) for process in (api, other_api) for _ in range(25)))
    assert all(answer == shown for answer in answers)
    # Its rows, the heads they belong to, ticks of what moved just now; and what housekeeping does.
    assert sum(store.mongo.trips for store in stores) - before <= 10


async def test_a_device_whose_routes_and_state_are_both_gone_is_found_by_housekeeping(api: Api) -> None:
    alice, bob, *_ = await _busy(api)
    device = ApiDevice(api, alice)
    await device.start()
    await _evict(api, alice, *STATE_KEYS)
    await api.send(bob, alice)
    await api.services.app.hub.renew_routes()
    await device.agrees()


async def test_loss_of_everything_at_once_under_load_never_shows(api: Api, other_api: Api, deployments: object) -> None:
    """While messages come and states are lost over and over, what a reader is shown only ever goes forward."""
    alice, bob, carol, *_ = await _busy(api)
    conversation = ConversationId(private_id(alice, bob))
    sent = 1
    done = asyncio.Event()

    async def write() -> None:
        nonlocal sent
        for _ in range(30):
            await api.send(bob, alice)
            sent += 1
        done.set()

    async def read(process: Api) -> None:
        shown: Json = {"writeSeq": 0, "unreadCount": 0, "activeTs": 0}
        while not done.is_set():
            acknowledged = sent
            session = await process.session(alice, conversation)
            assert session is not None
            assert session["writeSeq"] >= max(shown["writeSeq"], acknowledged)
            assert session["unreadCount"] == session["writeSeq"]
            assert session["activeTs"] >= shown["activeTs"]
            shown = session

    async def lose() -> None:
        while not done.is_set():
            await _evict(api, alice, *STATE_KEYS)
            await asyncio.sleep(0.03)

    await gather_all(write(), read(api), read(other_api), lose())

    async def all_there() -> bool:
        return await other_api.unread(alice, conversation) == sent

    await wait_until(all_there)
    page = (await api.data(carol, SESSIONS))["sessions"]
    assert page["totalUnread"] == 0


async def test_messages_that_come_while_a_large_state_is_loaded_do_not_hold_it_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody listens, their state is gone, and parts of it are being put back while they are written to."""
    monkeypatch.setattr("store.sessions.session_store._PART", 1)
    alice, bob, *_ = await _busy(api)
    device = ApiDevice(api, alice)
    await device.start()
    store = api.services.app.store
    await _evict(api, alice, "meta")
    began = store.mongo.trips
    loading = asyncio.create_task(store.sessions.load(UserId(alice)))
    for _ in range(3):
        await api.send(bob, alice)
    await loading
    assert await api.unread(alice, private_id(alice, bob)) == 4
    await device.agrees()
    assert store.mongo.trips - began < 40
