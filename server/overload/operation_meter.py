"""How many operations there were, how they ended, and how long they took."""

from __future__ import annotations

from collections import Counter, defaultdict

from store.base.counters import SECONDS, Histogram
from subscriptions.transport.engine import Json, OperationKind

OK = "OK"
NEVER_BEGAN = "none"
"""Stands for the root field of what was refused before it was known."""


class OperationMeter:
    """Of one process. By root field, of which there are as many as in the schema, by kind, and by how they ended: OK, or the first of
    the codes."""

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, OperationKind | str, str]] = Counter()
        self.seconds: defaultdict[tuple[str, OperationKind | str], Histogram] = defaultdict(lambda: Histogram(SECONDS))

    def take(self, root: str, kind: OperationKind, code: str, seconds: float) -> None:
        """One that ended."""
        self.ended[root, kind, code] += 1
        self.seconds[root, kind].observe(seconds)

    def refuse(self, code: str) -> None:
        """One that never began."""
        self.ended[NEVER_BEGAN, NEVER_BEGAN, code] += 1


def code_of(response: Json) -> str:
    """How an operation with this response ended."""
    errors = response.get("errors")
    return code_of_errors(errors) if errors else OK


def code_of_errors(errors: list[Json]) -> str:
    """The first one's code."""
    extensions = errors[0].get("extensions") if errors else None
    return str((extensions or {}).get("code", "INTERNAL"))
