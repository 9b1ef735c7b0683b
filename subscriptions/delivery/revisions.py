"""Revisions: edits and recalls are stored, then published to all users who can read the message.

Each user gets the creation of a message before its revisions, and its last state last (docs/adr/0011-revisions.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from store.base.errors import StoreError, Unreachable
from store.base.ids import ConversationId, UserId
from store.base.request_user import SharedWork
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.messages.revision_store import Revision, RevisionKind
from store.redis.cache import Call
from store.redis.single_flight import retry_until_true
from store.sessions.apply_results import parse_result
from store.sessions.changes import Revise, logged_change
from store.store import Store
from subscriptions.delivery.fanout_stage import FIRST_RECIPIENTS
from subscriptions.delivery.message_delivery import MessageDelivery
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import REVISION_EVENTS
from subscriptions.realtime.events.shared import MessageChange
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.shared.shared_events import SharedEvents, is_on_workspace_clock

_log = structlog.get_logger()

ListViewers = Callable[[ConversationId, int], Awaitable[Sequence[UserId]]]
"""Returns the current members of a conversation who can read the message at a seq."""

Check = Callable[[], Awaitable[int | None]]
"""Raises if the caller may not revise the message now. Returns the policy version judged under; None: no channel."""

_ATTEMPTS = 10
"""Judgements of rights that may change meanwhile."""

_SLICE = 500
_CLOSING_SECONDS = 5.0
_SHARED_AFTER_SECONDS = 4.0
"""After this time another server may have begun to publish the same revision."""

_ABANDONED_MS = 60_000
"""If a revision was not written within this time, the server that announced it has died before the write."""


@dataclass(slots=True)
class _Publication:
    """A stored revision that is being published."""

    message: Message
    revision: Revision
    at_ms: int
    stored_at: int
    """`at_ms` if MongoDB has stored it as the time at which sessions moved; else 0."""
    began: float
    """On the event loop's clock."""
    recovered: bool = False
    """True if a server that has died began to publish it."""
    remaining: list[UserId] = field(default_factory=list)


class Revisions:
    """Changes of stored messages. `close` waits for running revisions."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        delivery: MessageDelivery,
        shared_events: SharedEvents,
        list_viewers: ListViewers,
    ) -> None:
        self._store = store
        self._bus = bus
        self._delivery = delivery
        self._shared_events = shared_events
        self._list_viewers = list_viewers
        self._one_slice_at_a_time = asyncio.Lock()
        self._unfinished: set[tuple[ConversationId, str]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def edit(
        self, message: Message, text: str, sender: UserId, check: Check, judged_version: int | None = None
    ) -> Message:
        """Change the text of one of the sender's messages. Cancelling the caller does not stop the edit.

        If the message is still being delivered, this waits for the end of its delivery, then calls `check` again. So it
        does if rights in a channel have changed since they were judged.

        Args:
            message: The message.
            text: Its new text.
            sender: Its sender.
            check: Checks the caller's rights again.
            judged_version: What `check` returned before.

        Returns:
            The message after the edit. It is unchanged if it has that text already, or was recalled meanwhile.

        Raises:
            Unreachable: The edit may have been stored. Then it will be published.
        """
        write = partial(self._store.revisions.edit, message, text, sender)
        return await self._start(self._revise(message, RevisionKind.EDIT, write, sender, check, judged_version))

    async def recall(self, message: Message, by: UserId, check: Check, judged_version: int | None = None) -> Message:
        """Withhold a message's content from everybody. Guarantees and errors are those of `edit`."""
        write = partial(self._store.revisions.recall, message, by)
        return await self._start(self._revise(message, RevisionKind.RECALL, write, by, check, judged_version))

    async def finish(self, revision: Revision) -> bool:
        """Publish a revision that another server left in the outbox.

        Returns whether it was stored and is published now. Users who have its event do not get it again.
        """
        if _key(revision) in self._unfinished:
            return False
        self._unfinished.add(_key(revision))
        try:
            present = await self._find(revision)
            if present is not None and revision.is_applied_to(present):
                _log.warning("abandoned_revision_found", message=present.id)
                publication = await self._begin(present, revision, self._now(), recovered=True)
                await self._publish_first(publication, None)
                await self._publish_remaining(publication)
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
        judged_version: int | None,
    ) -> Message:
        if not await self._is_delivered(message):
            await retry_until_true(partial(self._is_delivered, message), "a message is still being delivered")
            judged_version = await check()
        store, began = self._store, self._now()
        # The revision goes into the outbox first: if this server dies after the write, another one publishes it.
        revision = await self._announce(message, kind, check, judged_version)
        self._unfinished.add(_key(revision))
        publication: _Publication | None = None
        try:
            written = await write(store.clock.now_ms())
            if written is None:
                present = await self._find(revision)
                await store.cache.one(store.revisions.clear_call(revision))
                return present or message
            publication = await self._publish_written(written, revision, began, by)
            return written
        finally:
            if publication is None or not publication.remaining:
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

    async def _publish_written(
        self, written: Message, revision: Revision, began: float, by: UserId
    ) -> _Publication | None:
        """Publish a revision to the first viewers, and start publishing it to the others.

        Returns None while the deployment's Redis is unavailable: users see the revision when their state is loaded
        again.
        """
        store = self._store
        try:
            publication = await self._begin(written, revision, began)
            await self._publish_first(publication, by)
            store.cache.require_shared()
        except StoreError:
            store.stale_caches.add_conversation(written.conversation)
            if store.cache.is_shared:
                raise
            return None
        if publication.remaining:
            self._track(self._publish_remaining_in_background(publication))
        return publication

    async def _is_delivered(self, message: Message) -> bool:
        """Return whether the message's creation is applied to all recipients, so that no revision overtakes it."""
        if self._delivery.find(message.id) is not None:
            return False
        return not await self._store.outbox.contains(message.conversation, message.id)

    async def _begin(
        self, message: Message, revision: Revision, began: float, *, recovered: bool = False
    ) -> _Publication:
        at_ms = self._store.clock.now_ms()
        is_newest = await self._store.revisions.move_head(message, at_ms)
        return _Publication(message, revision, at_ms, at_ms if is_newest else 0, began, recovered)

    async def _publish_first(self, publication: _Publication, by: UserId | None) -> None:
        """Apply a revision to the conversation's head and to the first viewers, beginning with the user who made it."""
        message = publication.message
        viewers = await self._list_viewers(message.conversation, message.seq)
        users = sorted(viewers, key=lambda user: user != by)
        first, publication.remaining = users[:FIRST_RECIPIENTS], users[FIRST_RECIPIENTS:]
        calls = [
            self._store.revisions.newest_message_call(message, publication.at_ms),
            *self._changes(publication, first),
        ]
        is_in_channel, change = is_on_workspace_clock(message.conversation), MessageChange(publication.revision.kind)
        if is_in_channel:
            may_repeat = self._is_shared(publication)
            calls.append(self._shared_events.message_call(message, change, may_repeat=may_repeat))
        answers = await self._store.cache.run(calls)
        present = await self._publish(publication, first, answers[1 : 1 + len(first)])
        if is_in_channel:
            self._shared_events.publish_message(present or message, change, answers[-1])

    async def _publish_remaining_in_background(self, publication: _Publication) -> None:
        message = publication.message
        try:
            await self._publish_remaining(publication)
        except StoreError as error:
            self._store.stale_caches.add_conversation(message.conversation)
            _log.warning("revision_incomplete", message=message.id, reason=str(error))
        except Exception:
            _log.exception("revision_incomplete", message=message.id)
        finally:
            self._unfinished.discard(_key(publication.revision))

    async def _publish_remaining(self, publication: _Publication) -> None:
        """Apply a revision to the other viewers, in slices. One slice of one revision at a time: others wait."""
        while publication.remaining:
            async with self._one_slice_at_a_time:
                users, publication.remaining = publication.remaining[:_SLICE], publication.remaining[_SLICE:]
                answers = await self._store.cache.run_in_background(self._changes(publication, users))
                await self._publish(publication, users, answers)

    def _changes(self, publication: _Publication, users: Sequence[UserId]) -> list[Call]:
        message = publication.message
        revise = Revise(message.conversation, message.seq, may_repeat=self._is_shared(publication))
        change = logged_change(revise, publication.at_ms, REVISION_EVENTS[publication.revision.kind].log_entry(message))
        return [self._store.sessions.apply_call(user, change) for user in users]

    def _is_shared(self, publication: _Publication) -> bool:
        """Return whether another server may be publishing the same revision."""
        return publication.recovered or self._now() - publication.began > _SHARED_AFTER_SECONDS

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _publish(
        self, publication: _Publication, users: Sequence[UserId], answers: Sequence[list[Any]]
    ) -> Message | None:
        """Send one event to all users whose clock took a tick, with the present state of the message, and return it.

        The ticks of two concurrent revisions may be in another order than their writes. Both writes came before both
        ticks, so a message that is read after the ticks shows the newest of both in either event. An edit that a recall
        overtook shows nothing; its ticks are sent all the same, for the chain.
        """
        outcomes = [(user, parse_result(user, answer)) for user, answer in zip(users, answers, strict=True)]
        outgoing = OutgoingEvents()
        present = await self._find(publication.revision)
        event = REVISION_EVENTS[publication.revision.kind].present(present) if present is not None else None
        outgoing.add(event, outcomes, stored_at=publication.stored_at)
        if self._is_shared(publication):
            # The server that died may have applied it without publishing it: hubs compare their users' clocks.
            outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
        is_complete = not publication.remaining
        self._bus.send(outgoing, [self._store.revisions.clear_call(publication.revision)] if is_complete else [])
        return present

    async def _find(self, revision: Revision) -> Message | None:
        place = (revision.conversation, revision.seq)
        found = (await self._store.messages.find_many([place])).get(place)
        return found if found is not None and found.id == revision.message else None


def _key(revision: Revision) -> tuple[ConversationId, str]:
    return revision.conversation, revision.entry
