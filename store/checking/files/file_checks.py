"""Checks of files against their blobs and their messages (ADR 75)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import ClassVar

from store.base.ids import ConversationId, FileId, MessageId, file_id, message_id, parse_file_id
from store.base.snowflakes import created_at_ms
from store.checking.check import Difference, Objects, Scope
from store.checking.conversations.stored_messages import message_pages
from store.files.file import File, FileState, attachment_from
from store.files.file_store import UNUSED_MS
from store.messages.message import Message
from store.messages.message_fields import MessageField
from store.store import Store

_WITH_CONTENT = (FileState.READY, FileState.SCANNING)


_NUMBER = re.compile(r"f_(-?[0-9]{1,19})\Z")
"""An id of a file, or of a picture of an embed: these have numbers below zero, which the API does not know."""


async def _find_files(store: Store, ids: Iterable[str]) -> dict[FileId, File]:
    found = (_NUMBER.match(id) for id in ids)
    numbers = {int(match[1]) for match in found if match is not None}
    return await store.files.find_many([FileId(number) for number in numbers if -(1 << 63) <= number < 1 << 63])


class FileBlobs:
    """The blob store has what readers get of each file."""

    name: ClassVar[str] = "file-blobs"
    scope: ClassVar[Scope] = Scope(Objects.FILE)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the blobs that are missing."""
        files = await _find_files(self._store, ids)
        wanted = [
            (file, name)
            for file in files.values()
            if file.state in _WITH_CONTENT and file.content is not None
            for name in (file.content.blob, *file.thumbnails.values())
        ]
        found = await asyncio.gather(*(self._store.blobs.find(name) for _, name in wanted))
        return [
            Difference(self.name, file_id(file.id), "blob", None, name, is_repairable=False)
            for (file, name), blob in zip(wanted, found, strict=True)
            if blob is None
        ]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Do nothing: lost bytes cannot be derived."""


class StrayBlobs:
    """Each blob is named by the row of its file."""

    name: ClassVar[str] = "stray-blobs"
    scope: ClassVar[Scope] = Scope(Objects.BLOB)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the blobs that no row names. Those of files created in the last day are not repaired."""
        # Listed before the rows are read: a row has the name before the blob is there.
        rows = await _find_files(self._store, (f"f_{name.partition('/')[0]}" for name in ids))
        named = {name for file in rows.values() for name in file.blobs}
        now_ms = self._store.clock.now_ms()
        return [
            Difference(self.name, name, "row", None, "a row with this name", is_repairable=_is_old(name, now_ms))
            for name in ids
            if name not in named and await self._exists(name)
        ]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Delete the blob."""
        await self._store.blobs.delete([object_id])

    async def _exists(self, name: str) -> bool:
        """Return whether there is a blob, also one that is not whole."""
        async for names in self._store.blobs.list_names(name[:-1]):
            return name in names
        return False


class MessageAttachments:
    """Each file of a stored message has a row."""

    name: ClassVar[str] = "attachments"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the files of some conversations' messages that have no row."""
        has_files = {MessageField.ATTACHMENTS: {"$exists": True}, MessageField.BROADCAST_OF: {"$exists": False}}
        found = []
        for id in ids:
            pages = message_pages(self._store.mongo, ConversationId(id), (MessageField.ATTACHMENTS,), has_files)
            async for page in pages:
                files = [attachment_from(stored).id for row in page for stored in row[MessageField.ATTACHMENTS]]
                rows = await self._store.files.find_many(files)
                missing = sorted(file_id(file) for file in files if file not in rows)
                if missing:
                    found.append(Difference(self.name, id, "rows of files", None, missing, is_repairable=False))
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Do nothing: the row says which bytes are the file's, so they are lost."""


class FileMessages:
    """A file is kept for a message exactly if the message is stored and has it."""

    name: ClassVar[str] = "file-messages"
    scope: ClassVar[Scope] = Scope(Objects.FILE)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some files."""
        files = [file for file in (await _find_files(self._store, ids)).values() if file.message is not None]
        messages = await self._store.messages.find_by_ids(file.message for file in files if file.message is not None)
        return [each for file in files for each in self._compare(file, messages)]

    def _compare(self, file: File, messages: dict[MessageId, Message]) -> list[Difference]:
        assert file.message is not None
        message = messages.get(file.message)
        has_file = message is not None and not message.is_recalled and file.id in message.own_files
        shown, id = message_id(file.message), file_id(file.id)
        if file.state is FileState.REMOVED:
            if not has_file:
                return []
            return [Difference(self.name, id, "state", "REMOVED", f"READY, for {shown}", is_repairable=False)]
        if file.is_bound == has_file:
            return []
        return [Difference(self.name, id, "kept for", *((shown, None) if file.is_bound else (None, shown)))]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Keep the file of a stored message, or leave that of a missing message to the sweeper."""
        number = parse_file_id(object_id)
        file = await self._store.files.find(number) if number is not None else None
        if file is None or file.message is None:
            return
        if file.is_bound:
            await self._store.file_claims.remove([file.id], file.message, self._store.clock.now_ms())
        else:
            await self._store.file_claims.bind([file.id], file.message)


def _is_old(name: str, now_ms: int) -> bool:
    """Return whether the file of a blob was created more than a day ago. False if its number has no time."""
    number = parse_file_id(f"f_{name.partition('/')[0]}")
    return number is not None and created_at_ms(number) + UNUSED_MS < now_ms
