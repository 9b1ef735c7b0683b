"""One call to Redis, as repositories write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A Redis command, or a script by its name, with the keys it touches and then its arguments."""

    name: str
    keys: tuple[str, ...]
    args: tuple[Any, ...] = ()
