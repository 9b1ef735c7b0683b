"""Runs one search: reads the proposed messages, and keeps those that match and are readable (ADR 85)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.conversations.access import Access, access_conversations
from resolvers.search.search_filter import SearchFilter
from resolvers.search.search_scope import SearchScope
from store.base.ids import ConversationId, MessageId, UserId
from store.base.snowflakes import first_id_at
from store.messages.message import Message
from store.search.filter_terms import (
    ANY_ROLE_TERM,
    EVERYBODY_TERM,
    content_term,
    is_indexed,
    mention_term,
    sender_term,
)
from store.search.search_index import Proposal, SearchCriteria, SearchIndex, TooSlow
from store.search.unindexed_messages import UnindexedMessage
from store.text.message_query import MessageQuery, TextRange

MESSAGE_UNITS = 20
"""Units of work that a search costs for each message that is read and compared."""

_MOST_READ = 500
"""Most messages that are read at once."""

_LATEST_MS = 24 * 3600 * 1000
"""Ids of messages are never further in the future than this."""

_BLOCKING_SECONDS = 0.005
"""Time for which messages are compared before other requests of this process run."""


class FoundMessage(NamedTuple):
    """A message that matches. `highlights`: the ranges of its text that match the query."""

    message: Message
    highlights: Sequence[TextRange]


class SearchTask(NamedTuple):
    """A search to run. `deadline`: by `time.monotonic`, when it stops with the results that it has."""

    viewer: UserId
    query: MessageQuery
    given: SearchFilter
    scope: SearchScope
    deadline: float


class SearchRun:
    """A search, newest message first.

    Attributes:
        found: The messages found so far.
        timed_out: The deadline came before everything was searched.
        last_read: The last message that was compared and that the viewer may read; None if there is none.
    """

    def __init__(self, app: Confab, index: SearchIndex, task: SearchTask) -> None:
        """Create a run without results."""
        self._app = app
        self._index = index
        self._task = task
        self._accesses: dict[ConversationId, Access | None] = dict(task.scope.accesses or {})
        self.found: list[FoundMessage] = []
        self.timed_out = False
        self.last_read: MessageId | None = None

    async def find(self, before: MessageId | None, waiting: Iterable[UnindexedMessage], count: int) -> None:
        """Find `count` messages with ids below `before`, or all if there are fewer. Stops at the deadline.

        waiting: Messages that the index may not propose yet.
        """
        self.last_read = before
        first_id, before_id = self._id_range(before)
        searched = frozenset(self._task.scope.conversations)
        unindexed = [
            Proposal(each.id, each.conversation, each.seq)
            for each in waiting
            if each.conversation in searched and first_id <= each.id and (before_id is None or each.id < before_id)
        ]
        # More than `count`, because some proposals may not match.
        size = count + count // 2 + 4
        while True:
            seconds = self._task.deadline - time.monotonic()
            try:
                if seconds <= 0:
                    raise TooSlow
                proposed = await self._index.propose(self._criteria(first_id, before_id, size), seconds)
            except TooSlow:
                self.timed_out = True
                return
            end = first_id if proposed.next_id is None else proposed.next_id
            due = [each for each in unindexed if each.id >= end and (before_id is None or each.id < before_id)]
            await self._compare(_newest_first(proposed.found, due), count, size)
            if self.timed_out or len(self.found) >= count or proposed.next_id is None:
                return
            before_id, size = proposed.next_id, min(2 * size, _MOST_READ)

    def _id_range(self, before: MessageId | None) -> tuple[int, int | None]:
        """Return the first id to search, and the id to stop before, if there is one."""
        given = self._task.given
        # Ids of times in the distant future would be too large for MongoDB.
        latest_ms = self._app.store.clock.now_ms() + _LATEST_MS
        first_id = 0 if given.after_ms is None else first_id_at(min(given.after_ms + 1, latest_ms))
        ends = [] if before is None else [min(int(before), first_id_at(latest_ms))]
        if given.before_ms is not None:
            ends.append(first_id_at(min(given.before_ms, latest_ms)))
        return first_id, min(ends, default=None)

    def _criteria(self, first_id: int, before_id: int | None, limit: int) -> SearchCriteria:
        query, given = self._task.query, self._task.given
        any_of = [] if given.senders is None else [[sender_term(UserId(sender)) for sender in given.senders]]
        if given.mentions_me:
            # The message is compared later with the roles that the viewer has then.
            any_of.append([mention_term(self._task.viewer), EVERYBODY_TERM, ANY_ROLE_TERM])
        terms = [*query.terms, *map(content_term, given.has)]
        return SearchCriteria(
            self._task.scope.conversations, terms, any_of, query.beginning, first_id, before_id, limit
        )

    async def _compare(self, proposals: Sequence[Proposal], count: int, size: int) -> None:
        """Read proposed messages, at most `size` at once, and add those that match, until there are `count`."""
        for start in range(0, len(proposals), size):
            part = proposals[start : start + size]
            messages = await self._read(part)
            began = time.monotonic()
            for proposal in part:
                message = messages.get((proposal.conversation, proposal.seq))
                if message is not None and message.id == proposal.id:
                    self._add(message)
                if len(self.found) >= count:
                    return
                if time.monotonic() - began > _BLOCKING_SECONDS:
                    if time.monotonic() >= self._task.deadline:
                        break
                    await asyncio.sleep(0)
                    began = time.monotonic()
            if time.monotonic() >= self._task.deadline:
                self.timed_out = True
                return

    async def _read(self, proposals: Sequence[Proposal]) -> dict[tuple[ConversationId, int], Message]:
        """Return proposed messages by conversation and seq, without those that are known to be unreadable.

        At the same time it reads the viewer's access to conversations for which it is not known yet.
        """
        unknown = list(
            dict.fromkeys(each.conversation for each in proposals if each.conversation not in self._accesses)
        )
        places = [
            (each.conversation, each.seq)
            for each in proposals
            if each.conversation not in self._accesses or self._may_read(each.conversation, each.seq)
        ]
        messages, accesses = await asyncio.gather(
            self._app.store.messages.find_many(places),
            access_conversations(self._app, self._task.viewer, unknown),
        )
        self._accesses.update(zip(unknown, accesses, strict=True))
        # The budget of work must not say how many proposals the viewer can't read.
        readable = sum(self._may_read(*place) for place in places)
        self._app.work.charge(self._task.viewer, MESSAGE_UNITS * readable)
        return messages

    def _may_read(self, conversation: ConversationId, seq: int) -> bool:
        access = self._accesses[conversation]
        return access is not None and self._task.scope.shows(access, seq)

    def _add(self, message: Message) -> None:
        """Add a message if it matches, and if the viewer may read it."""
        if not self._may_read(message.conversation, message.seq):
            return
        highlights = None if self._is_shown_by_copy(message) else self._match(message)
        if highlights is not None:
            self.found.append(FoundMessage(message, highlights))
        elif message.broadcast_of is not None:
            # `_is_shown_by_copy` takes a copy at the cursor for a result.
            return
        self.last_read = message.id

    def _is_shown_by_copy(self, message: Message) -> bool:
        """Return whether a message is a reply whose copy in the conversation is the result before it.

        No other id is between those of the two.
        """
        before = self.found[-1].message.id if self.found else self.last_read
        return message.copy_id is not None and message.copy_id == before

    def _match(self, message: Message) -> Sequence[TextRange] | None:
        """Return the ranges of a readable message that match; None if it does not match."""
        access = self._accesses[message.conversation]
        if access is None or not is_indexed(message):
            return None
        given = self._task.given
        if not given.accepts(message, self._task.viewer, access):
            return None
        return self._task.query.find_in(message.text or "")


def _newest_first(proposals: Iterable[Proposal], others: Iterable[Proposal]) -> list[Proposal]:
    """Return all proposals, each message once, newest first."""
    by_id = {each.id: each for each in (*proposals, *others)}
    return sorted(by_id.values(), key=attrgetter("id"), reverse=True)
