"""Folding: texts that differ in case, diacritics or compatibility forms only become equal (ADR 86)."""

from __future__ import annotations


def fold(text: str) -> str:
    """Return a text in the form in which texts are compared. Idempotent."""
    raise NotImplementedError


def fold_with_origins(text: str) -> tuple[str, list[int]]:
    """Return `fold(text)`, and for each of its characters the position in `text` that it comes from.

    The list has one more item, the length of `text`.
    """
    raise NotImplementedError
