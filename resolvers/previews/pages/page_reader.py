"""Fetches a link and reads its preview."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import orjson

from resolvers.previews.fetching.fetcher import FetchBudget, Fetcher, WebResponse
from resolvers.previews.pages.charsets import PageDecoder
from resolvers.previews.pages.cleaning import clean_url
from resolvers.previews.pages.metadata import OEMBED, embed_from_page
from resolvers.web_requests.errors import FetchFailed, TooLarge
from store.base.errors import StoreError
from store.previews.embed import Embed, EmbedImage, EmbedKind

if TYPE_CHECKING:
    from resolvers.previews.pages.head_parser import PageHead

_PAGE_TYPES = ("text/html", "application/xhtml+xml")
_ACCEPT = "text/html,application/xhtml+xml;q=0.9,image/*;q=0.8,*/*;q=0.1"
_ACCEPT_OEMBED = "application/json"
_MAX_OEMBED_BYTES = 65_536

_PARSED_AT_ONCE = 4096
"""Characters that are parsed before other tasks of the process run."""

_PARSING_SECONDS = 0.3
"""CPU time for one page. Its rest is ignored: pages of 1 MiB need a tenth, unless they are made to need seconds."""


async def read_preview(fetcher: Fetcher, link: str, budget: FetchBudget) -> Embed | None:
    """Return the preview of a link; None if there is nothing to show.

    Pictures are named as the page names them, and not fetched. A page that is longer than allowed counts as far as it
    was read. Raises FetchFailed, and StoreError if its host has no time now.
    """
    async with fetcher.get(link, budget, _ACCEPT) as response:
        if response.content_type.startswith("image/"):
            return Embed(EmbedKind.IMAGE, True, link, image=EmbedImage(response.url))
        if response.content_type not in _PAGE_TYPES:
            return None
        url, head = response.url, await _read_head(response)
    oembed = await _read_oembed(fetcher, clean_url(head.links.get(OEMBED), clean_url(head.base, url) or url), budget)
    return embed_from_page(link, url, head, oembed)


async def _read_head(response: WebResponse) -> PageHead:
    from resolvers.previews.pages.head_parser import HeadParser

    parser, decoder, seconds = HeadParser(), PageDecoder(response.charset), 0.0
    try:
        async for piece in _with_long_beginning(response.pieces):
            text = decoder.decode(piece)
            for start in range(0, len(text), _PARSED_AT_ONCE):
                began = time.thread_time()
                parser.feed(text[start : start + _PARSED_AT_ONCE])
                seconds += time.thread_time() - began
                if seconds > _PARSING_SECONDS:
                    return parser.head
                await asyncio.sleep(0)
            if parser.is_complete:
                break
    except TooLarge:
        pass
    return parser.head


async def _with_long_beginning(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, but the first ones as one piece, in which the page's encoding can be found."""
    beginning = b""
    is_begun = False
    try:
        async for piece in pieces:
            if is_begun:
                yield piece
                continue
            beginning += piece
            if PageDecoder.is_enough(beginning):
                is_begun = True
                yield beginning
    except TooLarge:
        if not is_begun:
            yield beginning
        raise
    if not is_begun:
        yield beginning


async def _read_oembed(fetcher: Fetcher, url: str | None, budget: FetchBudget) -> dict[str, Any]:
    """Return what the site's oEmbed endpoint answers; nothing if it fails, because the page itself is enough."""
    if url is None:
        return {}
    content = bytearray()
    try:
        async with fetcher.get(url, budget, _ACCEPT_OEMBED) as response:
            async for piece in response.pieces:
                content += piece
                if len(content) > _MAX_OEMBED_BYTES:
                    return {}
        found = orjson.loads(content)
    except (FetchFailed, StoreError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
