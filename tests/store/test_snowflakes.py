"""Ids are unique and increase, whatever the clock does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.base.errors import Unreachable
from store.base.snowflakes import EPOCH_MS, Snowflakes, created_at_ms, first_id_at
from tests.clock import ManualClock

NOW = 1_795_000_000_000


def _maker(clock: ManualClock, *, data_center: int = 3, worker: int = 7) -> Snowflakes:
    ids = Snowflakes(clock, data_center)
    ids.worker, ids.valid_until_ms = worker, 1 << 60
    return ids


@given(st.lists(st.integers(-5_000, 5_000), min_size=1, max_size=50), st.integers(1, 300))
def test_ids_increase_even_when_the_clock_steps_back(steps: list[int], at_once: int) -> None:
    clock = ManualClock(NOW)
    ids = _maker(clock)
    made = []
    for step in steps:
        clock.ms += step
        made += [ids.next() for _ in range(at_once)]
    assert made == sorted(set(made))
    assert all(0 < made_id < 1 << 63 for made_id in made)


def test_the_number_after_a_pair_is_not_used_again() -> None:
    ids = _maker(ManualClock(NOW))
    made = []
    for _ in range(3_001):
        single, pair = ids.next(), ids.next_pair()
        made += [single, pair, pair + 1]
    assert made == sorted(set(made)), "also at the end of the numbers of a millisecond"
    assert {created_at_ms(pair) for pair in made[1::3]} == {created_at_ms(pair) for pair in made[2::3]}


def test_too_many_ids_in_a_millisecond_run_ahead_of_the_clock() -> None:
    ids = _maker(ManualClock(NOW))
    made = [ids.next() for _ in range(5_000)]
    assert len(set(made)) == 5_000
    assert {created_at_ms(made_id) for made_id in made} == {NOW, NOW + 1}


def test_an_id_contains_its_time_data_centre_and_worker() -> None:
    made = _maker(ManualClock(NOW)).next()
    assert created_at_ms(made) == NOW
    assert (made >> 17 & 31, made >> 12 & 31) == (3, 7)
    assert first_id_at(NOW) <= made < first_id_at(NOW + 1)
    assert first_id_at(EPOCH_MS - 1) == 0


def test_without_a_worker_number_no_id_is_made() -> None:
    clock = ManualClock(NOW)
    ids = _maker(clock)
    ids.valid_until_ms = NOW + 10
    ids.next()
    clock.ms += 10
    with pytest.raises(Unreachable):
        ids.next()


def test_ids_that_run_ahead_of_the_clock_end_with_the_lease_too() -> None:
    ids = _maker(ManualClock(NOW))
    ids.valid_until_ms = NOW + 1
    assert {created_at_ms(ids.next()) for _ in range(4_096)} == {NOW}
    with pytest.raises(Unreachable):
        ids.next()
