"""Embeds, and their stored form in rows of messages and of the preview cache."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

MAX_TITLE = 256
MAX_DESCRIPTION = 1000
MAX_NAME = 256
"""Characters of the name of a site or an author."""
MAX_URL = 2048


class EmbedKind(StrEnum):
    """The contract's EmbedType, with its stored values."""

    LINK = "L"
    IMAGE = "I"
    """The link itself is a picture."""
    VIDEO = "V"
    RICH = "R"
    """Given by a bot, or a page whose oEmbed type is `rich`."""


class EmbedImage(NamedTuple):
    """A picture of an embed.

    Attributes:
        url: Its address on the web. Readers get an address of Confab (ADR 78).
        width: In pixels, once known.
        height: In pixels, once known.
    """

    url: str
    width: int | None = None
    height: int | None = None


class EmbedField(NamedTuple):
    """A name and a value that a bot shows in its embed."""

    name: str
    value: str
    inline: bool = False


class Embed(NamedTuple):
    """A card below a message: the preview of a link of its text, or given by a bot.

    Attributes:
        kind: Its type.
        is_preview: It was made from the link `url` of the message's text. False: a bot gave it.
        url: Previews: the link, as `find_links` returns it.
        color: `#rrggbb`.
        published_ms: Time of publication in ms since the epoch.
    """

    kind: EmbedKind
    is_preview: bool
    url: str | None = None
    title: str | None = None
    description: str | None = None
    site_name: str | None = None
    author_name: str | None = None
    color: str | None = None
    image: EmbedImage | None = None
    thumbnail: EmbedImage | None = None
    fields: tuple[EmbedField, ...] = ()
    published_ms: int | None = None

    def to_stored(self) -> list[Any]:
        """Return the stored form: JSON values only, because Redis records have it too. `embed_from` reads it."""
        image = None if self.image is None else list(self.image)
        thumbnail = None if self.thumbnail is None else list(self.thumbnail)
        plain = self._replace(kind=self.kind.value, image=image, thumbnail=thumbnail)  # type: ignore[arg-type]
        return list(plain._replace(fields=[list(field) for field in self.fields]))  # type: ignore[arg-type]


def embed_from(stored: list[Any]) -> Embed:
    """Return an embed from its stored form. Values that a later version appended are ignored."""
    embed = Embed(*stored[: len(Embed._fields)])
    return embed._replace(
        kind=EmbedKind(embed.kind),
        image=None if embed.image is None else EmbedImage(*embed.image),
        thumbnail=None if embed.thumbnail is None else EmbedImage(*embed.thumbnail),
        fields=tuple(EmbedField(*field) for field in embed.fields),
    )
