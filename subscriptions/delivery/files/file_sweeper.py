"""Removes the bytes of files that nobody needs (ADR 75).

Every step may be repeated, by any server: the row of a file is removed after its blobs, and a blob that is not there
counts as deleted. A removal that a server has begun is left to it for a minute.
"""

from __future__ import annotations

import structlog

from store.base.errors import StoreError
from store.files.file import File, FileState
from store.files.file_store import WRITE_MARGIN_MS
from store.store import Store

_log = structlog.get_logger()

_FILES_AT_ONCE = 100

UNDECIDED_MS = 10 * 60_000
"""Time after which a file is looked at again whose message may still be stored."""


class FileSweeper:
    """Removes files that are due, and blobs that are superfluous."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.removed = 0
        """Files whose bytes this process has removed."""
        self.tidied = 0
        """Files of which this process has removed superfluous blobs."""

    async def sweep(self) -> int:
        """Remove some files and blobs. Return the number of files that were removed or tidied.

        Raises the first StoreError after all files were tried; the next call continues.
        """
        store, done, failure = self._store, 0, None
        now_ms = store.clock.now_ms()
        for file in await store.file_removals.list_due(now_ms, _FILES_AT_ONCE):
            try:
                done += await self._remove(file, now_ms)
            except StoreError as error:
                failure = failure or error
        for file in await store.file_removals.list_untidy(now_ms, _FILES_AT_ONCE):
            try:
                done += await self._tidy(file, now_ms)
            except StoreError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return done

    async def _remove(self, file: File, now_ms: int) -> bool:
        is_claimed = file.message is not None and not file.is_bound and file.state is not FileState.REMOVED
        if is_claimed and await self._keep_for_message(file, now_ms):
            return False
        begun = await self._store.file_removals.begin_removal(file, now_ms)
        if begun is None or begun.writing_until_ms > now_ms - WRITE_MARGIN_MS:
            return False
        await self._store.blobs.delete(begun.blobs)
        await self._store.file_removals.end_removal(begun)
        self.removed += 1
        _log.info("file_removed", file=file.public_id, blobs=len(begun.blobs), state=file.state.name)
        return True

    async def _keep_for_message(self, file: File, now_ms: int) -> bool:
        """Bind a claimed file if its message is stored with it. Return False if it was never stored with it.

        A server of the previous version that finishes a delivery stores the message without its files.
        """
        store, message = self._store, file.message
        assert message is not None
        # Without the deployment's Redis nobody knows what is in the outbox.
        store.cache.require_shared()
        # A message leaves the outbox after it is stored, so MongoDB is asked last.
        if await store.outbox.contains(file.conversation, message):
            await store.file_removals.postpone_removal(file, now_ms + UNDECIDED_MS)
            return True
        stored = (await store.messages.find_by_ids([message])).get(message)
        if stored is None or file.id not in (*stored.own_files, *stored.recalled_files):
            return False
        if stored.is_recalled:
            await store.file_claims.remove([file.id], message, now_ms)
        else:
            await store.file_claims.bind([file.id], message)
        return True

    async def _tidy(self, file: File, now_ms: int) -> bool:
        if not await self._store.file_removals.begin_tidying(file, now_ms):
            return False
        await self._store.blobs.delete(file.superfluous)
        await self._store.file_removals.end_tidying(file)
        self.tidied += 1
        return True
