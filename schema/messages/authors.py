"""The author of a message as clients show it. Only this module decides on the name and the picture."""

from __future__ import annotations

from typing import Any, NamedTuple

from schema.base.context import Context
from schema.compiler import then
from store.base.workspace_ids import is_in_workspace, workspace_of_channel
from store.messages.message import Message
from store.users.user import User


class Author(NamedTuple):
    """Name and picture to show as the author of a message."""

    name: str
    avatar_url: str | None


def load_author(context: Context, message: Message) -> Any:
    """Return the author of a message, or a Deferred of it.

    In a channel and its threads the name is the nickname, if there is one. A message from a webhook has the name and
    picture that it came with; one that is missing is the webhook's own.
    """
    sender = context.loaders.user(message.sender)
    given = message.author
    if given is not None:
        name, avatar_url = given
        return then(sender, lambda user: Author(name or user.display_name, avatar_url or user.avatar_url))
    if not is_in_workspace(message.conversation) or message.is_withheld:
        return then(sender, _author_from)
    nickname = context.loaders.nickname(workspace_of_channel(message.conversation), message.sender)
    return then(sender, lambda user: then(nickname, lambda name: Author(name or user.display_name, user.avatar_url)))


def _author_from(sender: User) -> Author:
    return Author(sender.display_name, sender.avatar_url)
