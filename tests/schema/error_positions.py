"""Positions of errors in a response, independent of the order in which the errors occurred."""

from __future__ import annotations

from typing import Any

from graphql import ExecutionResult

Position = tuple[Any, ...]


def null_positions(result: ExecutionResult) -> set[Position]:
    """Return the positions at which errors left null. An error at the position itself adds its message.

    If several errors lead to the same null further out, the first one to occur is reported, which may be any of them.
    """
    positions: set[Position] = set()
    for error in result.errors or ():
        value, path, position = result.data, list(error.path or ()), []
        while value is not None and path:
            position.append(path.pop(0))
            value = value[position[-1]]
        positions.add((*position, None if path else f"{error.message} {error.original_error!r} {error.locations}"))
    return {(*position[:-1], None) if (*position[:-1], None) in positions else position for position in positions}
