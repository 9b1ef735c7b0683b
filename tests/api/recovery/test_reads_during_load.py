"""Reads of a state that is not cached: answered from MongoDB while Redis gets the state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from store.base.ids import UserId
from store.mongo.collections import SESSIONS as SESSION_ROWS
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from store.sessions.loading.state_loader import StateLoader
from store.store import Store
from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, TIMEOUT_SECONDS, Api, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.recovery.test_user_state_eviction import STATE_KEYS, create_busy_user, evict, read_everything
from tests.api.session_calls import SESSIONS
from tests.clock import ManualClock

_NODES = "edges { node { id unreadCount activeTs } }"
BRIEFLY = f"""{{ totalUnread main: sessions {{ {_NODES} }} category: sessions(categoryId: "work") {{ {_NODES} }}
    shop: sessions(subBiz: "shop") {{ {_NODES} }}
    syncSessions {{ cursor sessions {{ id unreadCount activeTs }} }} }}"""


class HeldLoad:
    """Holds the end of loads, after MongoDB was read. The block that ends it lets them end."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        """Set once a load has read MongoDB."""
        self._may_end = asyncio.Event()
        self._store = StateLoader._store

    async def store(self, loader: StateLoader, user: UserId, *args: Any) -> Any:
        self.reached.set()
        await self._may_end.wait()
        return await self._store(loader, user, *args)

    def end(self) -> None:
        self._may_end.set()


@contextmanager
def held_load() -> Iterator[HeldLoad]:
    held = HeldLoad()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateLoader, "_store", lambda *args: held.store(*args))
        try:
            yield held
        finally:
            held.end()


async def within_time(*calls: Awaitable[Any]) -> list[Any]:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return list(await gather_all(*calls))


async def test_lists_total_and_sessions_are_answered_before_the_load_ends(api: Api) -> None:
    alice, *_ = await create_busy_user(api)
    await api.wait_until_idle()
    before = await read_everything(api, alice)
    await evict(api, alice, *STATE_KEYS)
    with held_load() as held:
        (early,) = await within_time(api.data(alice, BRIEFLY))
        assert held.reached.is_set() and api.services.app.store.sessions._loader._running
    late = await api.data(alice, BRIEFLY)
    assert early == late
    assert early["totalUnread"] == before["totalUnread"]
    for name in ("main", "category", "shop"):
        listed = [(edge["node"]["id"], edge["node"]["unreadCount"]) for edge in before[name]["edges"]]
        assert [(edge["node"]["id"], edge["node"]["unreadCount"]) for edge in early[name]["edges"]] == listed
    assert await read_everything(api, alice) == before


async def test_pages_continue_from_the_read_state_to_the_cached_one(api: Api) -> None:
    alice, *_ = await create_busy_user(api)
    await api.wait_until_idle()
    whole = [session["id"] for session in await api.sessions(alice)]
    assert len(whole) > 3
    await evict(api, alice, *STATE_KEYS)
    listed: list[str] = []
    after = None
    with held_load():
        for _ in range(2):
            (page,) = await within_time(api.data(alice, SESSIONS, first=1, after=after))
            (edge,) = page["sessions"]["edges"]
            listed, after = [*listed, edge["node"]["id"]], edge["cursor"]
    rest = (await api.data(alice, SESSIONS, after=after))["sessions"]
    assert [*listed, *(edge["node"]["id"] for edge in rest["edges"])] == whole
    assert rest["pageInfo"]["hasPreviousPage"]


async def test_changes_during_the_load_follow_the_cursor_of_the_first_page(api: Api) -> None:
    alice, *_, bob = await create_busy_user(api)
    await api.wait_until_idle()
    await evict(api, alice, *STATE_KEYS)
    with held_load():
        (page,) = await within_time(api.data(alice, SESSIONS))
        cursor = page["sessions"]["cursor"]
        subscribing = asyncio.create_task(api.subscribe(alice, LIVE_SESSIONS, since=cursor))
        sent = await api.send(bob, alice)
        await asyncio.sleep(0.05)
    delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
    (session,) = delta["sessions"]
    assert (session["id"], delta["reset"], delta["totalUnread"]) == (
        f"s_{alice}_{private_id(alice, bob)}",
        False,
        page["sessions"]["totalUnread"] + 1,
    )
    events = await subscribing
    event = await events.next()
    assert [each["lastMessage"]["id"] for each in event["sessions"]] == [sent["message"]["id"]]
    await events.stop()


async def test_a_read_after_a_change_during_the_load_sees_the_change(api: Api) -> None:
    alice, *_, bob = await create_busy_user(api)
    await api.wait_until_idle()
    total = await api.total_unread(alice)
    await evict(api, alice, *STATE_KEYS)
    with held_load():
        assert await within_time(api.total_unread(alice), api.total_unread(alice)) == [total, total]
        await api.send(bob, alice)
        later = asyncio.create_task(api.total_unread(alice))
        await asyncio.sleep(0.1)
        assert not later.done()
    assert await later == total + 1


@pytest.mark.parametrize("failure", ["claim", "key"])
async def test_the_cursor_of_a_failed_load_leads_to_the_right_state(api: Api, failure: str) -> None:
    """Another server takes the claim, or a key is evicted: the state gets another epoch."""
    alice, *_, bob = await create_busy_user(api)
    await api.wait_until_idle()
    await evict(api, alice, *STATE_KEYS)
    with held_load():
        (page,) = await within_time(api.data(alice, SESSIONS))
        cursor = page["sessions"]["cursor"]
        await api.send(bob, alice)
        await evict(api, alice, "loading" if failure == "claim" else "pending")
    delta = (await api.data(alice, SYNC, since=cursor))["syncSessions"]
    changed = {session["id"]: session for session in delta["sessions"]}
    session = changed[f"s_{alice}_{private_id(alice, bob)}"]
    assert (session["unreadCount"], delta["totalUnread"]) == (2, page["sessions"]["totalUnread"] + 1)
    device = ApiDevice(api, alice)
    await device.start()
    await device.agrees()
    events = await api.subscribe(alice, LIVE_MESSAGES, since=cursor)
    assert (await events.next())["reset"]
    await events.stop()


async def test_a_state_that_is_read_in_many_parts_is_whole(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, *_ = await create_busy_user(api)
    await api.wait_until_idle()
    before = await read_everything(api, alice)
    monkeypatch.setattr("store.sessions.loading.state_loader.SESSIONS_PER_CALL", 2)
    for rows in (1, 2, 3, 7):
        monkeypatch.setattr("store.sessions.session_rows._ROWS_PER_QUERY", rows)
        await evict(api, alice, *STATE_KEYS)
        with held_load():
            early = await within_time(api.data(alice, BRIEFLY))
        assert early == [await api.data(alice, BRIEFLY)]
        assert await read_everything(api, alice) == before


async def test_requests_at_the_same_time_share_a_load(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, *_ = await create_busy_user(api)
    await api.wait_until_idle()
    await evict(api, alice, *STATE_KEYS)
    mongo: Any = api.services.app.store.mongo
    find, reads = mongo.find, list[str]()

    async def counting_find(collection: str, *args: Any, **options: Any) -> Any:
        # The query for a mute in a channel asks for one row.
        if options.get("limit") != 1:
            reads.append(collection)
        return await find(collection, *args, **options)

    monkeypatch.setattr(mongo, "find", counting_find)
    subscription, *_ = await within_time(
        api.subscribe(alice, LIVE_SESSIONS), api.sessions(alice), api.total_unread(alice), api.data(alice, SYNC)
    )
    assert reads.count(SESSION_ROWS) == 1
    await subscription.stop()


async def test_budget_of_a_first_page_that_is_not_cached(open_api: OpenApi) -> None:
    """Redis: the page, the claim, the check. MongoDB: rows, heads, and new ticks of sessions that moved just now."""
    clock = ManualClock()
    async with open_api("budget", clock) as api:
        alice, *_ = await create_busy_user(api)
        await api.wait_until_idle()
        store = api.services.app.store
        for expected in ((3, 3), (2, 3)):
            # Housekeeping may add to a single run, so the least of several runs counts.
            assert min([await _trips_of_a_page(store, UserId(alice)) for _ in range(4)]) == expected
            await api.advance_days(clock, 1)


async def _trips_of_a_page(store: Store, user: UserId) -> tuple[int, int]:
    """Return the round trips to MongoDB and Redis before the first page of a state that is not cached."""
    await store.cache.one(Call("DEL", tuple(store.keys.of_user(user, name) for name in USER_KEYS)))
    with held_load():
        mongo, redis = store.mongo.trips, store.cache.trips
        page = await store.sessions.list_page(user, "m", 50, None)
        trips = store.mongo.trips - mongo, store.cache.trips - redis
    assert len(page.sessions) > 3
    await store.sessions.load(user)
    return trips


async def test_a_mute_that_ends_during_the_load_has_ended_in_later_answers(
    open_api: OpenApi, deployments: Deployments
) -> None:
    clock = ManualClock()
    async with open_api("mute", clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        await api.send(bob, alice)
        conversation, until = private_id(alice, bob), clock.ms + 20_000
        await api.mute(alice, conversation, until)
        await api.wait_until_idle()
        deployments.evict_user_state("mute", alice)
        with held_load():
            assert await within_time(api.total_unread(alice)) == [0]
            clock.ms = until
            later = asyncio.create_task(api.total_unread(alice))
            await asyncio.sleep(0.05)
            assert not later.done()
        assert await later == 1


async def test_a_session_is_read_alone_if_the_state_is_not_cached(open_api: OpenApi, deployments: Deployments) -> None:
    clock = ManualClock()
    async with open_api("alone", clock) as api:
        alice, bob, carol, *_ = await create_busy_user(api)
        group = await api.create_group(bob, alice, carol)
        await api.send(carol, group)
        await api.leave(alice, group)
        await api.send(bob, group)
        await api.wait_until_idle()
        await api.advance_days(clock, 1)
        store, names = api.services.app.store, [session["conversation"]["id"] for session in await api.sessions(alice)]
        before = {name: await api.session(alice, name) for name in [*names, group, "g_1"]}
        deployments.evict_user_state("alone", alice)
        for name in before:
            if not name.startswith("b_"):
                assert await api.session(alice, name) == before[name]
        is_cached = Call("EXISTS", store.keys.user(UserId(alice)))
        assert await store.cache.one(is_cached) == 0
        assert {name: await api.session(alice, name) for name in before} == before
        assert await store.cache.one(is_cached) == 1
