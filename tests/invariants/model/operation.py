"""Mutations as values, for the model and for the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Op:
    """One mutation. `value` holds the arguments of its kind other than user and target."""

    kind: str
    user: str
    target: str = ""
    value: Any = None
