"""Makes an embed from a page's metadata: Open Graph, Twitter cards, oEmbed, and plain HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from resolvers.previews.pages.cleaning import clean_color, clean_pixels, clean_text, clean_time, clean_url
from store.previews.embed import MAX_DESCRIPTION, MAX_NAME, MAX_TITLE, Embed, EmbedImage, EmbedKind

if TYPE_CHECKING:
    from resolvers.previews.pages.head_parser import PageHead

OEMBED = "alternate application/json+oembed"
"""Name in `PageHead.links` of the address with the page's oEmbed data."""

_TITLES = ("og:title", "twitter:title", "dc.title")
_DESCRIPTIONS = ("og:description", "twitter:description", "description", "dc.description")
_SITES = ("og:site_name", "application-name")
_AUTHORS = ("author", "article:author", "twitter:creator", "dc.creator")
_TIMES = ("article:published_time", "og:published_time", "datepublished", "date", "dc.date")
_IMAGES = ("og:image:secure_url", "og:image", "og:image:url", "twitter:image", "twitter:image:src", "image")
_VIDEOS = ("og:video", "og:video:url", "og:video:secure_url", "twitter:player")


def embed_from_page(link: str, url: str, head: PageHead, oembed: Mapping[str, Any]) -> Embed | None:
    """Return the preview of a page; None if it says neither title nor description nor picture.

    The address of an embed is the link of the message, because a page may claim any other one.

    Args:
        link: The link of the message.
        url: Address of the page, after redirects.
        head: The page's head.
        oembed: The page's oEmbed data, or nothing.
    """
    metadata = head.metadata
    base = clean_url(head.base, url) or url
    title = _first_text((*_values(metadata, _TITLES), oembed.get("title"), head.title), MAX_TITLE)
    description = _first_text(_values(metadata, _DESCRIPTIONS), MAX_DESCRIPTION)
    image = _image(metadata, head.links, oembed, base)
    if title is None and description is None and image is None:
        return None
    is_small = image is not None and metadata.get("twitter:card", "").strip().lower() == "summary"
    return Embed(
        kind=_kind(metadata, oembed),
        is_preview=True,
        url=link,
        title=title,
        description=description,
        site_name=_first_text((*_values(metadata, _SITES), oembed.get("provider_name")), MAX_NAME),
        author_name=_author(metadata, oembed),
        color=clean_color(metadata.get("theme-color")),
        image=None if is_small else image,
        thumbnail=image if is_small else None,
        published_ms=next((ms for name in _TIMES if (ms := clean_time(metadata.get(name))) is not None), None),
    )


def _values(metadata: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [metadata[name] for name in names if name in metadata]


def _first_text(values: Iterable[object], most: int) -> str | None:
    """Return the first value that is text and not empty."""
    return next((text for value in values if (text := clean_text(value, most)) is not None), None)


def _kind(metadata: Mapping[str, str], oembed: Mapping[str, Any]) -> EmbedKind:
    kind = oembed.get("type")
    if kind == "video" or metadata.get("og:type", "").strip().lower().startswith("video") or _values(metadata, _VIDEOS):
        return EmbedKind.VIDEO
    return EmbedKind.RICH if kind == "rich" else EmbedKind.LINK


def _author(metadata: Mapping[str, str], oembed: Mapping[str, Any]) -> str | None:
    """Return the name of the author. Some sites have an address in its place."""
    names = (oembed.get("author_name"), *_values(metadata, _AUTHORS))
    return _first_text((name for name in names if "://" not in str(name)), MAX_NAME)


def _image(
    metadata: Mapping[str, str], links: Mapping[str, str], oembed: Mapping[str, Any], base: str
) -> EmbedImage | None:
    for name in _IMAGES:
        if (url := clean_url(metadata.get(name), base)) is not None:
            width, height = (metadata.get(f"{name.split(':')[0]}:image:{side}") for side in ("width", "height"))
            return EmbedImage(url, clean_pixels(width), clean_pixels(height))
    if oembed.get("type") == "photo" and (url := clean_url(oembed.get("url"), base)) is not None:
        return EmbedImage(url, clean_pixels(oembed.get("width")), clean_pixels(oembed.get("height")))
    for address in (oembed.get("thumbnail_url"), links.get("image_src")):
        if (url := clean_url(address, base)) is not None:
            return EmbedImage(url)
    return None
