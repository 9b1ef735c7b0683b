"""Round trips and tasks of a connection's opening: signing in, and a subscription until its first event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from store.base.ids import UserId
from store.redis.cache import Call
from store.redis.keys import USER_KEYS
from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, Api, gather_all

RUNS = 3


class Trips(NamedTuple):
    mongo: int
    redis: int


async def _forget_profiles(api: Api, _user: str) -> None:
    """Empty the server's cache of users, as after its start."""
    api.services.app.store.users.invalidate(None)


async def _forget_state(api: Api, user: str) -> None:
    """Remove everything of the user from the caches."""
    store = api.services.app.store
    await store.cache.one(Call("DEL", tuple(store.keys.of_user(UserId(user), name) for name in USER_KEYS)))


async def _do_nothing(_api: Api, _user: str) -> None:
    return


async def _measure(api: Api, user: str, query: str, prepare: Callable[[Api, str], Awaitable[None]]) -> Trips:
    """Return the least round trips of several openings: housekeeping may add to single ones."""
    store, runs = api.services.app.store, []
    for _ in range(RUNS):
        await prepare(api, user)
        await api.wait_until_idle()
        mongo, redis = store.mongo.trips, store.cache.trips
        await api.listen(user, query)
        runs.append(Trips(store.mongo.trips - mongo, store.cache.trips - redis))
        await api.stop_subscriptions()
    return Trips(min(run.mongo for run in runs), min(run.redis for run in runs))


@pytest.mark.parametrize(
    ("query", "prepare", "expected"),
    [
        # The route and the place on the clock.
        (LIVE_MESSAGES, _do_nothing, Trips(0, 1)),
        # And the total of unread messages.
        (LIVE_SESSIONS, _do_nothing, Trips(0, 2)),
        # The user.
        (LIVE_MESSAGES, _forget_profiles, Trips(1, 1)),
        # Session rows, heads and recent ticks; the state is looked for, claimed and stored before.
        (LIVE_MESSAGES, _forget_state, Trips(3, 4)),
    ],
    ids=["messages", "sessions", "unknown user", "state not cached"],
)
async def test_budget_of_opening_a_subscription(
    api: Api, query: str, prepare: Callable[[Api, str], Awaitable[None]], expected: Trips
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    assert await _measure(api, alice, query, prepare) == expected


async def test_connections_that_open_at_once_share_the_read_of_their_users(api: Api) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(20)))
    await gather_all(*(api.listen(user) for user in users))
    await api.stop_subscriptions()
    await _forget_profiles(api, "")
    trips = api.services.app.store.mongo.trips
    await gather_all(*(api.listen(user) for user in users))
    # The first read is for one user, the second for all others; housekeeping may read too.
    assert api.services.app.store.mongo.trips - trips <= 5
    await api.stop_subscriptions()


async def test_a_second_subscription_of_the_same_user_costs_no_round_trip(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    await api.listen(alice)
    await api.wait_until_idle()
    redis = api.services.app.store.cache.trips
    await gather_all(*(api.listen(alice) for _ in range(10)))
    assert api.services.app.store.cache.trips - redis < 10
    await api.stop_subscriptions()
