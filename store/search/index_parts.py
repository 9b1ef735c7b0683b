"""Parts of many messages that are indexed one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.messages.message import Message

MOST_CHARACTERS = 16_000
"""Characters of a part, unless it has one message. Each may be a term: MongoDB writes as many keys in 0.1 s."""


def index_parts(messages: Sequence[Message], most: int) -> Iterator[Sequence[Message]]:
    """Yield the messages in order, in parts that are written in a short time. most: messages of a part."""
    start = characters = 0
    for at, message in enumerate(messages):
        length = len(message.text or "")
        if at > start and (at - start == most or characters + length > MOST_CHARACTERS):
            yield messages[start:at]
            start, characters = at, 0
        characters += length
    if start < len(messages):
        yield messages[start:]
