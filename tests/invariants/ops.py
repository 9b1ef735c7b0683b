"""What people do, as values: what a model and an API are both told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Op:
    """One mutation. `value` is what the kind needs beside user and target."""

    kind: str
    user: str
    target: str = ""
    value: Any = None
