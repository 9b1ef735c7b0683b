"""Measurements of an attack, and the verdict on the server."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.security.attacks.attack import Limits
from tests.security.attacks.measurement import Watch, percentile

_SLOWDOWN = 3.0
_ALLOWANCE_SECONDS = 0.05
_SHORT_FORM_CPU = 3.0
"""The short form runs while other tests do. Then the same work takes more CPU time than on a quiet machine."""
_MAX_FETCHES = 6
"""One at the start of the server, and one in ten seconds."""


@dataclass(frozen=True, slots=True)
class Service:
    """Answers to the bystander in some time."""

    samples: dict[str, list[float]]
    failures: Counter[str]

    @classmethod
    def of(cls, reports: dict[str, Any]) -> Service:
        return cls(reports["samples"], Counter(reports["failures"]))

    def milliseconds(self, share: float) -> float:
        """Return a percentile of the slower kind of operations."""
        return 1000 * max(percentile(samples, share) for samples in self.samples.values())

    @property
    def count(self) -> int:
        return sum(len(samples) for samples in self.samples.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """Measurements of one attack."""

    name: str
    requests: int
    codes: Counter[str]
    largest: int
    received: int
    open_after: int
    watch: Watch
    meanwhile: Service
    rest: Service | None = None
    """The bystander before the attack. None in the short form, which judges no times."""
    died: bool = False
    fetches: int = 0
    """Times that the server has fetched the keys of its identity provider."""
    log: list[str] = field(default_factory=list)
    """Errors in the server's log."""

    @property
    def allowed_milliseconds(self) -> float:
        """The longest p99 of the bystander with which the server holds. It depends on the p99 at rest."""
        assert self.rest is not None
        return _SLOWDOWN * self.rest.milliseconds(0.99) + 1000 * _ALLOWANCE_SECONDS

    @property
    def slowness(self) -> float:
        """The bystander's p99 as a share of what is allowed. Always 0 in the short form."""
        return 0.0 if self.rest is None else self.meanwhile.milliseconds(0.99) / self.allowed_milliseconds

    def violations(self, limits: Limits) -> list[str]:
        """Return how the server did not hold."""
        found = self.violations_besides_times(limits)
        if self.slowness > 1:
            p99 = self.meanwhile.milliseconds(0.99)
            found.append(f"p99 of the bystander {p99:.0f} ms > {self.allowed_milliseconds:.0f}")
        return found

    def violations_besides_times(self, limits: Limits) -> list[str]:
        """Return how the server did not hold, as far as it does not depend on the speed of the machine."""
        found = []
        if self.died:
            found.append("the server ended")
        if self.meanwhile.failures:
            found.append(f"{sum(self.meanwhile.failures.values())} of {self.meanwhile.count} operations of the "
                         f"bystander failed: {dict(self.meanwhile.failures)}")  # fmt: skip
        if self.log:
            found.append(f"{len(self.log)} errors in the log, the first: {self.log[0][:300]}")
        return found + self._exceeded(limits)

    def _exceeded(self, limits: Limits) -> list[str]:
        found = []
        if limits.codes is not None and set(self.codes) - limits.codes:
            found.append(f"answered with {dict(self.codes)}, not only {', '.join(sorted(limits.codes))}")
        if limits.refused_with is not None and limits.refused_with not in self.codes:
            found.append(f"never refused with {limits.refused_with}")
        if self.fetches > _MAX_FETCHES:
            found.append(f"the identity provider was asked {self.fetches} times")
        if "INTERNAL" in self.codes:
            found.append(f"{self.codes['INTERNAL']} answers are INTERNAL")
        if limits.answer_bytes is not None and self.largest > limits.answer_bytes:
            found.append(f"an answer of {self.largest:,} bytes > {limits.answer_bytes:,}")
        if limits.cpu_ms is not None:
            cpu_ms = 1000 * self.watch.cpu / max(1, self.requests)
            allowed = limits.cpu_ms * (_SHORT_FORM_CPU if self.rest is None else 1.0)
            if cpu_ms > allowed:
                found.append(f"{cpu_ms:.0f} ms of CPU for each request > {allowed:.0f}")
        before = self.watch.before.mb
        if self.watch.peak_mb - before > limits.peak_mb:
            found.append(f"memory grew from {before:.0f} to {self.watch.peak_mb:.0f} MB")
        if self.watch.after.mb - before > limits.kept_mb:
            found.append(f"{self.watch.after.mb - before:.0f} MB stay in memory > {limits.kept_mb:.0f}")
        if limits.open_after is not None and self.open_after > limits.open_after:
            found.append(f"{self.open_after} connections are still open")
        return found


def judge(attempts: list[Outcome], limits: Limits) -> list[str]:
    """Return how the server did not hold in some attempts: every violation, and the p99 of the attempt in the middle.

    So one stall of a machine that other programs use too does not decide.
    """
    middle = sorted(attempts, key=lambda outcome: outcome.slowness)[len(attempts) // 2]
    others = [each.violations_besides_times(limits) for each in attempts if each is not middle]
    return middle.violations(limits) + [violation for found in others for violation in found]


def merge(outcomes: list[Outcome]) -> Outcome:
    """Return the measurements of all rounds together."""
    first, last = outcomes[0], outcomes[-1]
    codes: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    samples: dict[str, list[float]] = {kind: [] for kind in first.meanwhile.samples}
    for outcome in outcomes:
        codes.update(outcome.codes)
        failures.update(outcome.meanwhile.failures)
        for kind, found in outcome.meanwhile.samples.items():
            samples[kind] += found
    watch = Watch(
        first.watch.before,
        max(outcome.watch.peak_mb for outcome in outcomes),
        max(outcome.watch.peak_files for outcome in outcomes),
        last.watch.after,
    )
    return Outcome(
        "all",
        requests=sum(outcome.requests for outcome in outcomes),
        codes=codes,
        largest=max(outcome.largest for outcome in outcomes),
        received=sum(outcome.received for outcome in outcomes),
        open_after=last.open_after,
        watch=watch,
        meanwhile=Service(samples, failures),
        rest=first.rest,
        died=last.died,
        log=[line for outcome in outcomes for line in outcome.log],
    )
