"""Rows of files (ADR 75). Every change of state is one conditional update.

A name of a blob is in the row before its first byte is written, and stays there until no write can be running that
has the name. So the blob store has nothing that no row names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pymongo.errors import DuplicateKeyError

from store.base.errors import Unreachable
from store.base.ids import FileId, UserId
from store.base.snowflakes import created_at_ms
from store.files.blobs.base import BlobInfo
from store.files.file import File, FileContent, FileField, FileState, file_from
from store.mongo.client import Document, Mongo
from store.mongo.collections import CLAIMS, FILES
from store.mongo.index_fields import BY_OWNER_AND_REMOVAL, BY_SCANNING

_F = FileField

UNUSED_MS = 24 * 3600 * 1000
"""Time after its creation for which a file stays that no message has, and for which a key stands for its file."""

WRITE_MARGIN_MS = 60_000
"""Added to the end of writes before blobs are removed, because clocks of servers differ."""

MAX_BLOBS = 100
"""Attempts to write that a file has at most."""

_INSERT_MS = 60_000
"""Time after the claim of a key in which its file is inserted."""

_ATTEMPTS = 5


class CreatedFile(NamedTuple):
    """The file that a key stands for. `is_new`: it was stored by this call."""

    file: File
    is_new: bool


class FileStore:
    """Files in MongoDB. Each method is one round trip unless it says so. All raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def create(self, file: File) -> CreatedFile:
        """Store a new file, or return the one that its owner has created with the same key in the last 24 hours.

        If the digest of the result is another one, the key was used with another input. One round trip without a key,
        two with it.

        The claim of the key names the file and is stored first, so a server that dies between the two steps leaves a
        claim whose file the next call inserts.
        """
        if file.key is None:
            await self._mongo.insert_one(FILES, file.to_row())
            return CreatedFile(file, is_new=True)
        claim = {"_id": f"file {file.owner} {file.key}"}
        for _ in range(_ATTEMPTS):
            number = await self._claim_key(claim, file.id)
            found = await self._insert_claimed(file, number)
            if found is not None and found.file.state is not FileState.REMOVED:
                return found
            await self._mongo.delete_one(CLAIMS, claim | {"v": int(number)})
        raise Unreachable("the idempotency key is used by others at the same time")

    async def ensure(self, file: File) -> File:
        """Store a file under a number that others may use for the same thing, or return the one that is there.

        One round trip if there is none, else two.
        """
        try:
            await self._mongo.insert_one(FILES, file.to_row())
        except DuplicateKeyError:
            return await self.find(file.id) or file
        return file

    async def _claim_key(self, claim: Document, number: FileId) -> FileId:
        """Return the file that a key stands for."""
        until = datetime.now(UTC) + timedelta(milliseconds=UNUSED_MS)
        try:
            row = await self._mongo.find_one_and_update(
                CLAIMS, claim, {"$setOnInsert": {"v": int(number), "until": until}}, upsert=True, after=True
            )
        except DuplicateKeyError:
            row = await self._mongo.find_one(CLAIMS, claim)
        return FileId(row["v"]) if row is not None else number

    async def _insert_claimed(self, file: File, number: FileId) -> CreatedFile | None:
        """Store a file under the number that its key has, unless it is there already. Return the stored one.

        None: the file that the key stood for was removed.
        """
        if number != file.id:
            found = await self.find(number)
            if found is not None:
                return CreatedFile(found, is_new=False)
            if created_at_ms(file.id) - created_at_ms(number) > _INSERT_MS:
                return None
        row = file.to_row() | {_F.ID: int(number)}
        try:
            await self._mongo.insert_one(FILES, row)
        except DuplicateKeyError:
            return CreatedFile(await self.find(number) or file_from(row), is_new=False)
        return CreatedFile(file_from(row), is_new=True)

    async def find(self, number: FileId) -> File | None:
        """Return a file."""
        row = await self._mongo.find_one(FILES, {_F.ID: int(number)})
        return file_from(row) if row is not None else None

    async def find_many(self, numbers: Iterable[FileId]) -> dict[FileId, File]:
        """Return the files that exist, by number."""
        rows = await self._mongo.find(FILES, {_F.ID: {"$in": [int(number) for number in numbers]}})
        return {file.id: file for file in map(file_from, rows)}

    async def count_unused(self, owner: UserId, now_ms: int, most: int) -> int:
        """Return the number of a user's files that no message has and that are not about to be removed.

        Counts to `most` only. On a sharded cluster this query goes to every shard.
        """
        query = {_F.OWNER: owner, _F.REMOVE_AT: {"$gt": now_ms}}
        return len(await self._find(query, BY_OWNER_AND_REMOVAL, most, {_F.ID: 1}))

    async def list_unbound(self, owner: UserId, limit: int) -> list[File]:
        """Return files of a user that no stored message has. On a sharded cluster this query goes to every shard."""
        query = {_F.OWNER: owner, _F.REMOVE_AT: {"$exists": True}}
        return [file_from(row) for row in await self._find(query, BY_OWNER_AND_REMOVAL, limit)]

    async def discard(self, file: File) -> None:
        """Remove a file that was just created and has no blobs."""
        await self._mongo.delete_one(FILES, {_F.ID: int(file.id), _F.BLOBS: [], _F.STATE: FileState.UPLOADING.value})

    async def begin_write(self, number: FileId, name: str, until_ms: int, *states: FileState) -> bool:
        """Note a blob that is going to be written, before its first byte. Return whether it may be written.

        It may not if the file has another state, or had too many attempts.

        Args:
            number: The file.
            name: A new name.
            until_ms: The write has ended by then.
            states: The file's state has to be one of these; without any, UPLOADING.
        """
        allowed = states or (FileState.UPLOADING,)
        times = {_F.WRITING_UNTIL: until_ms}
        if FileState.UPLOADING not in allowed:
            # If this server dies, nobody else knows that the blob is not needed.
            times[_F.TIDY_AT] = until_ms + WRITE_MARGIN_MS
        change = {"$addToSet": {_F.BLOBS: name}, "$max": times}
        query = {
            _F.ID: int(number),
            _F.STATE: {"$in": [state.value for state in allowed]},
            f"{_F.BLOBS}.{MAX_BLOBS - 1}": {"$exists": False},
        }
        return await self._update(query, change)

    async def finish_upload(self, number: FileId, blob: BlobInfo) -> File | None:
        """Store that a blob has the whole upload; the last call counts.

        Return the file before the change; None if the upload is complete or cancelled.
        """
        query = {_F.ID: int(number), _F.STATE: FileState.UPLOADING.value, _F.BLOBS: blob.name}
        row = await self._mongo.find_one_and_update(FILES, query, {"$set": {_F.UPLOADED: list(blob)}})
        return file_from(row) if row is not None else None

    async def store_content(
        self, number: FileId, upload: str, state: FileState, content: FileContent | None
    ) -> File | None:
        """Complete an upload with the result of its inspection: READY or SCANNING with content, or REJECTED.

        Return the file after the change; None if the upload is complete or cancelled already, or if another blob has
        been uploaded since.

        Args:
            number: The file.
            upload: Name of the blob that was inspected.
            state: The new state.
            content: What readers get; its blob is one of the file's.
        """
        query: Document = {_F.ID: int(number), _F.STATE: FileState.UPLOADING.value, f"{_F.UPLOADED}.0": upload}
        if content is not None:
            query[_F.BLOBS] = content.blob
        needed = [content.blob] if content is not None else []
        is_superfluous = {"$gt": [{"$size": {"$setDifference": [f"${_F.BLOBS}", needed]}}, 0]}
        tidy_at = {"$add": [f"${_F.WRITING_UNTIL}", WRITE_MARGIN_MS]}
        fields: Document = {_F.STATE: state.value, _F.TIDY_AT: {"$cond": [is_superfluous, tidy_at, "$$REMOVE"]}}
        if content is not None:
            fields[_F.CONTENT] = {"$literal": content.to_stored()}
        row = await self._mongo.find_one_and_update(FILES, query, [{"$set": fields}], after=True)
        return file_from(row) if row is not None else None

    async def settle_scan(self, number: FileId, *, accepted: bool) -> bool:
        """Store the scanner's answer about a file that is SCANNING. False: it has another state."""
        query = {_F.ID: int(number), _F.STATE: FileState.SCANNING.value}
        if accepted:
            return await self._update(query, {"$set": {_F.STATE: FileState.READY.value}})
        tidy_at = {"$add": [f"${_F.WRITING_UNTIL}", WRITE_MARGIN_MS]}
        return await self._update(
            query, [{"$set": {_F.STATE: FileState.REJECTED.value, _F.TIDY_AT: tidy_at}}, {"$unset": _F.CONTENT}]
        )

    async def list_scanning(self, limit: int, after: FileId | None = None) -> list[File]:
        """Return files that are SCANNING, in the order of their numbers. Goes to every shard."""
        query: Document = {_F.STATE: FileState.SCANNING.value}
        if after is not None:
            query[_F.ID] = {"$gt": int(after)}
        return [file_from(row) for row in await self._find(query, BY_SCANNING, limit)]

    async def add_thumbnail(self, number: FileId, width: int, name: str, now_ms: int, lost: str | None = None) -> bool:
        """Store that a blob is the thumbnail of a width. False: there is another one, or the file is removed.

        It takes the place of `lost`, the name of a blob that is not in the store. The time of the write that
        `begin_write` noted must not have passed.
        """
        query = {
            _F.ID: int(number),
            _F.STATE: FileState.READY.value,
            _F.BLOBS: name,
            _F.WRITING_UNTIL: {"$gt": now_ms},
            f"{_F.THUMBNAILS}.{width}": lost or {"$exists": False},
        }
        return await self._update(query, {"$set": {f"{_F.THUMBNAILS}.{width}": name}})

    async def cancel(self, number: FileId, owner: UserId, now_ms: int) -> bool:
        """Give up a file that no message has claimed. False: there is none."""
        query = {
            _F.ID: int(number),
            _F.OWNER: owner,
            _F.MESSAGE: {"$exists": False},
            _F.STATE: {"$ne": FileState.REMOVED.value},
        }
        return await self._update(query, {"$set": {_F.STATE: FileState.REMOVED.value, _F.REMOVE_AT: now_ms}})

    async def list_after(self, number: FileId | None, limit: int) -> list[File]:
        """Return files above a number, in order; None: the first ones. Goes to every shard."""
        query: Document = {} if number is None else {_F.ID: {"$gt": int(number)}}
        rows = await self._mongo.find(FILES, query, sort=[(_F.ID, 1)], limit=limit)
        return [file_from(row) for row in rows]

    async def _find(
        self, query: Document, index: Sequence[tuple[str, int]], limit: int, projection: Document | None = None
    ) -> list[Document]:
        return await self._mongo.find(FILES, query, sort=index[-1:], limit=limit, projection=projection)

    async def _update(self, query: Document, change: Any) -> bool:
        return bool(await self._mongo.update_one(FILES, query, change))
