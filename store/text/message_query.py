"""Queries for messages: what a text must contain, and where it does (ADR 86)."""

from __future__ import annotations

from typing import NamedTuple


class TextRange(NamedTuple):
    """Part of a text, in code points: from `start`, up to and not including `end`."""

    start: int
    end: int


class NothingToFind(Exception):
    """Raised for a query that has no word, or only exclusions."""


class MessageQuery(NamedTuple):
    """A query that was read.

    Attributes:
        terms: Terms of every match, in any order. May be empty if `beginning` is not.
        beginning: Each match has a term that begins with it; "": nothing more than `terms`.
    """

    terms: tuple[str, ...]
    beginning: str

    def find_in(self, text: str) -> list[TextRange] | None:
        """Return where the words occur in a text, in order and without overlaps. None if the text does not match."""
        raise NotImplementedError


def parse_message_query(text: str) -> MessageQuery:
    """Read a query. Any text has a meaning, however its quotes and signs are placed. Raises NothingToFind."""
    raise NotImplementedError
