"""The preview of one link: from the cache, or fetched from its page. `PreviewWorker` gives it to messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import cast

import httpx
import structlog

from resolvers.base.errors import Unavailable
from resolvers.files.inspection.inspector import Inspector
from resolvers.previews.fetching.fetcher import FetchBudget, Fetcher
from resolvers.previews.pages.page_reader import read_preview
from resolvers.previews.pictures import Pictures
from resolvers.web_requests.addresses import AddressRules, SystemResolver
from resolvers.web_requests.errors import AddressRefused, FetchFailed
from resolvers.web_requests.public_addresses import Network
from store.base.errors import StoreError
from store.previews.embed import Embed, EmbedImage, EmbedKind
from store.previews.preview_cache import FAILED_MS, FOUND_MS, PreviewCache
from store.redis.single_flight import SingleFlight
from store.store import Store

_log = structlog.get_logger()

MAX_PAGE_BYTES = 1_048_576
PAGE_SECONDS = 5.0
"""For one page, with redirects and oEmbed data."""

_AT_ONCE = 16
"""Pages that one process fetches at the same time."""

_TOTAL_SECONDS = 14.0
"""For the page and its picture, with the waiting for turns. The picture is left out when this is over."""

_INCOMPLETE_MS = 10 * 60 * 1000
"""Time for which a preview is kept whose picture could not be fetched, perhaps for a moment only."""

_SMALL_PIXELS = 300
"""A narrower picture is a thumbnail."""


class PreviewFetcher:
    """Returns previews of links. `pictures` has those that embeds show."""

    def __init__(
        self, cache: PreviewCache, fetcher: Fetcher, pictures: Pictures, resolver: SystemResolver | None = None
    ) -> None:
        self._cache = cache
        self._fetcher = fetcher
        self.pictures = pictures
        self._resolver = resolver
        self._flights = SingleFlight()
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.outcomes = Counter[str]()
        """Links that were not in the cache: `found`, `none`, `refused`, `failed`, or `postponed` (no turn at the host).
        """

    async def find_or_fetch(self, link: str) -> Embed | None:
        """Return the preview of a link, with `url` as the link is given; None if it has none.

        A known result takes one round trip, for a day, or an hour if there is no preview. Raises StoreError if it
        could not be found out now.
        """
        try:
            # The part after `#` is not sent to the site.
            page = str(httpx.URL(link).copy_with(fragment=None))
        except (httpx.InvalidURL, ValueError):
            return None
        cached = await self._cache.find(page)
        if cached is not None:
            embed = cached.embed
        else:
            embed = cast("Embed | None", await self._flights.run(page, partial(self._fetch, page)))
        return embed._replace(url=link) if embed is not None else None

    def close(self) -> None:
        """Resolve no more names."""
        if self._resolver is not None:
            self._resolver.close()

    async def _fetch(self, page: str) -> Embed | None:
        deadline = asyncio.get_running_loop().time() + _TOTAL_SECONDS
        async with self._places:
            budget = FetchBudget(MAX_PAGE_BYTES, PAGE_SECONDS)
            try:
                embed = await read_preview(self._fetcher, page, budget)
                outcome = "found" if embed is not None else "none"
            except FetchFailed as error:
                _log.info("preview_not_fetched", reason=error.reason)
                embed, outcome = None, "refused" if isinstance(error, AddressRefused) else "failed"
            except StoreError:
                self.outcomes["postponed"] += 1
                raise
            self.outcomes[outcome] += 1
        preview, valid_ms = embed, FAILED_MS if embed is None else FOUND_MS
        if embed is not None and (image := embed.image or embed.thumbnail) is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    preview = await self._with_picture(embed, image, budget.hosts)
            except (StoreError, Unavailable, TimeoutError):
                preview, valid_ms = _without_picture(embed), _INCOMPLETE_MS
        await self._cache.store(page, preview, valid_ms)
        return preview

    async def _with_picture(self, embed: Embed, image: EmbedImage, asked_hosts: set[str]) -> Embed | None:
        """Return the embed with the size of its picture, or without a picture if it cannot be shown."""
        file = await self.pictures.find_or_fetch(image.url, asked_hosts)
        if file is None or file.content is None:
            return _without_picture(embed)
        sized = EmbedImage(image.url, file.content.width, file.content.height)
        is_small = embed.kind is not EmbedKind.IMAGE and (sized.width or 0) < _SMALL_PIXELS
        if embed.image is None or is_small:
            return embed._replace(image=None, thumbnail=sized)
        return embed._replace(image=sized)


def build_preview_fetcher(
    store: Store, inspector: Inspector, *, allowed_networks: Sequence[Network], contact: str, max_picture_bytes: int
) -> PreviewFetcher:
    """Return the fetcher of a process. Opens nothing.

    Args:
        store: The process's repositories.
        inspector: Decodes pictures.
        allowed_networks: Networks that are not public and may be fetched from.
        contact: Address of the deployment, which sites see in requests.
        max_picture_bytes: The limit of uploads.
    """
    resolver = SystemResolver()
    user_agent = f"Mozilla/5.0 (compatible; Confab link preview; +{contact})"
    fetcher = Fetcher(AddressRules(allowed_networks), resolver.resolve, store.host_turns.wait, user_agent)
    return PreviewFetcher(
        store.preview_cache, fetcher, Pictures(store, inspector, fetcher, max_picture_bytes), resolver
    )


def _without_picture(embed: Embed) -> Embed | None:
    """Return the rest of an embed; None if there is none."""
    rest = embed._replace(image=None, thumbnail=None)
    return rest if rest.title is not None or rest.description is not None else None
