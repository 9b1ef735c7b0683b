"""What errors do to an answer, whichever of them came first."""

from __future__ import annotations

from typing import Any

from graphql import ExecutionResult

Place = tuple[Any, ...]


def nulled(result: ExecutionResult) -> set[Place]:
    """Where errors left null; with what went wrong where that was at the place itself. Which one is told of several errors that
    lead to the same null further out depends on which came first."""
    found: set[Place] = set()
    for error in result.errors or ():
        value, path, at = result.data, list(error.path or ()), []
        while value is not None and path:
            at.append(path.pop(0))
            value = value[at[-1]]
        found.add((*at, None if path else f"{error.message} {error.original_error!r} {error.locations}"))
    return {(*at[:-1], None) if (*at[:-1], None) in found else at for at in found}
