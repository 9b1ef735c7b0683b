"""Group commit: writes the messages of many requests to MongoDB together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from store.base.errors import NotAttempted, StoreError, Superseded, Unreachable
from store.base.group_commit import GroupCommit
from store.base.ids import ConversationKind, kind_of
from store.base.tasks import end_tasks
from store.channels.channel_mentions import has_mentions, mentions_by_name_only
from store.channels.sending.sending_rights import SendingRefusal
from store.messages.commit_store import without_flag
from store.messages.idempotency_claims import Claim
from store.messages.message import CommittedMessage, Message, ReservedMessage
from store.messages.outbox.places import Refusal, ReservationReason, SlowModeWait
from store.redis.request_scope import RequestScope
from store.sessions.changes import INVALIDATE
from store.store import Store
from subscriptions.delivery.batch_window import BatchWindow
from subscriptions.delivery.commit_timestamps import CommitTimestamps
from subscriptions.delivery.in_flight_messages import InFlightMessage, InFlightMessages, StageQueue

_log = structlog.get_logger()

T = TypeVar("T")

BATCH = 500
"""Largest number of messages that share one write."""

_ATTEMPTS = 10
"""Attempts to reserve a place in a conversation that is evicted from the cache again and again."""

_COMMIT_SECONDS = 15.0
_RETRY_SECONDS = (0.05, 1.0)


async def reserve_place(
    store: Store, message: Message, reason: ReservationReason
) -> ReservedMessage | SendingRefusal | SlowModeWait | Refusal:
    """Reserve a place for a message that is not new. One round trip if everything is cached.

    Rights are not checked again. Returns the refusal if the message gets no place: NOT_VISIBLE if the conversation is
    gone, NOT_LOADED if it could not be loaded.
    """
    match kind_of(message.conversation):
        case ConversationKind.CHANNEL:
            return await store.channel_places.reserve(message, reason)
        case ConversationKind.THREAD:
            return await store.reply_places.reserve(message, None, reason)
        case _:
            for _ in range(_ATTEMPTS):
                place = await store.outbox.reserve(message, reason)
                if place is not Refusal.NOT_LOADED:
                    return place
                if not await store.conversations.load((message.conversation,), with_members=True):
                    return SendingRefusal.NOT_VISIBLE
            return Refusal.NOT_LOADED


class CommitStage:
    """Makes messages durable and hands them to the next stage.

    A batch is written again until it is confirmed, for up to 15 s: MongoDB may be electing a primary. Writes are
    idempotent.
    """

    def __init__(self, store: Store, in_flight: InFlightMessages, next_queue: StageQueue) -> None:
        self._store = store
        self._in_flight = in_flight
        self._next_queue = next_queue
        self.batch_window = BatchWindow()
        self.queue = GroupCommit(self._commit, BATCH, self.batch_window.wait)
        self._timestamps = CommitTimestamps(store.clock)
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop the commits that are not confirmed. Their messages stay in the outbox."""
        await self.queue.close()
        await end_tasks(self._tasks)

    def begin(self, message: InFlightMessage) -> None:
        """Commit a message, after the users who are notified of it are known."""
        reserved = message.reserved
        if not reserved.notified and mentions_by_name_only(reserved.message):
            names = dict.fromkeys(user for user in reserved.message.mentions if user != reserved.message.sender)
            message.reserved = replace(reserved, notified=tuple(names))
        if has_mentions(message.reserved.message):
            self._start(self._begin_with_mentions(message))
        else:
            self.queue.push([message])

    async def _begin_with_mentions(self, message: InFlightMessage) -> None:
        try:
            with RequestScope():
                reserved = message.reserved
                notified = await self._store.channel_mentions.find(reserved.message, reserved.judged_version)
        except Exception as error:
            if not isinstance(error, StoreError):
                _log.exception("mentioned_users_not_found", message=message.reserved.message.id)
            self._in_flight.give_up(message, Unreachable(str(error)))
            return
        message.reserved = replace(reserved, notified=notified)
        self.queue.push([message])

    async def _commit(self, batch: list[InFlightMessage]) -> None:
        """Write messages together. A change of a group has its own transaction, which the others do not wait for."""
        for message in batch:
            if message.reserved.change is not None:
                self._start(self._commit_change(message))
        messages = [message for message in batch if message.reserved.change is None]
        if messages:
            await self._commit_messages(messages)

    async def _commit_messages(self, batch: list[InFlightMessage]) -> None:
        # Messages of one batch get their timestamps, and are fanned out, in the order of history.
        batch.sort(key=lambda message: message.reserved.message.seq)
        store = self._store
        # A server that died may have stored them, or Redis may have assigned a place that is taken.
        messages_first = store.deployment.may_redis_lag or any(message.recovered for message in batch)

        async def write(is_retry: bool) -> tuple[list[CommittedMessage], list[ReservedMessage]]:
            reserved = [message.reserved for message in batch]
            return await store.commits.commit(
                reserved, self._timestamps.take(len(batch)), messages_first=messages_first or is_retry
            )

        try:
            written = await self._retry_until_confirmed(batch, write)
        except Exception as error:
            await self._commit_each(batch, error)
            return
        if written is not None:
            self._hand_over(batch, *written)

    async def _commit_each(self, batch: list[InFlightMessage], error: Exception) -> None:
        """Write each message alone, so that one that cannot be stored does not fail the others."""
        if len(batch) > 1:
            for message in batch:
                await self._commit_messages([message])
            return
        _log.exception("message_not_stored", message=batch[0].reserved.message.id, exc_info=error)
        self._in_flight.give_up(batch[0], Unreachable(str(error)))

    def _hand_over(
        self,
        batch: Sequence[InFlightMessage],
        durable: Sequence[CommittedMessage],
        displaced: Sequence[ReservedMessage],
    ) -> None:
        """Pass durable messages to the next stage, and reserve another place for displaced ones."""
        by_id = {message.reserved.message.id: message for message in batch}
        ready = []
        for committed in durable:
            message = by_id[committed.reserved.message.id]
            message.reserved, message.committed = committed.reserved, committed
            ready.append(message)
        self._next_queue.push(ready)
        for reserved in displaced:
            message = by_id[reserved.message.id]
            # The copy of a reply that was refused because of its key is neither durable nor displaced.
            copy = by_id.get(reserved.message.copy_id) if reserved.message.copy_id is not None else None
            is_undecided = copy is not None and copy.committed is None and copy.reserved not in displaced
            self._start(self._reserve_again(message, copy if is_undecided else None))

    async def _commit_change(self, message: InFlightMessage) -> None:
        """Write a change of a group with its SYSTEM message."""
        store, reserved = self._store, message.reserved
        (timestamp,) = self._timestamps.take(1)

        async def write(_is_retry: bool) -> tuple[int | None]:
            at_ms = await store.groups.commit(reserved, timestamp)
            if at_ms is None and await store.key_owners.release(reserved.message):
                at_ms = await store.groups.commit(reserved, timestamp)
            return (at_ms,)

        try:
            written = await self._retry_until_confirmed([message], write)
            if written is None:
                return
            (at_ms,) = written
            if at_ms is not None:
                message.committed = without_flag(CommittedMessage(reserved, at_ms))
                message.reserved = message.committed.reserved
                self._next_queue.push([message])
                return
            # Redis was behind MongoDB, so the decision was based on an old group or thread.
            if reserved.message.kind.countable:
                # A reply decides by itself what changes.
                await self._reserve_again(message)
                return
            # The caller decides again. Messages may have been delivered under the new membership: before the entry is
            # cleared, because a server that takes this over has to do the same, and after the head is dropped.
            await self._invalidate_affected(reserved)
            await store.cache.run([store.outbox.clear_call(reserved)])
            await store.conversations.drop(reserved.message.conversation)
            with suppress(StoreError):
                await self._invalidate_affected(reserved)
            self._in_flight.give_up(message, Superseded("the group changed after the decision"))
        except Exception as error:
            if not isinstance(error, StoreError):
                _log.exception("group_change_failed", group=reserved.message.conversation)
            self._in_flight.give_up(message, Unreachable(str(error)))

    async def _invalidate_affected(self, reserved: ReservedMessage) -> None:
        """Invalidate the states of users who would have joined or left with a change."""
        change = reserved.change
        users = (*change.joined, *change.left) if change is not None else ()
        if users:
            await self._store.cache.run([self._store.sessions.apply_call(user, INVALIDATE) for user in users])

    async def _retry_until_confirmed(
        self, batch: Sequence[InFlightMessage], write: Callable[[bool], Awaitable[T]]
    ) -> T | None:
        """Return what `write` returns; None if the batch was given up at the deadline.

        The argument of `write` is True for a retry.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _COMMIT_SECONDS
        pause, longest = _RETRY_SECONDS
        is_retry = False
        while True:
            try:
                return await write(is_retry)
            except StoreError as error:
                if isinstance(error, NotAttempted) or loop.time() + pause > deadline:
                    for message in batch:
                        self._in_flight.give_up(message, error)
                    return None
                _log.warning("commit_not_confirmed_yet", messages=len(batch), reason=str(error))
                is_retry = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)

    async def _reserve_again(self, message: InFlightMessage, copy: InFlightMessage | None = None) -> None:
        """Reserve another seq for a message: MongoDB has another message at its seq, so Redis was behind.

        If MongoDB has another message with its idempotency key, this one is not stored.

        copy: Its copy, if that was refused with it. It is committed again if the key has no owner any more.
        """
        store, old = self._store, message.reserved
        conversation = old.message.conversation
        undecided = [message] if copy is None else [message, copy]

        async def give_way(_is_retry: bool) -> bool:
            with RequestScope():
                owner = await store.key_owners.find(old.message)
                if owner is not None:
                    await self._give_way(message, owner)
            return owner is not None

        try:
            if await self._retry_until_confirmed(undecided, give_way) is not False:
                return
            with RequestScope():
                message_without_place = old.message.with_place(0, 0)._replace(parent_seq=0)
                if old.change is None:
                    await store.conversations.drop(conversation, old.message.seq)
                else:
                    # The followers may differ, whatever the newest seq is. A load would apply the change again.
                    await store.cache.one(store.outbox.clear_call(old))
                    await store.conversations.drop(conversation)
                reserved = await reserve_place(store, message_without_place, ReservationReason.DISPLACED_MESSAGE)
            if not isinstance(reserved, ReservedMessage):
                if reserved is not Refusal.NOT_LOADED:
                    # The group has ended, or the sender may no longer write this: no server should try again.
                    await store.cache.one(store.outbox.clear_call(old))
                raise Unreachable(f"no place for a message: {reserved}")
            await store.cache.one(store.outbox.clear_call(old))
        except Exception as error:
            if not isinstance(error, StoreError):
                _log.exception("message_not_reserved_again", message=old.message.id)
            for each in undecided:
                self._in_flight.give_up(each, Unreachable(str(error)))
            return
        _log.info("message_reserved_again", conversation=conversation, was=old.message.seq, seq=reserved.message.seq)
        message.reserved = reserved
        self.begin(message)
        if copy is not None:
            copy.recovered = True
            self.begin(copy)

    async def _give_way(self, message: InFlightMessage, owner: Message) -> None:
        """Answer the sender of a refused message with the one that owns its key. Empty the message and its copy.

        May be repeated if it fails: the messages go on when both are stored.
        """
        refused = message.reserved.message
        _log.info("message_sent_before", conversation=refused.conversation, seq=refused.seq, owner=owner.seq)
        claim = Claim(owner.id, owner.conversation, owner.digest or "", owner.seq)
        await self._store.claims.replace(refused.sender, refused.key or "", claim)
        copy = self._in_flight.find(refused.copy_id or 0)
        if copy is None and message.reserved.copy is not None:
            copy = self._in_flight.add(message.reserved.copy, recovered=True)
        given_up = [message] if copy is None or copy.committed is not None else [copy, message]
        stored = [await self._store_emptied(each.reserved) for each in given_up]
        for each, emptied in zip(given_up, stored, strict=True):
            self._in_flight.answer_with(each, owner)
            if emptied is None:
                self._in_flight.remove(each)
                continue
            each.reserved, each.recovered = emptied, True
            self.queue.push([each])

    async def _store_emptied(self, refused: ReservedMessage) -> ReservedMessage | None:
        """Store a message without content, so that it can be delivered. Return None if another one has its place.

        Later messages may be counted from its place, so without a message there all unread counts would be wrong.
        """
        store, emptied = self._store, refused.message.emptied()
        is_stored = await store.commits.store_emptied(emptied)
        if refused.change is not None or not is_stored:
            await store.cache.one(store.outbox.clear_call(refused))
        await store.conversations.drop(emptied.conversation)
        return replace(refused, message=emptied, change=None, notified=(), copy=None) if is_stored else None

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
