"""Counts operations by result, and measures their duration."""

from __future__ import annotations

from collections import Counter, defaultdict

from store.base.counters import SECONDS, Histogram
from subscriptions.transport.engine import Json, OperationKind

OK = "OK"
UNKNOWN = "none"
"""Root field and kind of an operation that was refused before they were known."""


class OperationMeter:
    """Counters of one process by root field, operation kind, and result: OK or the first error code.

    There are as many root fields as in the schema, and one name for requests to incoming webhooks.
    """

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, OperationKind | str, str]] = Counter()
        self.seconds: defaultdict[tuple[str, OperationKind | str], Histogram] = defaultdict(lambda: Histogram(SECONDS))

    def record(self, root: str, kind: OperationKind, code: str, seconds: float) -> None:
        """Count an operation that ended."""
        self.ended[root, kind, code] += 1
        self.seconds[root, kind].observe(seconds)

    def record_refusal(self, code: str) -> None:
        """Count an operation that was refused before it began."""
        self.ended[UNKNOWN, UNKNOWN, code] += 1


def code_of(response: Json) -> str:
    """Return OK, or the first error code of a response."""
    errors = response.get("errors")
    return code_of_errors(errors) if errors else OK


def code_of_errors(errors: list[Json]) -> str:
    """Return the code of the first error."""
    extensions = errors[0].get("extensions") if errors else None
    return str((extensions or {}).get("code", "INTERNAL"))
