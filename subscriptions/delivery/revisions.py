"""Revisions: edits, recalls and other embeds are stored, then published to all users who can read the message.

Each user gets the creation of a message before its revisions, and its last state last (docs/adr/0011-revisions.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import structlog

from store.audit.audit_note import AuditNote
from store.base.errors import StoreError, Unreachable
from store.base.ids import ConversationId, UserId, without_thread
from store.base.request_user import SharedWork
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.messages.revision_store import Revision, RevisionKind
from store.previews.embed import Embed
from store.previews.embed_updates import NewText
from store.store import Store
from subscriptions.delivery.announcements.revision_publications import Publication
from subscriptions.delivery.announcements.revision_publisher import RevisionPublisher
from subscriptions.delivery.message_delivery import MessageDelivery

_log = structlog.get_logger()

Check = Callable[[], Awaitable[int | None]]
"""Raises if the caller may not revise the message now. Returns the policy version judged under; None: no channel."""

_ATTEMPTS = 10
"""Judgements of rights that may change meanwhile."""

_CLOSING_SECONDS = 5.0

_ABANDONED_MS = 60_000
"""If a revision was not written within this time, the server that announced it has died before the write."""


class Revisions:
    """Changes of stored messages. `close` waits for running revisions."""

    def __init__(self, store: Store, delivery: MessageDelivery, publisher: RevisionPublisher) -> None:
        self._store = store
        self._delivery = delivery
        self.publisher = publisher
        self._unfinished: set[tuple[ConversationId, str]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def edit(
        self,
        message: Message,
        new: Callable[[], NewText],
        sender: UserId,
        check: Check,
        judged_version: int | None = None,
    ) -> Message:
        """Change the text of one of the sender's messages. Cancelling the caller does not stop the edit.

        If the message is still being delivered, this waits for the end of its delivery, then calls `check` again. So it
        does if rights in a channel have changed since they were judged.

        Args:
            message: The message.
            new: Returns its new text, under the rights that were judged last.
            sender: Its sender.
            check: Checks the caller's rights again.
            judged_version: What `check` returned before.

        Returns:
            The message after the edit. It is unchanged if it has that text already, or was recalled meanwhile.

        Raises:
            Unreachable: The edit may have been stored. Then it will be published.
        """

        async def write(at_ms: int) -> Message | None:
            return await self._store.revisions.edit(message, new(), sender, at_ms)

        return await self._start(self._revise(message, RevisionKind.EDIT, write, sender, check, judged_version))

    async def recall(
        self,
        message: Message,
        by: UserId,
        check: Check,
        judged_version: int | None = None,
        audit: AuditNote | None = None,
    ) -> Message:
        """Recall a message: no user gets its content any more. Guarantees and errors are those of `edit`.

        audit: the entry of the audit log, which is stored with the recall.
        """
        rows = self._store.audit.entry_rows(audit) if audit is not None else ()
        write = partial(self._store.revisions.recall, message, by, audit=rows)
        return await self._start(self._revise(message, RevisionKind.RECALL, write, by, check, judged_version))

    async def suppress_embeds(
        self, message: Message, sender: UserId, check: Check, judged_version: int | None = None
    ) -> Message:
        """Remove the link previews of one of the sender's messages for good. Guarantees and errors are those of `edit`.

        Nothing is published if it has none.
        """

        async def write(_at_ms: int) -> Message | None:
            return await self._store.embeds.suppress(message)

        return await self._start(self._revise(message, RevisionKind.EMBEDS, write, sender, check, judged_version))

    async def set_previews(self, message: Message, embeds: Sequence[Embed]) -> Message:
        """Replace the embeds of a message whose links were fetched, unless its text has changed since it was read.

        Returns the message as it is then. Guarantees and errors are those of `edit`.
        """

        async def write(_at_ms: int) -> Message | None:
            return await self._store.embeds.set_previews(message, embeds)

        return await self._start(self._revise(message, RevisionKind.EMBEDS, write, message.sender, _need_no_rights))

    async def finish(self, revision: Revision) -> bool:
        """Publish a revision that another server left in the outbox.

        Returns whether it was stored and is published now. Users who have its event do not get it again.
        """
        if _key(revision) in self._unfinished:
            return False
        self._unfinished.add(_key(revision))
        try:
            present = await self.publisher.find(revision)
            if present is not None and revision.is_applied_to(present):
                _log.warning("abandoned_revision_found", message=present.id)
                publications = await self.publisher.begin(present, revision, _now(), recovered=True)
                for publication in publications:
                    await self.publisher.publish_first(publication, None)
                for publication in publications:
                    await self.publisher.publish_remaining(publication)
                return True
            if revision.age_ms > _ABANDONED_MS:
                await self._store.cache.one(self._store.revisions.clear_call(revision))
        except StoreError as error:
            _log.warning("revision_not_published_yet", message=revision.message, reason=str(error))
        finally:
            self._unfinished.discard(_key(revision))
        return False

    async def close(self) -> None:
        """Wait up to five seconds for running revisions. Other servers finish the rest from the outbox."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
        await end_tasks(self._tasks)

    async def _start(self, work: Coroutine[Any, Any, Message]) -> Message:
        if self._closed:
            work.close()
            raise Unreachable("the server is stopping")
        task = self._track(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise Unreachable("the server is stopping") from None
            raise

    def _track(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # Everyone who may read the message waits for its revision.
        with SharedWork():
            task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._untrack)
        return task

    def _untrack(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # The caller got the exception. Retrieve it here too, because the caller may have been cancelled.
            task.exception()

    async def _revise(
        self,
        message: Message,
        kind: RevisionKind,
        write: Callable[[int], Awaitable[Message | None]],
        by: UserId,
        check: Check,
        judged_version: int | None = None,
    ) -> Message:
        if await self._delivery.wait_until_delivered(message):
            judged_version = await check()
        store, began = self._store, _now()
        # The revision goes into the outbox first: if this server dies after the write, another one publishes it.
        revision = await self._announce(message, kind, check, judged_version)
        self._unfinished.add(_key(revision))
        is_incomplete = False
        try:
            written = await write(store.clock.now_ms())
            if written is None:
                present = await self.publisher.find(revision)
                await store.cache.one(store.revisions.clear_call(revision))
                return present or message
            is_incomplete = await self._publish_written(written, revision, began, by)
            return written
        finally:
            if not is_incomplete:
                self._unfinished.discard(_key(revision))

    async def _announce(
        self, message: Message, kind: RevisionKind, check: Check, judged_version: int | None
    ) -> Revision:
        """Put a revision into the outbox. In a channel it takes its place there under the rights of that moment."""
        for _ in range(_ATTEMPTS):
            if judged_version is None:
                return await self._store.revisions.announce(message, kind)
            revision = await self._store.revisions.announce_in_channel(message, kind, judged_version)
            if revision is not None:
                return revision
            judged_version = await check()
        raise Unreachable("the rights in the channel change too often")

    async def _publish_written(self, written: Message, revision: Revision, began: float, by: UserId) -> bool:
        """Publish a revision to the first viewers, and start publishing it to the others.

        Returns whether there are others. While the deployment's Redis is unavailable, users see the revision when their
        state is loaded again.
        """
        store = self._store
        try:
            with store.cache.shared_throughout():
                publications = await self.publisher.begin(written, revision, began)
                for publication in publications:
                    await self.publisher.publish_first(publication, by)
        except StoreError:
            store.stale_caches.add_conversation(written.conversation)
            if written.is_broadcast:
                store.stale_caches.add_conversation(without_thread(written.conversation))
            if not store.cache.used_fallback_lately:
                raise
            return False
        incomplete = [publication for publication in publications if publication.remaining]
        if incomplete:
            self._track(self._publish_remaining_in_background(incomplete))
        return bool(incomplete)

    async def _publish_remaining_in_background(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            message = publication.message
            try:
                await self.publisher.publish_remaining(publication)
            except StoreError as error:
                self._store.stale_caches.add_conversation(message.conversation)
                _log.warning("revision_incomplete", message=message.id, reason=str(error))
            except Exception:
                _log.exception("revision_incomplete", message=message.id)
        self._unfinished.discard(_key(publications[0].outboxed.revision))


async def _need_no_rights() -> None:
    return None


def _key(revision: Revision) -> tuple[ConversationId, str]:
    return revision.conversation, revision.entry


def _now() -> float:
    return asyncio.get_running_loop().time()
