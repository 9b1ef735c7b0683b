"""Cursors of searches: a position among the results of one search of one user."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from resolvers.base.cursors import decode_page, is_number
from resolvers.base.errors import InvalidInput
from resolvers.search.search_filter import SearchFilter
from store.base.ids import MessageId, UserId, message_id, parse_message_id

_KIND = "q"
_MOST_FOUND = 1_000_000_000
"""Largest number of results in a cursor, so that `totalAtLeast` is a valid Int also with a forged one."""


class SearchPosition(NamedTuple):
    """A position in the results.

    Attributes:
        id: The message at the position. Results after it have lower ids.
        found: Number of results up to and including this position.
    """

    id: MessageId
    found: int


class SearchCursors:
    """Makes and reads the cursors of one search. Cursors of other queries, filters and users are refused."""

    def __init__(self, viewer: UserId, query: str, given: SearchFilter) -> None:
        """Make the cursors of a search. given: The filter, checked."""
        text = repr((viewer, query, given))
        self._checksum = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def position(self, message: MessageId, found: int) -> tuple[str, str, int, str]:
        """Return the parts of the cursor at a message."""
        return (_KIND, message_id(message), found, self._checksum)

    def decode(self, after: str | None) -> SearchPosition | None:
        """Return the position of a cursor; None without a cursor. Raises InvalidInput."""
        if after is None:
            return None
        parts = decode_page(_KIND, after, "after")
        if len(parts) == 3 and parts[2] == self._checksum and is_number(parts[1]):
            message, found = parse_message_id(parts[0]), int(parts[1])
            if message is not None and found <= _MOST_FOUND:
                return SearchPosition(message, found)
        raise InvalidInput("after must be a cursor of this search", field="after")
