"""Bodies of Slack's incoming webhooks, read as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from resolvers.base.checks import LONGEST_CONTENT
from resolvers.base.errors import InvalidInput

_OWN_FIELDS = ("content", "embeds")
_SLACK_FIELDS = ("text", "attachments", "blocks")

_LINK = re.compile(r"<((?:[!@#]|[A-Za-z][A-Za-z0-9+.-]{0,30}:)[^<>\s][^<>]{0,3000})>")
"""Markup of a link or a mention. Other text between such brackets stays: not all senders escape them."""

_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">"}
_ENTITY = re.compile("|".join(_ENTITIES))


def is_slack_message(body: Mapping[str, Any]) -> bool:
    """Return whether a body has Slack's form: its fields, and none of Confab's own content."""
    if any(body.get(name) is not None for name in _OWN_FIELDS):
        return False
    return any(body.get(name) is not None for name in _SLACK_FIELDS)


def slack_text(body: Mapping[str, Any]) -> str:
    """Return the text of a Slack message, cut to the length of a message.

    It is `text`, or without one that of `blocks`. The texts of `attachments` follow. Raises InvalidInput if there is no
    text at all.
    """
    text = body.get("text")
    if text is not None and not isinstance(text, str):
        raise InvalidInput("text must be a string", field="text")
    parts = [text] if text and text.strip() else list(_block_texts(body.get("blocks")))
    parts += _attachment_texts(body.get("attachments"))
    content = "\n".join(read_formatting(part) for part in parts)
    if not content.strip():
        raise InvalidInput("text is missing, and neither blocks nor attachments have a text", field="text")
    return content if len(content) <= LONGEST_CONTENT else content[: LONGEST_CONTENT - 1] + "…"


def read_formatting(text: str) -> str:
    """Return a text of Slack without its markup for links and mentions: `<https://a.example|here>`, `<!here>`."""
    return _ENTITY.sub(lambda found: _ENTITIES[found[0]], _LINK.sub(lambda found: _read_link(found[1]), text))


def _read_link(inside: str) -> str:
    target, bar, label = inside.partition("|")
    if target.startswith("!"):
        # `<!here>`, `<!subteam^S1|@team>`, `<!date^1392734382^{date}|a day>`
        name = target[1:].partition("^")[0]
        return label or f"@{name}"
    if target.startswith(("@", "#")):
        return f"{target[0]}{label}" if label else target
    address = target.removeprefix("mailto:").removeprefix("tel:")
    if not bar or label in ("", target, address):
        return address
    return f"{label} ({address})"


def _block_texts(blocks: object) -> Iterator[str]:
    for block in _objects(blocks):
        parts = [block.get("text"), *_items(block.get("fields")), *_items(block.get("elements"))]
        for part in parts:
            # Text objects are objects with a text; rich text has elements that contain elements.
            yield from _text_of(part)


def _text_of(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        text = part.get("text")
        if isinstance(text, str):
            yield text
        else:
            inside = "".join(_rich_texts(part.get("elements")))
            if inside:
                yield inside


def _rich_texts(elements: object) -> Iterator[str]:
    for element in _objects(elements):
        text = element.get("text", element.get("url"))
        if isinstance(text, str):
            yield text
        else:
            # The items of a list.
            yield "".join(_plain_texts(element.get("elements")))


def _plain_texts(elements: object) -> Iterator[str]:
    for element in _objects(elements):
        text = element.get("text", element.get("url"))
        if isinstance(text, str):
            yield text


def _attachment_texts(attachments: object) -> Iterator[str]:
    for attachment in _objects(attachments):
        texts = [attachment.get(name) for name in ("pretext", "title", "text")]
        own = [text for text in texts if isinstance(text, str) and text]
        fallback = attachment.get("fallback")
        if own:
            yield "\n".join(own)
        elif isinstance(fallback, str) and fallback:
            yield fallback
        else:
            yield from _block_texts(attachment.get("blocks"))


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    return (item for item in _items(value) if isinstance(item, Mapping))


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
