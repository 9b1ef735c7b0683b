"""Nobody can tell a user who becomes INVISIBLE from one who departs, by answers, events or response times (ADR 81).

Pairs of users are prepared alike. One of each departs, the other becomes INVISIBLE at the same time of the clock. By
that clock both must be answered alike, with the same events at the same times. Response times are real, and compared by
a rank test. Users of both kinds are asked about in random order, so a busy machine slows down both.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from math import comb
from random import Random
from typing import Any

import pytest

from store.base.ids import UserId
from store.presence import presence_store
from store.presence.presence_record import DevicePresence, PresenceRecord
from tests.api.conftest import OpenApi, deployments, open_api
from tests.clock import ManualClock
from tests.invariants.invisible.observer import ON_THE_SAME_SERVER, Observer
from tests.invariants.invisible.pairs import Pairs, TwoServers
from tests.invariants.invisible.rank_test import FALSE_ALARMS, HEADLINE, RankTest, find_differences

__all__ = ["deployments", "open_api"]

SEED = int(os.environ.get("CONFAB_TEST_SEED", "24"))


@pytest.fixture
async def servers(open_api: OpenApi, request: pytest.FixtureRequest) -> AsyncIterator[TwoServers]:
    clock, name = ManualClock(), f"timing {request.node.name}"
    async with open_api(name, clock) as there, open_api(name, clock) as here:
        for api in (there, here):
            # These intervals are real time. Between them nothing would be sent while the clock is moved.
            api.services.app.presence.users.event_seconds = 0.0
            api.services.app.presence.publisher.seconds_between = 0.0
            api.services.app.work.per_second = 0
        yield TwoServers(there, here, clock)


async def observe(servers: TwoServers, count: int, rounds: int) -> Observer:
    """Let pairs of users make transitions, and check that both of each are answered alike at each time."""
    random = Random(SEED)
    pairs = await Pairs.create(servers, random, count)
    observer = Observer(pairs, random)
    for number in range(rounds):
        await pairs.connect()
        await observer.subscribe()
        if number % 4 == 0:
            await observer.ask("connected", is_measured=False)
            await pairs.acknowledge()
            # The windows of typing end.
            await servers.settle(4)
        await pairs.transit()
        await observer.ask("at once")
        await pairs.acknowledge()
        for seconds in (5, 9.999, 0.001):
            await servers.settle(seconds)
            observer.take_events()
            if number % 4 == 0:
                await observer.ask("later", is_measured=False)
        await servers.settle(1)
        await observer.ask("after 16 s")
        await pairs.acknowledge()
        await servers.settle(60)
        await observer.unsubscribe()
        observer.check_answers()
        await pairs.disconnect()
    return observer


@pytest.mark.parametrize(
    ("count", "rounds"),
    [pytest.param(10, 2, id="40 transitions"), pytest.param(25, 40, id="2000 transitions", marks=pytest.mark.long)],
)
async def test_departing_and_becoming_invisible_cannot_be_distinguished(
    servers: TwoServers, count: int, rounds: int
) -> None:
    observer = await observe(servers, count, rounds)
    tests = observer.tests()
    first = observer.first_is_invisible
    print(f"\n{2 * count * rounds} transitions, seed {SEED}; level {FALSE_ALARMS / (len(tests) + 1):.1g} for each test")
    print(HEADLINE, *tests, sep="\n")
    p = sign_test(sum(first), len(first))
    print(f"announced first: INVISIBLE in {sum(first)} of {len(first)} pairs, p {p:.2g}")
    assert all(len(test.departed) == len(test.invisible) == count * rounds for test in tests)
    assert not find_differences(tests)
    assert p >= FALSE_ALARMS / (len(tests) + 1)


def sign_test(successes: int, count: int) -> float:
    """Return the probability of such a number of heads, or one further from the half, of a fair coin."""
    least = min(successes, count - successes)
    return min(1.0, 2 * sum(comb(count, number) for number in range(least + 1)) / 2**count)


async def test_an_answer_that_takes_0_3_ms_longer_about_invisible_users_is_found(
    servers: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(SEED)
    pairs = await Pairs.create(servers, random, 5)
    await pairs.connect()
    observer = Observer(pairs, random)
    await observer.subscribe()
    await pairs.transit()
    presence = servers.here.services.app.presence
    monkeypatch.setattr(presence, "read", delayed(presence.read, pairs))
    # A busy machine needs more questions.
    for _ in range(100):
        people = pairs.people * 20
        random.shuffle(people)
        for person in people:
            await observer._ask("presences", person, "at once")
        if find_differences(observer.tests()):
            break
    (found,) = find_differences(observer.tests())
    assert found.z > 0
    assert ON_THE_SAME_SERVER not in found.name


def delayed(read: Callable[..., Any], pairs: Pairs) -> Callable[..., Any]:
    """Return a function that reads the presence of INVISIBLE users 0.3 ms more slowly."""
    invisible = {UserId(person.user) for person in pairs.people if person.is_invisible}

    async def read_slowly(users: set[UserId]) -> Any:
        end = time.perf_counter() + 0.0003
        while users & invisible and time.perf_counter() < end:
            pass
        return await read(users)

    return read_slowly


async def test_an_announcement_of_invisible_users_after_14_seconds_is_found(
    servers: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    departed_devices = presence_store.departed_devices

    def depart_early(record: PresenceRecord, find_end: Any, now_ms: int) -> tuple[DevicePresence, ...]:
        return departed_devices(record, find_end, now_ms - 1000)

    monkeypatch.setattr(presence_store, "departed_devices", depart_early)
    with pytest.raises(AssertionError, match="OFFLINE"):
        await observe(servers, 2, 1)


def test_the_rank_test_agrees_with_known_values() -> None:
    # By hand: of the nine pairs, seven are larger and one is equal.
    small = RankTest("small", [1.0, 2.0, 3.0], [2.0, 4.0, 5.0])
    assert small.u == 7.5
    same = RankTest("same", [1.0] * 10, [1.0] * 10)
    assert (same.z, same.p) == (0.0, 1.0)
    apart = RankTest("apart", list(map(float, range(20))), list(map(float, range(20, 40))))
    assert apart.u == 400 and round(apart.z, 2) == 5.41
    assert find_differences([small, same, apart]) == [apart]
    assert find_differences([small, same]) == []
    assert sign_test(0, 10) == 2 / 1024 and sign_test(5, 10) == 1.0
