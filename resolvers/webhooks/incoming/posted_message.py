"""The body of a request to an incoming webhook: Confab's own form, or that of Slack. Unknown fields are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from resolvers.base.errors import InvalidInput
from resolvers.messages.given_embeds import NewEmbed
from resolvers.webhooks.incoming.slack_messages import is_slack_message, slack_text

Body = Mapping[str, Any]


class PostedMessage(NamedTuple):
    """A message as the sender gave it: types are checked, values are not. `is_slack`: the body has Slack's form."""

    content: str
    thread_of: str | None = None
    username: str | None = None
    avatar_url: str | None = None
    embeds: tuple[NewEmbed, ...] = ()
    metadata: object = None
    key: str | None = None
    is_slack: bool = False


def parse_posted_message(body: object) -> PostedMessage:
    """Return the message of a decoded body. Raises InvalidInput, with the path of the field that has another type."""
    if not isinstance(body, Mapping):
        raise InvalidInput("the body must be a JSON object")
    if is_slack_message(body):
        return PostedMessage(
            slack_text(body),
            username=_text(body, "username"),
            avatar_url=_text(body, "icon_url"),
            is_slack=True,
        )
    return PostedMessage(
        _text(body, "content") or "",
        _text(body, "threadOf"),
        _text(body, "username"),
        _text(body, "avatarUrl"),
        tuple(_embed(embed, f"embeds[{i}]") for i, embed in enumerate(_list(body, "embeds"))),
        body.get("metadata"),
        # An empty key is refused, not ignored: the sender relies on it.
        _text(body, "idempotencyKey", empty_is_none=False),
    )


def _embed(value: object, path: str) -> NewEmbed:
    embed = _object(value, path)
    fields = _list(embed, "fields", path)
    return NewEmbed(
        url=_text(embed, "url", path),
        title=_text(embed, "title", path),
        description=_text(embed, "description", path),
        author_name=_text(embed, "authorName", path),
        color=_text(embed, "color", path),
        image_url=_text(embed, "imageUrl", path),
        fields=tuple(_field(field, f"{path}.fields[{i}]") for i, field in enumerate(fields)),
    )


def _field(value: object, path: str) -> tuple[str, str, bool]:
    field = _object(value, path)
    is_inline = field.get("inline") or False
    if not isinstance(is_inline, bool):
        raise InvalidInput("inline must be a boolean", field=f"{path}.inline")
    return _text(field, "name", path) or "", _text(field, "value", path) or "", is_inline


def _object(value: object, path: str) -> Body:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{path} must be an object", field=path)
    return value


def _list(body: Body, name: str, inside: str = "") -> list[Any]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"{name} must be an array", field=f"{inside}.{name}" if inside else name)
    return value


def _text(body: Body, name: str, inside: str = "", *, empty_is_none: bool = True) -> str | None:
    value = body.get(name)
    if value is None or (value == "" and empty_is_none):
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string", field=f"{inside}.{name}" if inside else name)
    return value
