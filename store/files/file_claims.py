"""Claims of files by messages (ADR 75).

A send claims its files before it takes a place. Once the message is stored, its files are bound to it. The message is
the truth: a claim says only for which message a file is reserved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationId, FileId, MessageId, UserId
from store.base.snowflakes import created_at_ms
from store.files.file import File, FileField, FileState, file_from
from store.files.file_store import UNUSED_MS
from store.mongo.client import Document, Mongo
from store.mongo.collections import FILES

_F = FileField

CLAIM_MS = 3600 * 1000
"""Time after a claim before which its file is not removed. Sends end long before."""

TAKEOVER_MS = 5 * 60_000
"""Age from which a claim of a message that was never stored may be taken over."""


class FileClaims:
    """Which message has which file. Each method is one round trip. All raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def claim(
        self,
        files: Sequence[FileId],
        owner: UserId,
        conversations: Sequence[ConversationId],
        message: MessageId,
        now_ms: int,
    ) -> dict[FileId, File]:
        """Claim files for a message. Return those that it has now, as they were before; release them if one is missing.

        A file can be claimed if it is READY, the owner's, created for one of the conversations within 24 hours, and
        not claimed by another message. May be repeated until the files are bound.

        Args:
            files: Their numbers.
            owner: The sender.
            conversations: Where the message is sent; of a reply also the thread's parent conversation.
            message: The message's id.
            now_ms: The time.
        """
        free = {"$or": [{_F.MESSAGE: {"$exists": False}}, {_F.MESSAGE: int(message)}]}
        return await self._claim(files, owner, conversations, message, now_ms, free)

    async def take_over(
        self,
        files: Sequence[FileId],
        owner: UserId,
        conversations: Sequence[ConversationId],
        abandoned: MessageId,
        message: MessageId,
        now_ms: int,
    ) -> dict[FileId, File]:
        """Claim files like `claim` that another message claimed more than five minutes ago.

        The caller has made sure that neither `messages` nor the outbox has that message.
        """
        old = {
            _F.MESSAGE: int(abandoned),
            _F.IS_BOUND: {"$ne": True},
            _F.CLAIMED_AT: {"$lte": now_ms - TAKEOVER_MS},
        }
        return await self._claim(files, owner, conversations, message, now_ms, old)

    async def _claim(
        self,
        files: Sequence[FileId],
        owner: UserId,
        conversations: Sequence[ConversationId],
        message: MessageId,
        now_ms: int,
        free: Document,
    ) -> dict[FileId, File]:
        usable = {
            _F.OWNER: owner,
            _F.STATE: FileState.READY.value,
            _F.CONVERSATION: {"$in": list(conversations)},
        }
        # Grows with each claim, so that a release of an earlier one is recognised.
        next_time = {"$add": [{"$ifNull": [f"${_F.CLAIMED_AT}", 0]}, 1]}
        fields = {
            _F.MESSAGE: {"$literal": int(message)},
            _F.CLAIMED_AT: {"$max": [now_ms, next_time]},
            # The file stays while the message is being stored.
            _F.REMOVE_AT: {"$max": [f"${_F.REMOVE_AT}", now_ms + CLAIM_MS]},
        }
        # A claim extends the file's time, so only its age limits how long failing sends keep it.
        young = [number for number in files if created_at_ms(number) > now_ms - UNUSED_MS]
        unbound = {_F.REMOVE_AT: {"$exists": True}}
        rows = await self._mongo.gather(
            *(
                self._mongo.find_one_and_update(
                    FILES, {_F.ID: int(number)} | usable | unbound | free, [{"$set": fields}]
                )
                for number in young
            )
        )
        return {file.id: file for file in (file_from(row) for row in rows if row is not None)}

    async def release(self, files: Sequence[FileId], message: MessageId, claimed_at_ms: int) -> None:
        """Give back the files that a message has claimed at a time, if it has not claimed them again since."""
        query = {_F.MESSAGE: int(message), _F.CLAIMED_AT: claimed_at_ms, _F.IS_BOUND: {"$ne": True}}
        await self._update_each(files, query, {"$unset": {_F.MESSAGE: "", _F.CLAIMED_AT: ""}})

    async def bind(self, files: Sequence[FileId], message: MessageId) -> None:
        """Keep the files of a message that is stored. May be repeated, also after the message was recalled."""
        await self.bind_many({message: files})

    async def bind_many(self, files: Mapping[MessageId, Sequence[FileId]]) -> None:
        """Keep the files of messages that are stored, as `bind` does."""
        change = {"$set": {_F.IS_BOUND: True}, "$unset": {_F.REMOVE_AT: ""}}
        updates = [
            UpdateOne({_F.ID: int(number), _F.MESSAGE: int(message), _F.STATE: FileState.READY.value}, change)
            for message, numbers in files.items()
            for number in numbers
        ]
        if updates:
            await self._mongo.bulk_write(FILES, updates)

    async def remove(self, files: Sequence[FileId], message: MessageId, now_ms: int, session: Any = None) -> None:
        """Remove the files of a message that was recalled or deleted. They are not served from now on.

        May be repeated. Files of another message stay, so the copy of a broadcast reply removes nothing.
        """
        await self.remove_many({message: files}, now_ms, session)

    async def remove_many(self, files: Mapping[MessageId, Sequence[FileId]], now_ms: int, session: Any = None) -> None:
        """Remove the files of messages, as `remove` does."""
        removed = FileState.REMOVED.value
        change = {"$set": {_F.STATE: removed, _F.IS_BOUND: True, _F.REMOVE_AT: now_ms}}
        updates = [
            UpdateOne({_F.ID: int(number), _F.MESSAGE: int(message), _F.STATE: {"$ne": removed}}, change)
            for message, numbers in files.items()
            for number in numbers
        ]
        if updates:
            await self._mongo.bulk_write(FILES, updates, session)

    async def _update_each(self, files: Sequence[FileId], query: Document, change: Document) -> None:
        updates = [UpdateOne({_F.ID: int(number)} | query, change) for number in files]
        if updates:
            await self._mongo.bulk_write(FILES, updates)
