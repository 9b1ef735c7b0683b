"""Embeds that bots and services give with a message. All checks raise InvalidInput with the path of the field."""

from __future__ import annotations

import re
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.checks import check_encodable
from resolvers.base.errors import Forbidden, InvalidInput
from store.base.ids import UserId
from store.previews.embed import MAX_URL, Embed, EmbedField, EmbedImage, EmbedKind
from store.previews.links import is_link

MOST_EMBEDS = 10
MOST_FIELDS = 25
LONGEST_TITLE = 256
LONGEST_DESCRIPTION = 4_096
LONGEST_AUTHOR_NAME = 256
LONGEST_FIELD_NAME = 256
LONGEST_FIELD_VALUE = 1_024
MOST_CHARACTERS = 6_000
"""Of all texts in all embeds of a message, without addresses and colors."""

_COLOR = re.compile(r"#[0-9A-Fa-f]{6}")


class NewEmbed(NamedTuple):
    """An embed that a caller wants to send. `fields`: name, value, and whether it is inline."""

    url: str | None = None
    title: str | None = None
    description: str | None = None
    author_name: str | None = None
    color: str | None = None
    image_url: str | None = None
    fields: tuple[tuple[str, str, bool], ...] = ()


async def check_given_embeds(
    app: Confab, sender: UserId, embeds: tuple[NewEmbed, ...], *, by_service: bool
) -> tuple[Embed, ...]:
    """Return the embeds as they are stored. Raises Forbidden for senders that are no bots, unless a service calls."""
    if not by_service:
        profile = await app.store.users.find(sender)
        if profile is None or not profile.is_bot:
            raise Forbidden("only bots and service callers may send embeds; leave them out", field="embeds")
    if len(embeds) > MOST_EMBEDS:
        raise InvalidInput(f"a message has at most {MOST_EMBEDS} embeds", field="embeds")
    checked = tuple(_check(embed, f"embeds[{i}]") for i, embed in enumerate(embeds))
    if sum(map(_count_characters, embeds)) > MOST_CHARACTERS:
        raise InvalidInput(f"the embeds of a message have at most {MOST_CHARACTERS} characters", field="embeds")
    return checked


def _check(new: NewEmbed, path: str) -> Embed:
    _check_text(new.title, LONGEST_TITLE, f"{path}.title")
    _check_text(new.description, LONGEST_DESCRIPTION, f"{path}.description")
    _check_text(new.author_name, LONGEST_AUTHOR_NAME, f"{path}.authorName")
    _check_url(new.url, f"{path}.url")
    _check_url(new.image_url, f"{path}.imageUrl")
    if new.color is not None and not _COLOR.fullmatch(new.color):
        raise InvalidInput("color must have the form #rrggbb", field=f"{path}.color")
    if len(new.fields) > MOST_FIELDS:
        raise InvalidInput(f"an embed has at most {MOST_FIELDS} fields", field=f"{path}.fields")
    for i, (name, value, _) in enumerate(new.fields):
        _check_text(name, LONGEST_FIELD_NAME, f"{path}.fields[{i}].name")
        _check_text(value, LONGEST_FIELD_VALUE, f"{path}.fields[{i}].value")
    if not any((new.title, new.description, new.author_name, new.image_url, new.fields)):
        raise InvalidInput("an embed needs a title, description, authorName, imageUrl or a field", field=path)
    return Embed(
        EmbedKind.RICH,
        is_preview=False,
        url=new.url,
        title=new.title,
        description=new.description,
        author_name=new.author_name,
        color=new.color.lower() if new.color is not None else None,
        image=EmbedImage(new.image_url) if new.image_url is not None else None,
        fields=tuple(EmbedField(*field) for field in new.fields),
    )


def _check_text(text: str | None, longest: int, path: str) -> None:
    if text is None:
        return
    name = path.rpartition(".")[2]
    if not 1 <= len(text) <= longest:
        raise InvalidInput(f"{name} must have 1 to {longest} characters", field=path)
    if not text.strip():
        raise InvalidInput(f"{name} must not be only white space", field=path)
    if "\0" in text:
        raise InvalidInput(f"{name} must not contain a NUL character", field=path)
    check_encodable(text, path)


def _check_url(url: str | None, path: str) -> None:
    if url is None:
        return
    check_encodable(url, path)
    if not url.isprintable() or " " in url or not is_link(url):
        name = path.rpartition(".")[2]
        raise InvalidInput(f"{name} must be an http(s) URL of at most {MAX_URL} characters, without a user", field=path)


def _count_characters(embed: NewEmbed) -> int:
    texts = (embed.title, embed.description, embed.author_name)
    of_fields = sum(len(name) + len(value) for name, value, _ in embed.fields)
    return of_fields + sum(len(text) for text in texts if text is not None)
