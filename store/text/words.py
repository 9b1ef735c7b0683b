"""The terms of a text, by which the index of messages finds it (ADR 86)."""

from __future__ import annotations

LONGEST_TERM = 24
"""Characters of a term. Longer ones are cut."""


def terms_of(text: str) -> set[str]:
    """Return the terms of a text: folded, without white space and control characters, at most `LONGEST_TERM` long."""
    raise NotImplementedError
