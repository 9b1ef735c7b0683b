"""The author of a message as clients show it. Only this module decides on the name and the picture."""

from __future__ import annotations

from typing import Any, NamedTuple

from schema.base.context import Context
from schema.compiler import then
from store.messages.message import Message
from store.users.user import User


class Author(NamedTuple):
    """Name and picture to show as the author of a message."""

    name: str
    avatar_url: str | None


def load_author(context: Context, message: Message) -> Any:
    """Return the author of a message, or a Deferred of it. Reads only what `Message.sender` reads."""
    return then(context.loaders.user(message.sender), _author_from)


def _author_from(sender: User) -> Author:
    return Author(sender.display_name, sender.avatar_url)
