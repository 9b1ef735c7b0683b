"""Other ways to search the same messages with MongoDB: a scan with regular expressions, and a text index."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.collection import Collection
from pymongo.errors import ExecutionTimeout

from bench.search.questions import Kind
from bench.session_data import Row
from store.messages.message_fields import MessageField

_PAGE = 25
_SECONDS = 5
"""Time limit of one search."""

_TEXT_INDEX = "text"


@dataclass(frozen=True, slots=True)
class Measured:
    """A kind of questions, asked in one way. `late`: number of questions that took longer than the limit."""

    name: str
    seconds: Sequence[float]
    found: int
    late: int = 0


class PlainSearch:
    """Searches some conversations without an index of Confab."""

    def __init__(self, messages: Collection[Row], conversations: Sequence[str]) -> None:
        self._messages = messages
        self._places: Row = {MessageField.CONVERSATION: {"$in": list(conversations)}}

    def scan(self, kind: Kind, count: int) -> Measured:
        """Ask questions of a kind with regular expressions."""
        assert kind.pattern is not None
        pattern = kind.pattern
        return self._ask(kind, count, lambda query: {MessageField.TEXT: re.compile(pattern(query), re.IGNORECASE)})

    def make_text_index(self) -> tuple[float, int]:
        """Make a text index of all messages. Return the seconds that it took, and its bytes."""
        began = time.monotonic()
        self._messages.create_index([(MessageField.TEXT, "text")], name=_TEXT_INDEX, default_language="none")
        seconds = time.monotonic() - began
        sizes = self._messages.database.command("collStats", self._messages.name)["indexSizes"]
        return seconds, sizes[_TEXT_INDEX]

    def ask_text_index(self, kind: Kind, count: int) -> Measured:
        """Ask questions of a kind with the text index."""
        return self._ask(kind, count, lambda query: {"$text": {"$search": query}})

    def _ask(self, kind: Kind, count: int, condition: Callable[[str], dict[str, Any]]) -> Measured:
        seconds: list[float] = []
        found = late = 0
        for question in kind.questions[:count]:
            began = time.perf_counter()
            wanted = self._places | condition(question.query)
            try:
                cursor = self._messages.find(wanted, max_time_ms=1000 * _SECONDS).sort("_id", -1).limit(_PAGE)
                found += len(list(cursor))
            except ExecutionTimeout:
                late += 1
            seconds.append(time.perf_counter() - began)
        return Measured(kind.name, seconds, found, late)
