"""The cache of link previews, in MongoDB: found ones for a day, failures for an hour.

It is not in Redis, because previews are read rarely, are large, and would take the memory of session states. MongoDB
removes rows whose time is over.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from pymongo.errors import DuplicateKeyError

from store.base.clock import Clock
from store.mongo.client import Document, Mongo
from store.mongo.collections import PREVIEWS
from store.previews.embed import Embed, embed_from

FOUND_MS = 24 * 3600 * 1000
FAILED_MS = 3600 * 1000


class PreviewField:
    """Stored names of the fields of `previews`, sharded by ID."""

    ID = "_id"
    """Kind and hash of an address: `page <hash>` or `picture <hash>`."""
    EMBED = "e"
    """`Embed.to_stored` of a page. Absent if there is no preview, and for pictures, which could not be fetched."""
    UNTIL = "until"
    """End of the time for which the row is valid (date)."""


_F = PreviewField


class CachedPreview(NamedTuple):
    """A result that is known. `embed`: None if the link has no preview."""

    embed: Embed | None


class PreviewCache:
    """Previews by the address of their page, and pictures that could not be fetched. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo, clock: Clock) -> None:
        self._mongo = mongo
        self._clock = clock

    async def find(self, url: str) -> CachedPreview | None:
        """Return what is known about the preview of a page; None: nothing. One round trip."""
        row = await self._find(_row_id("page", url))
        if row is None:
            return None
        stored = row.get(_F.EMBED)
        return CachedPreview(embed_from(stored) if stored is not None else None)

    async def store(self, url: str, embed: Embed | None, valid_ms: int) -> None:
        """Keep the preview of a page, or that it has none, for a time."""
        await self._store(_row_id("page", url), valid_ms, {_F.EMBED: embed.to_stored()} if embed is not None else {})

    async def has_failed(self, picture: str) -> bool:
        """Return whether a picture could not be fetched in the last hour. One round trip."""
        return await self._find(_row_id("picture", picture)) is not None

    async def store_failure(self, picture: str) -> None:
        """Keep for an hour that a picture cannot be fetched."""
        await self._store(_row_id("picture", picture), FAILED_MS, {})

    async def _find(self, row_id: str) -> Document | None:
        row = await self._mongo.find_one(PREVIEWS, {_F.ID: row_id})
        if row is None:
            return None
        until: datetime = row[_F.UNTIL]
        return row if until.replace(tzinfo=UTC).timestamp() * 1000 > self._clock.now_ms() else None

    async def _store(self, row_id: str, valid_ms: int, fields: Document) -> None:
        until = datetime.fromtimestamp((self._clock.now_ms() + valid_ms) / 1000, UTC)
        change: Document = {"$set": {_F.UNTIL: until, **fields}}
        if _F.EMBED not in fields:
            change["$unset"] = {_F.EMBED: ""}
        # Another process stores it at the same time.
        with suppress(DuplicateKeyError):
            await self._mongo.update_one(PREVIEWS, {_F.ID: row_id}, change, upsert=True)


def _row_id(kind: str, url: str) -> str:
    digest = hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()
    return f"{kind} {urlsafe_b64encode(digest)[:-1].decode()}"
