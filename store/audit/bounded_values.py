"""Limits the size of values in entries: an entry describes a change, and does not copy the changed object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

MOST_BYTES = 8_192
"""Largest size of the values before or after a change, as JSON."""

LONGEST_REASON = 512

_LONGEST_TEXT = 1_024
_LONGEST_LIST = 250
_SHORTEST = 8


def bounded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with at most MOST_BYTES. Long texts end with "…"; the last item of a cut list is "…" too."""
    text, items = _LONGEST_TEXT, _LONGEST_LIST
    while True:
        cut: dict[str, Any] = _cut(values, text, items)
        if len(orjson.dumps(cut)) <= MOST_BYTES:
            return cut
        if text <= _SHORTEST:
            return {"…": None}
        text, items = text // 2, max(_SHORTEST, items // 2)


def shortened(text: str, longest: int) -> str:
    """Return the beginning of a text with "…" if it is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _cut(value: Any, text: int, items: int) -> Any:
    if isinstance(value, str):
        return shortened(value, text)
    if isinstance(value, Mapping):
        return {name: _cut(inner, text, items) for name, inner in list(value.items())[:items]}
    if isinstance(value, list | tuple):
        kept = [_cut(inner, text, items) for inner in value[:items]]
        return [*kept, "…"] if len(value) > items else kept
    return value
