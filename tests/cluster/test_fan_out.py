"""Fan-out on a Redis Cluster: one call per node, also while slots move and for users whose state is damaged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.sessions.apply_messages import FanoutCalls, FanoutResult, MessageDelta
from tests.api.client import wait_until
from tests.cluster.nodes import OwnCluster
from tests.cluster.test_nodes import slot_of
from tests.store.loading import load_calls, state_of
from tests.user_ids import UNUSUAL_USER_IDS
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("long_redis_timeouts")

NOW = 1_900_000_000_000
GROUP = ConversationId("g_1")
RECORD = {"s": 3, "n": 3, "r": 1, "rn": 1, "d": 2, "p": 0, "a": NOW, "w": NOW}
USERS = [*(UserId(f"user{number}") for number in range(14)), *map(UserId, UNUSUAL_USER_IDS)]


async def _load(cache: Cache) -> None:
    for user in USERS:
        attach = Call("attach", cache.keys.user(user), (NOW, "server", NOW + 900_000))
        await cache.run([*load_calls(cache.keys, state_of(user, {GROUP: RECORD}, NOW + 10), NOW), attach])


async def _send(
    cache: Cache, *seqs: int, users: Sequence[UserId] = USERS
) -> tuple[list[FanoutResult], list[Sequence[Call]]]:
    """Return the results, and the calls of each round trip."""
    trips: list[Sequence[Call]] = []

    async def run(calls: Sequence[Call]) -> list[Any]:
        trips.append(calls)
        return await cache.run(calls)

    fanout = FanoutCalls(cache, NOW)
    deltas = [MessageDelta(GROUP, s, s, True, NOW + 10 * s, f"{s}", users, {USERS[s]: "own"}) for s in seqs]
    results = [fanout.add_message(delta) for delta in deltas]
    await fanout.run(run)
    return results, trips


def _reached(result: FanoutResult) -> set[UserId]:
    recipients = result.recipients.get("server", ())
    return {user for user, *_ in recipients} | {user for user, outcome in result.others if outcome.changed}


async def _have_messages(cache: Cache, seq: int, users: Sequence[UserId]) -> bool:
    """Return whether the sessions of all users have the messages up to a seq."""
    answers = await cache.run([Call("get_sessions", cache.keys.user(user), (NOW, GROUP)) for user in users])
    return all(orjson.loads(answer[3])["s"] == seq for answer in answers)


async def _check(cache: Cache, seq: int, users: Sequence[UserId] = USERS) -> None:
    """Check that all messages up to one are in the sessions and in the logs, each once."""
    keys = [cache.keys.user(user) for user in users]
    for answer in await cache.run([Call("get_sessions", key, (NOW, GROUP)) for key in keys]):
        assert orjson.loads(answer[3])["s"] == seq
    for answer in await cache.run([Call("read_log", key, (NOW, NOW + 10, "epoch", 100)) for key in keys]):
        assert answer[2] == 1
        assert answer[5::3] == [f"{s}".encode() for s in range(4, seq + 1)]


async def test_a_message_takes_one_call_for_all_members_on_a_node(cache: Cache) -> None:
    await cache.one(Call("GET", (cache.keys.epoch,)))
    await _load(cache)
    (result,), trips = await _send(cache, 4)
    assert [len(calls) for calls in trips] == [3]
    assert _reached(result) == set(USERS)
    results, trips = await _send(cache, 5, 6)
    assert [len(calls) for calls in trips] == [3]
    assert [_reached(result) for result in results] == [set(USERS)] * 2
    await _check(cache, 6)


async def test_a_member_whose_slot_was_moved_is_served_by_the_new_node(cluster: OwnCluster, cache: Cache) -> None:
    await _load(cache)
    await _send(cache, 4)
    for user in (USERS[0], USERS[-1]):
        # The map of slots still names the former node: for the key of a call, and for a user among others.
        slot = slot_of(cache.keys.user(user)[0])
        cluster.end_move(slot, *cluster.begin_move(slot))
    results, _ = await _send(cache, 5, 6)
    assert [_reached(result) for result in results] == [set(USERS)] * 2
    await _check(cache, 6)


@pytest.mark.parametrize("moved", ["meta", "log", "index"])
async def test_members_of_a_moving_slot_are_waited_for_and_nothing_is_applied_twice(
    cluster: OwnCluster, cache: Cache, moved: str
) -> None:
    """A message needs the keys meta and log. If both are still there, the user need not wait."""
    await _load(cache)
    await _send(cache, 4)
    moving = USERS[7]
    slot = slot_of(cache.keys.user(moving)[0])
    source, target = cluster.begin_move(slot)
    key = cache.keys.of_user(moving, moved)
    source.migrate(target, key)
    sending = asyncio.create_task(_send(cache, 5, 6))
    others = [user for user in USERS if slot_of(cache.keys.user(user)[0]) != slot]
    await wait_until(lambda: _have_messages(cache, 6, others))
    await _check(cache, 6, others)
    if moved != "index":
        await asyncio.sleep(0.1)
        assert not sending.done()
    else:
        await wait_for(sending.done)
    cluster.end_move(slot, source, target)
    results, trips = await sending
    own_calls = [] if moved == "index" else [Counter(apply=len(USERS) - len(others))]
    assert [Counter(call.name for call in trip) for trip in trips[1:]] == own_calls
    assert [_reached(result) for result in results] == [set(USERS)] * 2
    await _check(cache, 6)


async def test_a_redirected_call_creates_no_key_that_has_not_arrived(cluster: OwnCluster, cache: Cache) -> None:
    await _load(cache)
    await _send(cache, 4)
    moving = USERS[7]
    meta = cache.keys.user(moving)[0]
    slot = slot_of(meta)
    source, target = cluster.begin_move(slot)
    source.migrate(target, meta)
    # The node is asked for this user's keys alone, so the former node redirects the call.
    sending = asyncio.create_task(_send(cache, 5, users=[moving]))
    await asyncio.sleep(0.1)
    assert not sending.done()
    assert list(target.client.scan_iter(match=cache.keys.of_user(moving, "*"))) == [meta.encode()]
    cluster.end_move(slot, source, target)
    result, _ = await sending
    assert _reached(result[0]) == {moving}
    await _check(cache, 5, [moving])


async def test_a_damaged_state_on_one_node_does_not_concern_others(cache: Cache) -> None:
    await _load(cache)
    damaged = USERS[9]
    await cache.one(Call("HSET", (cache.keys.of_user(damaged, "sessions"),), (GROUP, "{")))
    (result,), trips = await _send(cache, 4)
    assert len(trips) == 1
    assert _reached(result) == set(USERS) - {damaged}
    assert await cache.one(Call("EXISTS", cache.keys.user(damaged))) == 0
    await _check(cache, 4, [user for user in USERS if user != damaged])
