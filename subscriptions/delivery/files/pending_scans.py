"""Asks the virus scanner again about files for which it has not answered."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable

import structlog

from store.base.ids import FileId
from store.files.blobs.base import BlobMissing
from store.store import Store

_log = structlog.get_logger()

_FILES_AT_ONCE = 20

Accepts = Callable[[AsyncIterable[bytes]], Awaitable[bool | None]]
"""Returns whether the scanner finds nothing in a file; None without an answer."""


class PendingScans:
    """Settles files that are SCANNING. Several servers may do so at once: the first answer is stored.

    Without a scanner they stay as they are, and are removed a day after their creation.
    """

    def __init__(self, store: Store, accepts: Accepts | None) -> None:
        self._store = store
        self._accepts = accepts
        self._after: FileId | None = None

    async def continue_due(self) -> int:
        """Ask about some files, the next ones at each call. Return the number that are settled. Raises StoreError."""
        if self._accepts is None:
            return 0
        files = await self._store.files.list_scanning(_FILES_AT_ONCE, self._after)
        # A file that the scanner always refuses must not keep it from the others.
        self._after = files[-1].id if files else None
        settled = 0
        for file in files:
            if file.content is None:
                continue
            try:
                accepted = await self._accepts(self._store.blobs.read(file.content.blob))
            except BlobMissing:
                continue
            if accepted is not None and await self._store.files.settle_scan(file.id, accepted=accepted):
                _log.info("scan_settled", file=file.public_id, accepted=accepted)
                settled += 1
        return settled
