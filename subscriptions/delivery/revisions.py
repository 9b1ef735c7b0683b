"""Edits and recalls: stored, then told to everybody who can read the message.

Whoever hears of a message hears of its creation first, of its revisions after that, and last of what it came to. What makes
that so is told in docs/adr/0011-revisions.md.
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
from store.base.tasks import end_tasks
from store.messages.message import Message
from store.messages.revision_store import Revision, RevisionKind
from store.redis.cache import Call
from store.redis.single_flight import retry_until_true
from store.sessions.apply_results import parse_result
from store.sessions.changes import Revise, logged
from store.store import Store
from subscriptions.delivery.message_delivery import FIRST_MEMBERS, MessageDelivery
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import REVISION_EVENTS
from subscriptions.realtime.outgoing_events import OutgoingEvents

_log = structlog.get_logger()

Viewers = Callable[[ConversationId, int], Awaitable[Sequence[UserId]]]
"""Who is in a conversation now and can read what is at a seq of it."""

Check = Callable[[], Awaitable[object]]
"""Raises where a revision is not, or no longer, its asker's to make."""

_SLICE = 500
_CLOSING_SECONDS = 5.0
_SHARED_AFTER_SECONDS = 4.0
"""From then on another server may have begun to tell the same."""

_FORGOTTEN_MS = 60_000
"""A revision that did not happen within this time is not going to: whoever announced it died before."""


@dataclass(slots=True)
class _Telling:
    """A stored revision on its way to those who are to hear of it. at_ms: its time; told_at: that, where MongoDB knows of it
    as the time when sessions moved. began: on the event loop's clock. recovered: begun by a server that is gone."""

    message: Message
    revision: Revision
    at_ms: int
    told_at: int
    began: float
    recovered: bool = False
    rest: list[UserId] = field(default_factory=list)


class Revisions:
    """Changes of messages that are there. `close` waits for what is under way."""

    def __init__(self, store: Store, bus: Bus, delivery: MessageDelivery, list_viewers: Viewers) -> None:
        self._store = store
        self._bus = bus
        self._delivery = delivery
        self._list_viewers = list_viewers
        self._lane = asyncio.Lock()
        self._under_way: set[tuple[ConversationId, str]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def edit(self, message: Message, text: str, sender: UserId, check: Check) -> Message:
        """Gives a message of the sender's another text, seen by all who can read it. Answers it as it is then: unchanged where it
        has that text already, or was recalled meanwhile. One that is still being delivered is waited for; then `check` is asked
        again whether it may be.

        Raises Unreachable: then it may have happened, and is told to others where it did. A caller that is cancelled does not
        stop it.
        """
        write = partial(self._store.revisions.edit, message, text, sender)
        return await self._start(self._revise(message, RevisionKind.EDIT, write, sender, check))

    async def recall(self, message: Message, by: UserId, check: Check) -> Message:
        """Withholds a message's content from everybody. Like edit."""
        write = partial(self._store.revisions.recall, message)
        return await self._start(self._revise(message, RevisionKind.RECALL, write, by, check))

    async def finish(self, left: Revision) -> bool:
        """Tells of a revision that was left in the outbox, where it did happen. Answers whether it did, and all were told.
        Whoever was told before is not told twice."""
        if _key(left) in self._under_way:
            return False
        self._under_way.add(_key(left))
        try:
            present = await self._find(left)
            if present is not None and left.is_done(present):
                _log.warning("telling of a revision that was left in the outbox", message=present.id)
                telling = await self._begin(present, left, self._now(), recovered=True)
                await self._tell_first(telling, None)
                await self._tell_rest(telling)
                return True
            if left.age_ms > _FORGOTTEN_MS:
                await self._store.cache.one(self._store.revisions.clear_call(left))
        except StoreError as error:
            _log.warning("a revision is not told yet", message=left.message, reason=str(error))
        finally:
            self._under_way.discard(_key(left))
        return False

    async def close(self) -> None:
        """Waits a few seconds for what is under way. What is left stays in the outbox for others."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
        await end_tasks(self._tasks)

    # --- the life of a revision

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
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Whoever waited for it heard of it; one that was cancelled meanwhile does not care.
            task.exception()

    async def _revise(
        self,
        message: Message,
        kind: RevisionKind,
        write: Callable[[int], Awaitable[Message | None]],
        by: UserId,
        check: Check,
    ) -> Message:
        if not await self._is_delivered(message):
            await retry_until_true(partial(self._is_delivered, message), "a message is still being delivered")
            await check()
        store, began = self._store, self._now()
        # Announced first: whoever dies between storing it and telling of it leaves word for others.
        revision = await store.revisions.announce(message, kind)
        self._under_way.add(_key(revision))
        goes_on = False
        try:
            done = await write(store.clock.now_ms())
            if done is None:
                present = await self._find(revision)
                await store.cache.one(store.revisions.clear_call(revision))
                return present or message
            try:
                telling = await self._begin(done, revision, began)
                await self._tell_first(telling, by)
                store.cache.require_shared()
            except StoreError:
                store.stale_caches.add_conversation(message.conversation)
                if store.cache.is_shared:
                    raise
                return done
            if telling.rest:
                self._track(self._tell_rest_aside(telling))
                goes_on = True
            return done
        finally:
            if not goes_on:
                self._under_way.discard(_key(revision))

    async def _is_delivered(self, message: Message) -> bool:
        """Whether everybody's state knows of the message's creation, so that nobody hears of that afterwards."""
        if self._delivery.find(message.id) is not None:
            return False
        return not await self._store.outbox.contains(message.conversation, message.id)

    async def _begin(self, message: Message, revision: Revision, began: float, *, recovered: bool = False) -> _Telling:
        at_ms = self._store.clock.now_ms()
        is_newest = await self._store.revisions.move_head(message, at_ms)
        return _Telling(message, revision, at_ms, at_ms if is_newest else 0, began, recovered)

    async def _tell_first(self, telling: _Telling, by: UserId | None) -> None:
        """The conversation's head, and the first who are to hear of it, whoever asked for it among them."""
        message = telling.message
        viewers = await self._list_viewers(message.conversation, message.seq)
        users = sorted(viewers, key=lambda user: user != by)
        first, telling.rest = users[:FIRST_MEMBERS], users[FIRST_MEMBERS:]
        calls = [self._store.revisions.newest_message_call(message, telling.at_ms), *self._changes(telling, first)]
        answers = await self._store.cache.run(calls)
        await self._publish(telling, first, answers[1:])

    async def _tell_rest_aside(self, telling: _Telling) -> None:
        try:
            await self._tell_rest(telling)
        except StoreError as error:
            self._store.stale_caches.add_conversation(telling.message.conversation)
            _log.warning("a revision did not reach all members yet", message=telling.message.id, reason=str(error))
        except Exception:
            _log.exception("a revision did not reach all members", message=telling.message.id)
        finally:
            self._under_way.discard(_key(telling.revision))

    async def _tell_rest(self, telling: _Telling) -> None:
        """The members of large groups beyond the first: one slice at a time, of all revisions, so that nobody waits for them."""
        while telling.rest:
            async with self._lane:
                users, telling.rest = telling.rest[:_SLICE], telling.rest[_SLICE:]
                answers = await self._store.cache.run_in_background(self._changes(telling, users))
                await self._publish(telling, users, answers)

    def _changes(self, telling: _Telling, users: Sequence[UserId]) -> list[Call]:
        message = telling.message
        revise = Revise(message.conversation, message.seq, may_repeat=self._is_shared(telling))
        change = logged(revise, telling.at_ms, REVISION_EVENTS[telling.revision.kind].log_entry(message))
        return [self._store.sessions.apply(user, change) for user in users]

    def _is_shared(self, telling: _Telling) -> bool:
        """Whether another server may be telling the same."""
        return telling.recovered or self._now() - telling.began > _SHARED_AFTER_SECONDS

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _publish(self, telling: _Telling, users: Sequence[UserId], answers: Sequence[list[Any]]) -> None:
        """One frame for all who took a tick, with the message as it is now, not as it was written.

        Of two revisions at the same time, the one with a user's later tick was stored before that, and so was the other
        one before its own: read from here, the later event shows the newest of both. An edit that is overtaken by a recall shows
        nothing; its tick is told all the same, for the chain.
        """
        outcomes = [(user, parse_result(user, answer)) for user, answer in zip(users, answers, strict=True)]
        parcel = OutgoingEvents()
        present = await self._find(telling.revision)
        event = REVISION_EVENTS[telling.revision.kind].present(present) if present is not None else None
        parcel.add(event, outcomes, stored_at=telling.told_at)
        if self._is_shared(telling):
            # Whoever died may have applied it and not told: let those who listen look at their clocks.
            parcel.add_positions([pair for pair in outcomes if not pair[1].changed])
        self._bus.send(parcel, [] if telling.rest else [self._store.revisions.clear_call(telling.revision)])

    async def _find(self, revision: Revision) -> Message | None:
        place = (revision.conversation, revision.seq)
        found = (await self._store.messages.find_many([place])).get(place)
        return found if found is not None and found.id == revision.message else None


def _key(revision: Revision) -> tuple[ConversationId, str]:
    return revision.conversation, revision.entry
