"""Pictures of embeds: fetched from other sites, decoded, and kept for a day after their last use (ADR 78).

A picture is a row of `files` without an owner. Its number is below zero, and is a hash of the picture's address: so it
is found without a further index, is never the number of an upload, and cannot be named at the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import cast

import structlog

from resolvers.base.errors import Unavailable
from resolvers.base.file_addresses import picture_name
from resolvers.files.blob_writing import PICTURE, blob_name, write_blob
from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import Inspected
from resolvers.previews.fetching.fetcher import FetchBudget, Fetcher
from resolvers.web_requests.errors import FetchFailed
from store.base.ids import ConversationId, FileId, UserId
from store.files.file import File, FileState
from store.redis.single_flight import SingleFlight
from store.store import Store

_log = structlog.get_logger()

KEPT_MS = 24 * 3600 * 1000
"""Time after its last use for which a picture is kept."""

_RENEWED_MS = 3600 * 1000
"""A use within this time after the last noted one is not noted."""

_FETCH_SECONDS = 8.0
_ACCEPT = "image/avif,image/webp,image/png,image/jpeg,image/gif,image/*;q=0.8"
_AT_ONCE = 8


def picture_number(url: str) -> FileId:
    """Return the number of the row of `files` for a picture of another site."""
    return FileId(-1 - (int(picture_name(url)[:16], 16) >> 1))


class Pictures:
    """Finds pictures of other sites in the blob store, and fetches them."""

    def __init__(self, store: Store, inspector: Inspector, fetcher: Fetcher, max_bytes: int) -> None:
        """Create the finder of a process. `max_bytes`: the limit of uploads."""
        self._store = store
        self._cache = store.preview_cache
        self._inspector = inspector
        self._fetcher = fetcher
        self._max_bytes = max_bytes
        self._flights = SingleFlight()
        self._places = asyncio.Semaphore(_AT_ONCE)
        # Pictures of other sites take one of the processes that decode at most. The others are for uploads.
        self._decoding = asyncio.Lock()

    async def find_or_fetch(self, url: str, asked_hosts: Iterable[str] = ()) -> File | None:
        """Return a picture, READY and with content; None if it cannot be fetched or is not one.

        Finding a picture takes one round trip, or two in the first use after an hour. Raises StoreError and Unavailable
        if it could not be fetched now.

        Args:
            url: Its address.
            asked_hosts: Hosts whose turn the caller has.
        """
        found = await self._find(url)
        if found is not None:
            return found
        if await self._cache.has_failed(url):
            return None
        return cast("File | None", await self._flights.run(url, partial(self._fetch, url, set(asked_hosts))))

    async def _find(self, url: str) -> File | None:
        file = await self._store.files.find(picture_number(url))
        now_ms = self._store.clock.now_ms()
        if file is None or file.state is not FileState.READY or file.content is None:
            return None
        if file.remove_at_ms is None or file.remove_at_ms <= now_ms:
            return None
        if file.remove_at_ms < now_ms + KEPT_MS - _RENEWED_MS:
            await self._store.file_removals.postpone_removal(file, now_ms + KEPT_MS)
        return file

    async def _fetch(self, url: str, asked_hosts: set[str]) -> File | None:
        async with self._places, self._inspector.folder() as folder:
            path = folder / "picture"
            try:
                await self._download(url, path, asked_hosts)
                async with self._decoding:
                    inspected = await self._inspector.inspect(path)
                if not isinstance(inspected, Inspected) or not inspected.is_image or inspected.path is None:
                    raise FetchFailed("not a picture")
            except FetchFailed as error:
                _log.info("picture_not_fetched", reason=error.reason)
                await self._cache.store_failure(url)
                return None
            return await self._keep(url, inspected, inspected.path)

    async def _download(self, url: str, path: Path, asked_hosts: set[str]) -> None:
        budget = FetchBudget(self._max_bytes, _FETCH_SECONDS, asked_hosts)
        async with self._fetcher.get(url, budget, _ACCEPT) as response:
            with path.open("wb") as target:
                async for piece in response.pieces:
                    await asyncio.to_thread(target.write, piece)

    async def _keep(self, url: str, inspected: Inspected, path: Path) -> File:
        """Store a picture, or return the one that another server has stored at the same time. Raises Unavailable."""
        files, number = self._store.files, picture_number(url)
        now_ms = self._store.clock.now_ms()
        row = await files.ensure(_new_row(number, url, inspected.size, now_ms + KEPT_MS))
        if row.state is not FileState.UPLOADING:
            return await self._find_stored(url)
        # A lost attempt left this row. If its removal cannot be postponed, the sweeper may have begun it.
        if row.remove_at_ms != now_ms + KEPT_MS and not await self._store.file_removals.postpone_removal(
            row, now_ms + KEPT_MS
        ):
            return await self._find_stored(url)
        name = blob_name(number, PICTURE)
        blob = await write_blob(files, self._store.blobs, self._store.clock, number, name, path)
        if blob is None:
            return await self._find_stored(url)
        await files.finish_upload(number, blob)
        stored = await files.store_content(number, name, FileState.READY, inspected.as_content(name))
        return stored if stored is not None else await self._find_stored(url)

    async def _find_stored(self, url: str) -> File:
        """Return a picture whose row another server changes. Raises Unavailable until it is READY, or removed."""
        found = await self._find(url)
        if found is None:
            raise Unavailable("another server stores or removes the picture; please try again")
        return found


def _new_row(number: FileId, url: str, size: int, remove_at_ms: int) -> File:
    return File(
        id=number,
        owner=UserId(""),
        conversation=ConversationId(""),
        filename="picture",
        size=size,
        description=url,
        remove_at_ms=remove_at_ms,
    )
