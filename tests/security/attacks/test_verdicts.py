"""The verdict on a server that was attacked once, or three times."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.security.attacks.attack import Limits
from tests.security.attacks.measurement import Use, Watch
from tests.security.attacks.outcome import Outcome, Service, judge


def outcome(p99: float, *, rest: float | None = 0.01, failures: int = 0, cpu: float = 0.0) -> Outcome:
    """Return an attack of one request with a p99 of the bystander and the CPU time of the server, in seconds."""
    use = Use(100.0, 10, 0.0)
    used = Use(100.0, 10, cpu)
    return Outcome(
        "test",
        requests=1,
        codes=Counter(),
        largest=0,
        received=0,
        open_after=0,
        watch=Watch(use, 100.0, 10, used),
        meanwhile=Service({"me": [p99]}, Counter({"unanswered": failures} if failures else {})),
        rest=None if rest is None else Service({"me": [rest]}, Counter()),
    )


@pytest.mark.parametrize(
    ("times", "holds"), [([0.079], True), ([0.081], False), ([9.0, 0.01, 0.02], True), ([9.0, 0.01, 0.2], False)]
)
def test_the_p99_of_the_attempt_in_the_middle_counts(times: list[float], holds: bool) -> None:
    violations = judge([outcome(p99) for p99 in times], Limits())
    assert len(violations) == (0 if holds else 1)


def test_what_does_not_depend_on_the_machine_counts_in_every_attempt() -> None:
    attempts = [outcome(9.0, failures=1), outcome(0.01), outcome(0.02)]
    (violation,) = judge(attempts, Limits())
    assert "failed" in violation


def test_the_short_form_judges_no_times() -> None:
    assert not judge([outcome(9.0, rest=None)], Limits())


@pytest.mark.parametrize(("cpu", "rest", "holds"), [(0.11, 0.01, False), (0.11, None, True), (0.31, None, False)])
def test_the_short_form_allows_more_cpu_time(cpu: float, rest: float | None, holds: bool) -> None:
    violations = outcome(0.01, rest=rest, cpu=cpu).violations(Limits(cpu_ms=100.0))
    assert (not violations) == holds
