"""Reactions: changes of reactions to a message, shared by all who react to it on this process at the same time.

The write is announced in the outbox first, so all users get the event if this server dies after it (ADR 71).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any

import structlog

from store.base.errors import StoreError, Unreachable
from store.base.ids import ConversationId, ConversationKind, MessageId, kind_of
from store.base.request_user import SharedWork
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.messages.revision_store import Revision
from store.reactions.reaction_draft import ReactionChange, ReactionRefusal
from store.reactions.reaction_store import NotAnnounced, deciding_conversation
from store.store import Store
from subscriptions.delivery.message_delivery import MessageDelivery

_log = structlog.get_logger()

_BATCH = 500
"""Changes that share a transaction at most."""

_PAUSE_AFTER_WRITE_SECONDS = 0.02
"""After a write, further changes of the message are collected for this time. A lone change does not wait."""

_DELIVERY_SECONDS = 12.0
"""Time to wait for the end of the message's delivery."""

_PAUSE_SECONDS = (0.02, 0.5)
_ATTEMPTS = 10
"""Judgements of rights that may change meanwhile."""

_CLOSING_SECONDS = 5.0

_ABANDONED_MS = 60_000
"""If a change was not written within this time, the server that announced it has died before the write."""

Judge = Callable[[], Awaitable[ReactionChange]]
"""Judges a user's rights again. Returns the change under them. Raises if the user may not make it any more."""

Notify = Callable[[Message, Revision], None]
"""Notified of a message whose reactions have changed, after the write and before the caller is answered.

It has to publish the message's reactions, and then delete the revision from the outbox (`RevisionStore.clear_call`). If
the server dies before that, another one calls it again, after some seconds.
"""


@dataclass(slots=True, eq=False)
class _Request:
    """A change that a caller waits for."""

    message: Message
    change: ReactionChange
    judge: Judge
    context: Context
    done: asyncio.Future[Message | ReactionRefusal] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def end(self, outcome: Message | ReactionRefusal) -> None:
        """Answer the caller."""
        if not self.done.done():
            self.done.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        """Answer the caller with an error."""
        if not self.done.done():
            self.done.set_exception(error)
            # The caller may have been cancelled.
            self.done.exception()


class Reactions:
    """Changes of reactions. `close` waits for running ones."""

    def __init__(self, store: Store, delivery: MessageDelivery) -> None:
        self._store = store
        self._delivery = delivery
        self.notify: Notify = self._clear
        self._waiting: dict[MessageId, deque[_Request]] = {}
        """Waiting changes by message. A message is here while changes of it are written, and for a moment after."""
        self._unfinished: set[tuple[ConversationId, str]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def change(self, message: Message, change: ReactionChange, judge: Judge) -> Message | ReactionRefusal:
        """Change the reactions to a message. What is so already changes nothing.

        Changes of one message that come while another one is written, or right after, share the next transaction.
        Cancelling the caller does not stop the change.

        Args:
            message: The message, as it was just read.
            change: The change, under the rights that were just judged.
            judge: Called if rights have changed since, or after waiting for the end of the message's delivery.

        Returns:
            The message after the change, or why the change was refused.

        Raises:
            Unreachable: The change may have been stored. Then it will be published.
        """
        if self._closed:
            raise Unreachable("the server is stopping")
        request = _Request(message, change, judge, copy_context())
        queue = self._waiting.get(message.id)
        if queue is not None:
            queue.append(request)
        else:
            self._waiting[message.id] = deque((request,))
            self._begin(message.id)
        return await asyncio.shield(request.done)

    async def finish(self, revision: Revision) -> bool:
        """Publish a change that another server left in the outbox. Returns whether it was stored."""
        try:
            return await self._finish(revision)
        except StoreError as error:
            _log.warning("reactions_not_published_yet", message=revision.message, reason=str(error))
            return False

    async def _finish(self, revision: Revision) -> bool:
        if (revision.conversation, revision.entry) in self._unfinished:
            return False
        place = (revision.conversation, revision.seq)
        present = (await self._store.messages.find_many([place])).get(place)
        if present is not None and revision.is_applied_to(present):
            _log.warning("abandoned_reactions_found", message=present.id)
            await self._publish(present, revision)
            return True
        if revision.age_ms > _ABANDONED_MS or present is None:
            await self._store.cache.one(self._store.revisions.clear_call(revision))
        return False

    async def close(self) -> None:
        """Wait up to five seconds for running changes. Other servers finish the rest from the outbox."""
        self._closed = True
        for queue in self._waiting.values():
            for request in queue:
                request.fail(Unreachable("the server is stopping"))
            queue.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
        await end_tasks(self._tasks)

    def _begin(self, message: MessageId, newest: Message | None = None) -> None:
        """Write the changes of a message that wait; `newest`: the message after the previous ones."""
        queue = self._waiting[message]
        if not queue or self._closed:
            del self._waiting[message]
            return
        batch = [queue.popleft() for _ in range(min(_BATCH, len(queue)))]
        # In the Redis fallback, each request has a cache of its own.
        loop = asyncio.get_running_loop()
        self._track(loop.create_task(self._run(message, batch, newest), context=batch[0].context))

    async def _run(self, message: MessageId, batch: list[_Request], newest: Message | None) -> None:
        written: Message | None = None
        try:
            # All who react to the message wait for it.
            with SharedWork():
                written = await self._write(batch, newest)
        except Exception as error:
            for request in batch:
                request.fail(error)
        except asyncio.CancelledError:
            for request in batch:
                request.fail(Unreachable("the server is stopping"))
            raise
        finally:
            if not self._closed:
                loop = asyncio.get_running_loop()
                loop.call_later(_PAUSE_AFTER_WRITE_SECONDS, self._begin, message, written, context=Context())

    async def _write(self, batch: list[_Request], newest: Message | None) -> Message | None:
        """Write changes of a message and publish them. Return the message after them."""
        allowed, revision = await self._announce(batch)
        if revision is None:
            return newest
        key = (revision.conversation, revision.entry)
        self._unfinished.add(key)
        try:
            message = max(
                (message for message in (newest, *(request.message for request in allowed)) if message is not None),
                key=lambda message: message.reactions_version,
            )
            changes = [request.change for request in allowed]
            changed = await self._store.reactions.change(message, changes, self._store.clock.now_ms())
            if changed.is_changed and changed.message is not None:
                await self._publish(changed.message, revision)
            else:
                self._clear(message, revision)
        finally:
            self._unfinished.discard(key)
        for request, refusal in zip(allowed, changed.refusals, strict=True):
            request.end(refusal or changed.message or ReactionRefusal.GONE)
        return changed.message

    async def _announce(self, batch: list[_Request]) -> tuple[list[_Request], Revision | None]:
        """Put changes into the outbox under the rights of that moment. Return those that are still allowed."""
        loop = asyncio.get_running_loop()
        deadline, (pause, longest), attempts = loop.time() + _DELIVERY_SECONDS, _PAUSE_SECONDS, 0
        message = batch[0].message
        while batch:
            if self._delivery.find(message.id) is None:
                answer = await self._store.reactions.announce(message, [request.change for request in batch])
                if isinstance(answer, Revision):
                    return batch, answer
            else:
                answer = NotAnnounced.IN_DELIVERY
            if answer is NotAnnounced.IN_DELIVERY:
                # The event must not overtake the message.
                if loop.time() > deadline:
                    raise Unreachable("the message is still being delivered")
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            else:
                attempts += 1
                if attempts > _ATTEMPTS:
                    raise Unreachable("the rights in the conversation change too often")
                deciding = deciding_conversation(message.conversation)
                is_group = kind_of(deciding) is ConversationKind.GROUP
                await self._store.conversations.load((deciding,), with_members=is_group)
            batch = await self._judge_again(batch)
        return batch, None

    async def _judge_again(self, batch: Sequence[_Request]) -> list[_Request]:
        """Judge rights again. Return the changes that are still allowed; the callers of the others get the error."""
        outcomes = await asyncio.gather(*(request.judge() for request in batch), return_exceptions=True)
        allowed = []
        for request, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                request.fail(outcome)
            else:
                request.change = outcome
                allowed.append(request)
        return allowed

    async def _publish(self, message: Message, revision: Revision) -> None:
        """Make a change visible to readers, of the copy of a reply too, and start publishing it."""
        store = self._store
        copy = await store.copies.update(message) if message.is_broadcast else None
        shown = [message] if copy is None else [message, copy]
        is_visible = False
        try:
            with store.cache.shared_throughout():
                await store.cache.run([store.revisions.newest_message_call(each, 0) for each in shown])
                is_visible = True
        except StoreError:
            for each in shown:
                store.stale_caches.add_conversation(each.conversation)
            if not is_visible:
                raise
            # The deployment's Redis is unavailable: users see the change when their state is loaded again.
            return
        self.notify(message, revision)

    def _clear(self, _message: Message, revision: Revision) -> None:
        self._track(asyncio.create_task(self._delete(revision)))

    async def _delete(self, revision: Revision) -> None:
        try:
            await self._store.cache.run_in_background([self._store.revisions.clear_call(revision)])
        except StoreError as error:
            _log.warning("announcement_not_deleted", message=revision.message, reason=str(error))

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
