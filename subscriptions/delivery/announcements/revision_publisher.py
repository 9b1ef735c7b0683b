"""Publishes stored revisions to all users who can read the message, and to those who look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from store.base.ids import UserId, parse_thread
from store.messages.message import Message
from store.messages.revision_store import Revision, is_counted_reply
from store.redis.cache import Call
from store.sessions.apply_results import parse_result
from store.sessions.changes import EventOnly, Revise, logged_change
from store.store import Store
from subscriptions.delivery.announcements.revision_publications import OutboxedRevision, Publication
from subscriptions.delivery.coalescing.thread_events import ThreadEvents
from subscriptions.delivery.fanout_stage import FIRST_RECIPIENTS
from subscriptions.delivery.message_notes import MessageNotes
from subscriptions.delivery.recipients import ListViewers, SelectViewers
from subscriptions.realtime.bus import Bus
from subscriptions.realtime.events.messages import REVISION_EVENTS
from subscriptions.realtime.events.shared import MessageChange
from subscriptions.realtime.events.watched import WatchedMessage
from subscriptions.realtime.outgoing_events import OutgoingEvents
from subscriptions.realtime.shared.shared_events import SharedEvents, is_on_workspace_clock

_SLICE = 500
_SHARED_AFTER_SECONDS = 4.0
"""After this time another server may have begun to publish the same revision."""


class RevisionPublisher:
    """Publishes stored revisions. Every step may be repeated, also by another server."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        shared_events: SharedEvents,
        threads: ThreadEvents,
        list_viewers: ListViewers,
        select_viewers: SelectViewers,
        notes: MessageNotes,
    ) -> None:
        self._store = store
        self._bus = bus
        self._shared_events = shared_events
        self._threads = threads
        self._notes = notes
        self._list_viewers = list_viewers
        self._select_viewers = select_viewers
        self._one_slice_at_a_time = asyncio.Lock()

    async def begin(
        self, message: Message, revision: Revision, began: float, *, recovered: bool = False
    ) -> list[Publication]:
        """Return the publications of a stored revision. The copy of a reply follows the reply first."""
        copy = await self._store.copies.update(message) if message.is_broadcast else None
        outboxed = OutboxedRevision(revision, 1 if copy is None else 2)
        publications = [await self._begin_one(message, revision, outboxed, began, recovered)]
        if copy is not None:
            of_copy = replace(revision, conversation=copy.conversation, message=copy.id, seq=copy.seq)
            publications.append(await self._begin_one(copy, of_copy, outboxed, began, recovered))
        return publications

    async def _begin_one(
        self, message: Message, revision: Revision, outboxed: OutboxedRevision, began: float, recovered: bool
    ) -> Publication:
        at_ms = self._store.clock.now_ms()
        is_newest = await self._store.revisions.move_head(message, at_ms)
        recalled_count = 0
        if message.is_recalled and is_counted_reply(message):
            recalled_count = await self._store.revisions.count_recalled(message.conversation)
        stored_at = at_ms if is_newest else 0
        return Publication(message, revision, outboxed, at_ms, stored_at, began, recovered, recalled_count)

    async def publish_first(self, publication: Publication, by: UserId | None) -> None:
        """Apply a revision to the conversation's head and to the first viewers, beginning with the user who made it."""
        message, conversation = publication.message, publication.message.conversation
        viewers = await self._list_viewers(message)
        publication.watchers = await self._find_watchers(message, viewers)
        users = sorted((*viewers, *publication.watchers), key=lambda user: user != by)
        first, publication.remaining = users[:FIRST_RECIPIENTS], users[FIRST_RECIPIENTS:]
        calls = [
            self._store.revisions.newest_message_call(message, publication.at_ms, publication.recalled_count),
            *self._changes(publication, first),
        ]
        is_in_channel = is_on_workspace_clock(conversation)
        change = MessageChange.of_revision(publication.revision.kind)
        if is_in_channel:
            may_repeat = self._is_shared(publication)
            calls.append(self._shared_events.message_call(message, change, may_repeat=may_repeat))
        changes_thread = change is MessageChange.RECALLED and is_counted_reply(message)
        if changes_thread:
            calls.append(self._threads.note_call(conversation))
        notes = self._notes.note_calls([message], publication.revision.kind)
        # Before the revision leaves the outbox, and before its user is answered.
        answers = (await self._store.cache.run([*notes, *calls]))[len(notes) :]
        self._notes.take([message], publication.revision.kind)
        if changes_thread:
            self._threads.publish(conversation, answers.pop())
        present = await self._publish(publication, first, answers[1 : 1 + len(first)])
        if is_in_channel:
            self._shared_events.publish_message(present or message, change, answers[-1])

    async def _find_watchers(self, message: Message, viewers: Collection[UserId]) -> frozenset[UserId]:
        """Return the users who look at a thread and are not among its followers. In channels nobody needs them."""
        thread = message.conversation
        if parse_thread(thread) is None or is_on_workspace_clock(thread):
            return frozenset()
        watchers = set(await self._store.watchers.list(thread)).difference(viewers)
        return frozenset(await self._select_viewers(message, watchers))

    async def publish_remaining(self, publication: Publication) -> None:
        """Apply a revision to the other viewers, in slices. One slice of one revision at a time: others wait."""
        while publication.remaining:
            async with self._one_slice_at_a_time:
                users, publication.remaining = publication.remaining[:_SLICE], publication.remaining[_SLICE:]
                answers = await self._store.cache.run_in_background(self._changes(publication, users))
                await self._publish(publication, users, answers)

    def _changes(self, publication: Publication, users: Sequence[UserId]) -> list[Call]:
        message = publication.message
        revise = Revise(message.conversation, message.seq, may_repeat=self._is_shared(publication))
        kind = publication.revision.kind
        change = logged_change(revise, publication.at_ms, REVISION_EVENTS[kind].log_entry(message))
        watched = logged_change(
            EventOnly(may_repeat=revise.may_repeat),
            publication.at_ms,
            WatchedMessage.log_entry(message, MessageChange.of_revision(kind)),
        )
        watchers = publication.watchers
        return [self._store.sessions.apply_call(user, watched if user in watchers else change) for user in users]

    def _is_shared(self, publication: Publication) -> bool:
        """Return whether another server may be publishing the same revision."""
        return publication.recovered or asyncio.get_running_loop().time() - publication.began > _SHARED_AFTER_SECONDS

    async def _publish(
        self, publication: Publication, users: Sequence[UserId], answers: Sequence[list[Any]]
    ) -> Message | None:
        """Send one event to all users whose clock took a tick, with the present state of the message, and return it.

        The ticks of two concurrent revisions may be in another order than their writes. Both writes came before both
        ticks, so a message that is read after the ticks shows the newest of both in either event. An edit that a recall
        overtook shows nothing; its ticks are sent all the same, for the chain.
        """
        outcomes = [(user, parse_result(user, answer)) for user, answer in zip(users, answers, strict=True)]
        outgoing = OutgoingEvents()
        present = await self.find(publication.revision)
        event = REVISION_EVENTS[publication.revision.kind].present(present) if present is not None else None
        watchers = publication.watchers
        viewers = [pair for pair in outcomes if pair[0] not in watchers]
        outgoing.add(event, viewers, stored_at=publication.stored_at)
        if watchers:
            change = MessageChange.of_revision(publication.revision.kind)
            watched = WatchedMessage.present(present, change) if present is not None else None
            outgoing.add(watched, [pair for pair in outcomes if pair[0] in watchers])
        if self._is_shared(publication):
            # The server that died may have applied it without publishing it: hubs compare their users' clocks.
            outgoing.add_positions([pair for pair in outcomes if not pair[1].changed])
        outboxed = publication.outboxed
        is_complete = not publication.remaining and outboxed.complete_one()
        self._bus.send(outgoing, [self._store.revisions.clear_call(outboxed.revision)] if is_complete else [])
        return present

    async def find(self, revision: Revision) -> Message | None:
        """Return the message of a revision as it is now."""
        place = (revision.conversation, revision.seq)
        found = (await self._store.messages.find_many([place])).get(place)
        return found if found is not None and found.id == revision.message else None
