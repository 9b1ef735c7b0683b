"""The timer wheel makes calls in time, with one timer of the event loop for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from subscriptions.transport.timer_wheel import TimerWheel


class ManualLoop:
    """A clock and timers that move only when a test moves them."""

    def __init__(self) -> None:
        self.now = 1000.25
        self.wake_ups = 0
        self._timers: dict[ManualTimer, Callable[[], None]] = {}

    def call_at(self, at: float, call: Callable[[], None]) -> Any:
        timer = ManualTimer(self, at)
        self._timers[timer] = call
        return timer

    def cancel(self, timer: ManualTimer) -> None:
        self._timers.pop(timer, None)

    @property
    def waiting(self) -> int:
        return len(self._timers)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers:
            timer = min(self._timers, key=lambda timer: timer.at)
            if timer.at > end:
                break
            self.now = max(self.now, timer.at)
            self.wake_ups += 1
            self._timers.pop(timer)()
        self.now = end


class ManualTimer:
    def __init__(self, loop: ManualLoop, at: float) -> None:
        self._loop = loop
        self.at = at

    def cancel(self) -> None:
        self._loop.cancel(self)


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


@pytest.fixture
def wheel(loop: ManualLoop) -> TimerWheel:
    return TimerWheel(0.5, lambda: loop.now, loop.call_at)


def test_calls_are_made_at_most_one_bucket_late_and_never_early(loop: ManualLoop, wheel: TimerWheel) -> None:
    began, made = loop.now, []
    for tenths in range(1, 40):
        due = began + tenths / 10
        wheel.call_after(tenths / 10, lambda due=due: made.append((due, loop.now)))  # type: ignore[misc]
    loop.pass_time(10)
    assert len(made) == 39
    assert all(due <= at <= due + 0.5 for due, at in made)


def test_early_calls_are_made_at_most_one_bucket_early_and_never_late(loop: ManualLoop, wheel: TimerWheel) -> None:
    made: list[float] = []
    wheel.call_after(25, lambda: made.append(loop.now), early=True)
    due = loop.now + 25
    loop.pass_time(30)
    assert len(made) == 1 and due - 0.5 <= made[0] <= due


def test_a_thousand_timers_need_one_wake_up_per_bucket(loop: ManualLoop, wheel: TimerWheel) -> None:
    made: list[int] = []
    for number in range(1000):
        wheel.call_after(20 + number / 250, lambda number=number: made.append(number))  # type: ignore[misc]
    assert loop.waiting == 1
    loop.pass_time(30)
    assert sorted(made) == list(range(1000))
    assert loop.wake_ups <= 9
    assert loop.waiting == 0


def test_a_cancelled_timer_is_not_called_and_not_kept(loop: ManualLoop, wheel: TimerWheel) -> None:
    made: list[str] = []
    timer = wheel.call_after(1, lambda: made.append("cancelled"))
    wheel.call_after(1, lambda: made.append("kept"))
    wheel.cancel(timer)
    wheel.cancel(timer)
    loop.pass_time(2)
    assert made == ["kept"]
    wheel.cancel(timer)
    assert not wheel._buckets


def test_a_sooner_timer_replaces_the_wake_up_of_a_later_one(loop: ManualLoop, wheel: TimerWheel) -> None:
    made: list[str] = []
    wheel.call_after(10, lambda: made.append("late"))
    wheel.call_after(1, lambda: made.append("soon"))
    assert loop.waiting == 1
    loop.pass_time(2)
    assert made == ["soon"]
    loop.pass_time(9)
    assert made == ["soon", "late"]


def test_calls_may_add_timers_and_their_failures_do_not_stop_others(loop: ManualLoop, wheel: TimerWheel) -> None:
    made: list[float] = []

    def again() -> None:
        made.append(loop.now)
        wheel.call_after(1, again)

    wheel.call_after(1, lambda: made.append(1 / 0))
    wheel.call_after(1, again)
    loop.pass_time(5.2)
    assert len(made) == 4
    assert loop.waiting == 1


def test_timers_that_became_due_while_the_loop_was_held_up_are_called_at_once(
    loop: ManualLoop, wheel: TimerWheel
) -> None:
    made: list[int] = []
    for seconds in range(1, 6):
        wheel.call_after(seconds, lambda seconds=seconds: made.append(seconds))  # type: ignore[misc]
    loop.now += 4
    loop.pass_time(0)
    assert made == [1, 2, 3] or made == [1, 2, 3, 4]


def test_a_timer_that_a_late_call_adds_leaves_the_loop_time_to_read(loop: ManualLoop, wheel: TimerWheel) -> None:
    turns: list[int] = []

    def call() -> None:
        turns.append(loop.wake_ups)
        wheel.call_after(-20, lambda: turns.append(loop.wake_ups), early=True)

    wheel.call_after(1, call)
    loop.now += 30
    loop.pass_time(1)
    assert turns == [1, 2]


def test_a_timer_that_a_call_of_the_same_turn_cancels_makes_no_call(loop: ManualLoop, wheel: TimerWheel) -> None:
    made: list[str] = []
    timers = [wheel.call_after(1, lambda: wheel.cancel(timers[1])), wheel.call_after(1, lambda: made.append("second"))]
    loop.pass_time(5)
    assert made == []
    assert loop.waiting == 0
