"""Pages of lists, as in Relay connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from resolvers.base.cursors import encode_page
from resolvers.base.errors import InvalidInput

T = TypeVar("T")

LARGEST_PAGE = 100


@dataclass(slots=True)
class Edge(Generic[T]):
    """An item of a list with its position: the kind of list, and what identifies the position in it."""

    node: T
    position: tuple[str, *tuple[str | int, ...]]

    @property
    def cursor(self) -> str:
        """The position as a cursor of the API. Encoded on use, because most clients ask for the last one only."""
        return encode_page(*self.position)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list."""

    edges: list[Edge[T]]
    has_next: bool
    has_previous: bool
    end_position: tuple[str, *tuple[str | int, ...]] | None = None
    """Where the next page begins, if that may be after the last item."""

    @property
    def start_cursor(self) -> str | None:
        """The cursor of the first item, if there is one."""
        return self.edges[0].cursor if self.edges else None

    @property
    def end_cursor(self) -> str | None:
        """The cursor of the last item, or of the next page, if there is one."""
        if self.end_position is not None:
            return encode_page(*self.end_position)
        return self.edges[-1].cursor if self.edges else None


class PageSizes:
    """Sizes of the pages in one execution of a query.

    Messages of other people may have 5,000 mentions each, so that a page of them has too many values. The query is then
    executed again with shorter pages instead of being refused.
    """

    def __init__(self, divisor: int = 1) -> None:
        """Create sizes that are the requested ones divided by `divisor`, and at least 1."""
        self.divisor = divisor
        self.can_shrink = False
        """True if a page had more than one item, so that a larger divisor makes it shorter."""

    def check(self, size: int | None, field: str) -> int:
        """Return the number of items to read for a requested page size. Raises InvalidInput like `check_page_size`."""
        size = max(1, check_page_size(size, field) // self.divisor)
        self.can_shrink = self.can_shrink or size > 1
        return size


def check_page_size(size: int | None, field: str) -> int:
    """Return a page size if the contract allows it. Raises InvalidInput."""
    if size is None or not 1 <= size <= LARGEST_PAGE:
        raise InvalidInput(f"{field} must be from 1 to {LARGEST_PAGE}", field=field)
    return size
