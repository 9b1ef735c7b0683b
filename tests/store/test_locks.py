"""The user's lock: holders take turns, in order, soon, and without polling."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.sessions.session_changes import assign_category, mute_session, pin_session, set_unread
from resolvers.users.callers import Caller, CallerRole
from server.services import Services, open_services
from server.settings import Settings
from store.base.errors import LockTimeout
from store.base.ids import UserId, private_id
from store.redis.cache import Cache, Call
from store.sessions import user_locks as locks
from store.store import Store
from tests.api.client import wait_until
from tests.waiting import TIMEOUT_SECONDS, wait_for

ANNA, BEN = UserId("anna"), UserId("ben")
CONVERSATION = private_id(ANNA, BEN)


@pytest.fixture
async def servers(settings: Settings) -> AsyncIterator[list[Services]]:
    """Three servers of one deployment. ben has one unread message."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_services(settings)) for _ in range(3)]
        for user in (ANNA, BEN):
            await opened[0].sign_in(Caller(user, CallerRole.USER, 2e9))
        await send_message(opened[0].app, ANNA, NewMessage(BEN, None, "hello"))
        yield opened


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each script."""
    count: Counter[str] = Counter()
    attempt = Cache.attempt

    async def counted(cache: Cache, calls: Any) -> Any:
        count.update(call.name for call in calls)
        return await attempt(cache, calls)

    monkeypatch.setattr(Cache, "attempt", counted)
    return count


@pytest.fixture(autouse=True)
def _long_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of dead holders last longer than anybody waits, unless a test says otherwise."""
    monkeypatch.setattr(locks, "LOCK_MS", 120_000)
    monkeypatch.setattr(locks, "MAX_WAIT_SECONDS", 30.0)


def _lock_key(store: Store) -> str:
    return store.keys.of_user(BEN, "lock")


async def test_changes_from_twenty_devices_on_three_servers_take_turns(
    servers: list[Services], calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a turn may take longer than a second. Waiters that try again would count as calls.
    monkeypatch.setattr(locks, "_POLL_SECONDS", locks.MAX_WAIT_SECONDS)
    rounds = 5

    async def device(number: int) -> list[int]:
        app = servers[number % len(servers)].app
        ticks = []
        for turn in range(rounds):
            match (number + turn) % 4:
                case 0:
                    session = await pin_session(app, BEN, CONVERSATION, 1 + number * rounds + turn)
                case 1:
                    session = await mute_session(
                        app, BEN, CONVERSATION, muted=True, until_ms=2_000_000_000_000 + number
                    )
                case 2:
                    session = await set_unread(app, BEN, CONVERSATION)
                case _:
                    (session,) = await assign_category(app, BEN, [CONVERSATION], f"{number} {turn}")
            ticks.append(session.active_ts)
        return ticks

    answers = await asyncio.gather(*(device(number) for number in range(20)))
    for ticks in answers:
        assert ticks == sorted(ticks)
    # A waiter calls twice: once to queue, and once to take the lock when it is notified.
    assert calls["lock"] <= 2 * 20 * rounds + 10
    assert calls["unlock"] <= 20 * rounds


async def test_servers_take_turns(servers: list[Services]) -> None:
    """A server with many devices of a user does not make another server wait for all of them."""
    order: list[int] = []
    store, all_wait = servers[0].app.store, asyncio.Event()

    async def device(server: int) -> None:
        async with servers[server].app.store.locks.hold(BEN, [CONVERSATION]):
            order.append(server)
            await all_wait.wait()

    async def is_queue_full() -> bool:
        waiting: int = await store.cache.one(Call("LLEN", (store.keys.of_user(BEN, "queue"),)))
        return waiting == 2

    devices = [asyncio.create_task(device(0)) for _ in range(10)]
    await wait_for(lambda: order == [0])
    devices += [asyncio.create_task(device(server)) for server in (1, 2)]
    await wait_until(is_queue_full)
    all_wait.set()
    await asyncio.gather(*devices)
    # Servers 1 and 2 come next, unless a process pauses for so long that it misses its turn.
    assert max(order.index(1), order.index(2)) <= 5


async def test_a_waiter_is_notified_at_once_when_the_lock_is_free(servers: list[Services]) -> None:
    one, two, _ = (server.app.store.locks for server in servers)
    waits = []
    for _ in range(5):
        async with one.hold(BEN, [CONVERSATION]):
            waiting = asyncio.create_task(_take(two))
            await asyncio.sleep(0.05)
            began = time.monotonic()
        await waiting
        waits.append(time.monotonic() - began)
    assert min(waits) < locks._POLL_SECONDS / 2, "the waiter was notified and did not have to poll"


async def _take(one: locks.UserLocks) -> None:
    async with one.hold(BEN, [CONVERSATION]):
        pass


async def test_a_lost_notification_costs_a_second(servers: list[Services], monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, _ = (server.app.store.locks for server in servers)
    monkeypatch.setattr(servers[1].app.bus, "_wake_waiter", lambda _: None)
    async with one.hold(BEN, [CONVERSATION]):
        waiting = asyncio.create_task(_take(two))
        await asyncio.sleep(0.05)
    await waiting


async def test_a_dead_holder_keeps_others_waiting_until_its_lock_ends(
    servers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_MS", 300)
    store = servers[0].app.store
    args = (store.clock.now_ms(), "dead", "dead-server", 300, CONVERSATION)
    began = time.monotonic()
    answer = await store.cache.one(Call("lock", store.keys.user(BEN), args))
    assert answer[0] == 1
    session = await pin_session(servers[1].app, BEN, CONVERSATION, 3)
    assert session.priority == 3
    assert time.monotonic() - began > 0.2


async def test_a_dead_waiter_delays_the_others_only_briefly(servers: list[Services]) -> None:
    store = servers[0].app.store
    async with store.locks.hold(BEN, [CONVERSATION]):
        args = (store.clock.now_ms(), "dead", "dead-server", locks.LOCK_MS, CONVERSATION)
        assert (await store.cache.one(Call("lock", store.keys.user(BEN), args)))[0] == 0
    await pin_session(servers[1].app, BEN, CONVERSATION, 4)


async def test_waiting_ends_at_the_deadline_and_leaves_no_trace(
    servers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "MAX_WAIT_SECONDS", 0.3)
    store, other = servers[0].app.store, servers[1].app.store
    async with store.locks.hold(BEN, [CONVERSATION]):
        for waiting in (store.locks, other.locks):
            with pytest.raises(LockTimeout):
                await _take(waiting)
        assert await store.cache.one(Call("LLEN", (store.keys.of_user(BEN, "queue"),))) == 0
    assert await store.cache.one(Call("EXISTS", (_lock_key(store),))) == 0
    assert not store.locks._grants and not other.locks._grants


async def test_a_waiter_that_gave_up_passes_a_late_turn_on(servers: list[Services]) -> None:
    one, two, three = (server.app.store.locks for server in servers)
    async with one.hold(BEN, [CONVERSATION]):
        impatient = asyncio.create_task(_take(two))
        await asyncio.sleep(0.05)
        patient = asyncio.create_task(_take(three))
        await asyncio.sleep(0.05)
        impatient.cancel()
    await patient


async def test_locks_of_different_users_do_not_wait_for_each_other(servers: list[Services]) -> None:
    store = servers[0].app.store
    async with store.locks.hold(BEN, [CONVERSATION]):
        await pin_session(servers[1].app, ANNA, CONVERSATION, 1)


async def test_a_holder_that_died_after_its_write_leaves_no_stale_state(
    servers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock ends by itself; from then on every reader sees MongoDB's state."""
    monkeypatch.setattr(locks, "LOCK_MS", 200)
    store = servers[0].app.store
    await store.sessions.load(BEN)
    args = (store.clock.now_ms(), "dead", "dead-server", locks.LOCK_MS, CONVERSATION)
    answer = await store.cache.one(Call("lock", store.keys.user(BEN), args))
    await store.session_rows.write(BEN, int(answer[1]), {CONVERSATION: {"$set": {"p": 9}}})
    await asyncio.sleep(0.25)
    session = await servers[1].app.store.sessions.find(BEN, CONVERSATION)
    assert session is not None
    assert session.priority == 9


async def test_a_change_cancelled_half_way_looks_the_same_everywhere(
    servers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = servers[0].app.store
    write, written = store.session_rows.write, asyncio.Event()

    async def slow(*args: Any) -> None:
        await write(*args)
        written.set()
        await asyncio.sleep(10)

    monkeypatch.setattr(type(store.session_rows), "write", lambda rows, *args: slow(*args))
    change = asyncio.create_task(pin_session(servers[0].app, BEN, CONVERSATION, 5))
    await written.wait()
    change.cancel()
    await asyncio.wait([change])
    session = await servers[1].app.store.sessions.find(BEN, CONVERSATION)
    assert session is not None
    assert session.priority == 5
    assert await store.cache.one(Call("EXISTS", (_lock_key(store),))) == 0


async def test_a_waiter_cancelled_as_it_gets_the_lock_blocks_no_other(
    servers: list[Services], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, _ = (server.app.store for server in servers)
    run, taken = one.cache.run, asyncio.Event()

    async def unanswered(calls: Sequence[Call]) -> Any:
        answers = await run(calls)
        if calls[0].name == "lock":
            taken.set()
            await asyncio.sleep(10)
        return answers

    monkeypatch.setattr(one.cache, "run", unanswered)
    cancelled = asyncio.create_task(_take(one.locks))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await taken.wait()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    await _take(two.locks)


async def test_a_takeover_from_a_dead_holder_gets_the_lock_once(servers: list[Services]) -> None:
    store = servers[0].app.store
    args = (store.clock.now_ms(), "dead", "dead-server", 200, CONVERSATION)
    assert (await store.cache.one(Call("lock", store.keys.user(BEN), args)))[0] == 1
    await _take(servers[1].app.store.locks)
    # The lock is free, and no server waits for it.
    assert await store.cache.one(Call("EXISTS", (_lock_key(store), store.keys.of_user(BEN, "queue")))) == 0
    await _take(servers[2].app.store.locks)
