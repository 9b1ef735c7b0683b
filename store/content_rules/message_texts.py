"""The texts of a message that content rules judge."""

from __future__ import annotations

from collections.abc import Iterator

from store.messages.message import Message


def texts_of(message: Message) -> Iterator[str]:
    """Yield the text of a message, and those of the embeds that a bot, a service or a webhook gave.

    Not those of link previews, which others have written, and not the names of files.
    """
    if message.text:
        yield message.text
    for embed in message.embeds.given:
        yield from filter(None, (embed.title, embed.description, embed.author_name))
        for field in embed.fields:
            yield field.name
            yield field.value
