"""Files of messages that are being sent: claimed, released, bound (ADR 75)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from enum import Enum, auto
from typing import NamedTuple

import structlog

from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import ConversationId, FileId, MessageId, without_thread
from store.files.file import Attachment, File, FileState
from store.files.file_claims import TAKEOVER_MS, FileClaims
from store.files.file_store import FileStore
from store.messages.message import Message
from store.messages.message_store import MessageStore
from store.messages.outbox.outbox_store import OutboxStore
from store.redis.cache import Cache

_log = structlog.get_logger()


class ClaimRefusal(Enum):
    """Reasons why a message does not get its files."""

    UNUSABLE = auto()
    """A file does not exist, is not the sender's or not READY, is for another conversation, or is in a message."""
    UNDECIDED = auto()
    """Another message has claimed a file of the sender, and may or may not be stored soon."""


class ClaimedFiles(NamedTuple):
    """Files that a message has claimed.

    Attributes:
        message: The message.
        attachments: All its files, in the order asked for.
        new: The files that it had not claimed before.
        claimed_at_ms: Time of the claim.
    """

    message: MessageId
    attachments: tuple[Attachment, ...]
    new: tuple[FileId, ...]
    claimed_at_ms: int


class MessageFiles:
    """Claims files for messages, and binds them to stored ones. Does nothing for messages without files."""

    def __init__(
        self,
        claims: FileClaims,
        files: FileStore,
        messages: MessageStore,
        outbox: OutboxStore,
        cache: Cache,
        clock: Clock,
    ) -> None:
        self._claims = claims
        self._files = files
        self._messages = messages
        self._outbox = outbox
        self._cache = cache
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    async def claim(self, message: Message, files: Sequence[FileId]) -> ClaimedFiles | ClaimRefusal:
        """Claim all files for a message, or none. One round trip if none has a claim of another message.

        A message may claim its files again. Cancelling the caller releases them. Raises Unreachable: then they are
        released as far as MongoDB answers.
        """
        work = asyncio.create_task(self._claim(message, files))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._run_later(self._release_when_claimed(work))
            raise

    async def release(self, claimed: ClaimedFiles) -> None:
        """Give back the files that a message has claimed. It was refused, so this attempt has not stored it.

        A file stays claimed if another attempt to send the same message has claimed it before or since. If MongoDB
        does not answer, other messages can take the claims over later.
        """
        try:
            await self._claims.release(claimed.new, claimed.message, claimed.claimed_at_ms)
        except StoreError as error:
            _log.warning("files_not_released", message=claimed.message, reason=str(error))

    async def bind(self, messages: Sequence[Message]) -> None:
        """Keep the files of stored messages. One round trip, or none without files. May be repeated."""
        files = {message.id: message.own_files for message in messages if message.own_files}
        if files:
            await self._claims.bind_many(files)

    async def _claim(self, message: Message, files: Sequence[FileId]) -> ClaimedFiles | ClaimRefusal:
        now_ms, conversations = self._clock.now_ms(), _conversations_for(message)
        found: dict[FileId, File] = {}
        refusal: ClaimRefusal | None = ClaimRefusal.UNUSABLE
        try:
            found = await self._claims.claim(files, message.sender, conversations, message.id, now_ms)
            refusal = await self._take_over(message, files, conversations, now_ms, found)
        except StoreError:
            # Some of them may have been claimed.
            await self.release(ClaimedFiles(message.id, (), tuple(files), now_ms))
            raise
        new = tuple(file.id for file in found.values() if file.message != message.id)
        attachments = tuple(found[file].as_attachment() for file in files if file in found)
        claimed = ClaimedFiles(message.id, attachments, new, now_ms)
        if refusal is not None:
            await self.release(claimed)
            return refusal
        return claimed

    async def _take_over(
        self,
        message: Message,
        wanted: Sequence[FileId],
        conversations: Sequence[ConversationId],
        now_ms: int,
        found: dict[FileId, File],
    ) -> ClaimRefusal | None:
        """Claim the missing files, if messages have claimed them which were never stored. Add them to `found`.

        Files that are bound to the message itself are added too: another attempt to send it has stored it.
        """
        if len(found) == len(wanted):
            return None
        rows = await self._files.find_many(number for number in wanted if number not in found)
        found |= {number: file for number, file in rows.items() if file.message == message.id and file.content}
        claimed = [
            file
            for number, file in rows.items()
            if number not in found
            and file.owner == message.sender
            and file.state is FileState.READY
            and file.conversation in conversations
            and file.message is not None
            and not file.is_bound
        ]
        if len(found) + len(claimed) < len(wanted):
            return ClaimRefusal.UNUSABLE
        if not claimed:
            return None
        others = list(dict.fromkeys(file.message for file in claimed if file.message is not None))
        is_decided = all((file.claimed_at_ms or 0) <= now_ms - TAKEOVER_MS for file in claimed)
        if is_decided:
            # Without the deployment's Redis nobody knows what is in the outbox.
            self._cache.require_shared()
            # A message leaves the outbox after it is stored, so MongoDB is asked last.
            is_decided = not await self._outbox.contains(message.conversation, *others)
        if await self._messages.find_by_ids(others):
            return ClaimRefusal.UNUSABLE
        if not is_decided:
            return ClaimRefusal.UNDECIDED
        for file in claimed:
            assert file.message is not None
            taken = await self._claims.take_over(
                [file.id], message.sender, conversations, file.message, message.id, now_ms
            )
            if file.id not in taken:
                return ClaimRefusal.UNDECIDED
            found |= taken
        return None

    async def _release_when_claimed(self, work: Awaitable[ClaimedFiles | ClaimRefusal]) -> None:
        try:
            claimed = await work
        except StoreError:
            return
        if isinstance(claimed, ClaimedFiles):
            await self.release(claimed)

    def _run_later(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _conversations_for(message: Message) -> tuple[ConversationId, ...]:
    """Return the conversations whose files a message may have: its own, and of a reply also the parent conversation."""
    return tuple(dict.fromkeys((message.conversation, without_thread(message.conversation))))
