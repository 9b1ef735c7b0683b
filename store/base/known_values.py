"""Values of rows and records that a later version of Confab may have written (ADR 104)."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

E = TypeVar("E", bound=Enum)
D = TypeVar("D")


def known_value(kind: type[E], stored: Any, default: D) -> E | D:
    """Return a stored value as a member of an enum; `default` if this version does not know the value."""
    try:
        return kind(stored)
    except ValueError:
        return default
