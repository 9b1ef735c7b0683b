"""Pages of lists, as in Relay connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from resolvers.base.errors import InvalidInput

T = TypeVar("T")

LARGEST_PAGE = 100


@dataclass(frozen=True, slots=True)
class Edge(Generic[T]):
    """An item of a list with its cursor."""

    node: T
    cursor: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list."""

    edges: list[Edge[T]]
    has_next: bool
    has_previous: bool


def check_page_size(size: int | None, field: str) -> int:
    """Return a page size if the contract allows it. Raises InvalidInput."""
    if size is None or not 1 <= size <= LARGEST_PAGE:
        raise InvalidInput(f"{field} must be from 1 to {LARGEST_PAGE}", field=field)
    return size
