"""Positions on shared clocks, as clients give them: an id, and the last rev that they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SharedPosition:
    """A position of a client. rev: None: from now on."""

    id: str
    rev: int | None


def check_positions(positions: Sequence[SharedPosition], most: int, field: str) -> None:
    """Check the positions of a subscription. Raises InvalidInput."""
    if not 1 <= len(positions) <= most:
        raise InvalidInput(f"{field} must have 1 to {most} positions", field=field)
    if len({position.id for position in positions}) < len(positions):
        raise InvalidInput(f"{field} must not name anything twice", field=field)
