"""Operations that wait for event streams are bounded by user and by process."""

from __future__ import annotations

import pytest

from resolvers.base.errors import RateLimited, Unavailable
from server.overload.queued_operations import QueuedOperations
from store.base.ids import UserId
from store.deployment.event_streams import RESERVED_MS

ALICE, BOB = UserId("alice"), UserId("bob")


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_operations_of_a_user_are_bounded_over_all_streams_and_do_not_affect_others() -> None:
    queued = QueuedOperations(3, 1_000)
    assert all(queued.add(ALICE, token, id, 10) for token, id in (("a", "1"), ("a", "2"), ("b", "1")))
    with pytest.raises(RateLimited) as refusal:
        queued.add(ALICE, "c", "1", 10)
    assert refusal.value.retry_after_ms == 1_000
    assert not queued.add(ALICE, "a", "1", 10)
    assert queued.add(BOB, "d", "1", 10)
    assert (queued.count, queued.size, queued.refused) == (4, 40, 1)
    queued.remove("a", "2")
    queued.remove("a", "2")
    assert queued.add(ALICE, "c", "1", 10)
    queued.remove_stream("a")
    queued.remove_stream("unknown")
    assert queued.add(ALICE, "c", "2", 10)
    assert (queued.count, queued.size) == (4, 40)


def test_bytes_of_all_users_are_bounded() -> None:
    queued = QueuedOperations(3, 100)
    assert queued.add(ALICE, "a", "1", 60)
    with pytest.raises(Unavailable):
        queued.add(BOB, "b", "1", 41)
    assert (queued.count, queued.size, queued.refused) == (1, 60, 1)
    assert queued.add(BOB, "b", "1", 40)


def test_operations_count_until_redis_deletes_them() -> None:
    clock = Clock()
    queued = QueuedOperations(2, 1_000, clock)
    assert queued.add(ALICE, "a", "1", 10)
    clock.seconds = RESERVED_MS / 1000 - 1
    assert queued.add(ALICE, "b", "1", 10)
    clock.seconds += 1
    assert queued.add(ALICE, "c", "1", 10)
    with pytest.raises(RateLimited):
        queued.add(ALICE, "d", "1", 10)
    # A later operation of a stream prolongs the wait of its earlier ones.
    queued.remove("b", "1")
    clock.seconds += 30
    assert queued.add(ALICE, "c", "2", 10)
    clock.seconds += 31
    with pytest.raises(RateLimited):
        queued.add(ALICE, "d", "1", 10)
    clock.seconds += 30
    assert queued.add(ALICE, "d", "1", 10)
    assert (queued.count, queued.size) == (1, 10)
