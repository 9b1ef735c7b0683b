"""Values of rows and records that a later version of Confab may have written (ADR 104)."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

E = TypeVar("E", bound=Enum)
D = TypeVar("D")


def known_value(kind: type[E], stored: Any, default: D) -> E | D:
    """Return the value that is stored; `default` for one that this version does not know."""
    try:
        return kind(stored)
    except ValueError:
        return default
