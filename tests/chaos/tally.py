"""Counts what happens during a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

_MAX_PROBLEMS = 500


@dataclass
class RunTally:
    """Operations, events, notes and problems of one run. Its size is bounded, even if everything goes wrong."""

    operations: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By operation, the number of each outcome."""
    events: Counter[str] = field(default_factory=Counter)
    closes: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)
    """Milliseconds from a message's createdAt until a device that had caught up received it."""
    longest: dict[str, float] = field(default_factory=dict)
    """The longest duration of each activity, in seconds."""
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def problem(self, sentence: str) -> None:
        """Note something that must not happen."""
        self.problem_count += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(sentence[:3000])

    def note_duration(self, activity: str, seconds: float) -> None:
        """Keep the longest duration of an activity."""
        self.longest[activity] = max(seconds, self.longest.get(activity, 0.0))
