"""Counts what happens on the shared clocks of one process, for its metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class SharedCounters:
    """Counts since the start of the process.

    Attributes:
        published: Events that this process gave a place on a clock, by kind.
        resumed: Conversations and workspaces whose missed events a subscription got from its rev on.
        reset: Those whose rev could not be resumed.
    """

    published: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    reset: int = 0

    def count_resume(self, *, is_reset: bool) -> None:
        """Count a subscription that asked for the events after a rev."""
        self.reset += is_reset
        self.resumed += not is_reset
