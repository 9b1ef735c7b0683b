"""Events that change no session: appended to the logs of many users, next to messages that wait."""

from __future__ import annotations

import itertools

import pytest

from store.base.ids import ConversationId, UserId
from store.redis.cache import Call
from store.sessions.apply_messages import FanoutCalls, MessageDelta
from store.sessions.changes import EventOnly, logged_change
from store.store import Store
from tests.store.loading import load_calls, state_of

NOW = 1_900_000_000_000
GROUP = ConversationId("g_1")
RECORD = {"s": 3, "n": 3, "r": 1, "rn": 1, "d": 2, "p": 0, "a": NOW, "w": NOW}
_names = itertools.count()


async def load(store: Store) -> UserId:
    """Return a user whose state is in Redis, with a connection on a server."""
    user = UserId(f"eve{next(_names)}")
    calls = load_calls(store.keys, state_of(user, {GROUP: RECORD}, NOW), NOW)
    attach = Call("attach", store.keys.user(user), (NOW, "server", NOW + 900_000))
    await store.cache.run([*calls, attach])
    return user


async def send(store: Store, user: UserId, seq: int) -> None:
    calls = FanoutCalls(store.cache, NOW + seq)
    calls.add_message(MessageDelta(GROUP, seq, seq, True, NOW + seq, str(seq), [user], {}))
    await calls.run(store.cache.run)


async def append(store: Store, at: int, *users: UserId, now: int = NOW) -> dict[UserId, tuple[int, int]]:
    """Append an event. Return tick, and tick before, of each user that a server is notified of."""
    calls = FanoutCalls(store.cache, now)
    result = calls.add_change(logged_change(EventOnly(), at, f"event {at}"), users)
    await calls.run(store.cache.run)
    assert not result.ticks and not result.recipients
    return {user: (o.tick, o.previous) for user, o in result.others if o.changed and o.routes == ("server",)}


async def test_events_take_ticks_in_order_and_leave_messages_waiting(store: Store) -> None:
    users = [await load(store) for _ in range(2)]
    await send(store, users[0], 4)
    placed = await append(store, NOW + 2, *users)
    assert placed == {users[0]: (NOW + 5, NOW + 4), users[1]: (NOW + 2, NOW)}
    for user in users:
        assert await append(store, NOW + 9, user) == {user: (NOW + 9, placed[user][0])}
    await send(store, users[0], 5)
    assert await store.cache.one(Call("HGET", store.keys.user(users[0]), ("waiting",))) == b"1"
    log = await store.sessions.read_log(users[0], "epoch", NOW, 10)
    texts = [b"4", f"event {NOW + 2}".encode(), f"event {NOW + 9}".encode(), b"5"]
    assert [entry for _, _, entry in log or ()] == texts
    session = await store.sessions.find(users[0], GROUP)
    assert session is not None and (session.write_seq, session.active_ts) == (5, NOW + 10)
    other = await store.sessions.find(users[1], GROUP)
    assert other is not None and other.record == RECORD


@pytest.mark.parametrize("state", ["not cached", "long unused", "log evicted"])
async def test_events_for_states_that_need_more_than_an_append(store: Store, state: str) -> None:
    user = await load(store)
    meta, log = store.keys.user(user)[0], store.keys.of_user(user, "log")
    later = NOW + 13 * 3600_000 if state == "long unused" else NOW
    if state == "not cached":
        await store.cache.one(Call("DEL", (meta,)))
    elif state == "log evicted":
        await append(store, NOW + 1, user)
        await store.cache.one(Call("DEL", (log,)))
    placed = await append(store, later + 2, user, now=later)
    before = NOW + 1 if state == "log evicted" else NOW
    # The route has ended long before.
    assert placed == ({user: (later + 2, before)} if state == "log evicted" else {})
    if state != "not cached":
        assert await store.cache.one(Call("HGET", (meta,), ("clock",))) == str(later + 2).encode()
        assert await store.cache.one(Call("PTTL", (log,))) > 0
