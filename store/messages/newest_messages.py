"""The newest messages of channels, kept in memory for all readers on this process.

The head of a channel has a *contents version*, which changes with every change of stored messages up to the head's
newest one. Every reader has read the head. So messages that were read under the same version are as MongoDB has them,
and a channel that everyone opens at once is read once by each process.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from sys import getsizeof
from typing import NamedTuple

from store.base.ids import ConversationId
from store.conversations.conversation import Head
from store.messages.message import Message
from store.messages.message_store import MessageStore
from store.redis.single_flight import SingleFlight

MOST_MESSAGES = 101
"""Messages kept of one channel: the largest page, and one message that shows whether there are more."""

MAX_BYTES = 32 << 20
"""Memory for the messages of all channels, approximately."""

MAX_AGE_SECONDS = 60.0
"""Longest use of messages from one read. A primary of MongoDB that was just replaced may have answered it."""

_MOST_QUOTED = 100
"""Messages of one channel that are kept because newer ones reply to them."""

_MESSAGE_BYTES = 600
"""Memory for a message without text and metadata, approximately."""

_REACTION_BYTES = 800
"""Memory for the reactions to a message with one emoji, without keys, approximately."""

_EMBED_BYTES = 2_000
"""Memory for an embed without fields, approximately."""

_EMBED_FIELD_BYTES = 400
"""Memory for a field of an embed, approximately."""

_ATTACHMENT_BYTES = 700
"""Memory for an attachment without its name and description, approximately."""


class _Window(NamedTuple):
    """All messages between two seqs, newest first, as they are under one contents version.

    `quoted`: earlier messages that were asked for, by seq.
    """

    version: int
    first_seq: int
    last_seq: int
    messages: Sequence[Message]
    quoted: Mapping[int, Message]
    read_at: float

    def select(self, ranges: Sequence[tuple[int, int]], limit: int, *, newest_first: bool) -> list[Message] | None:
        """Return the messages in some ranges; None if some of them may be before the window. No range ends after it."""
        has_all = all(first >= self.first_seq for first, _ in ranges)
        if not has_all and not newest_first:
            return None
        messages = self.messages if newest_first else reversed(self.messages)
        visible = (m for m in messages if any(first <= m.seq <= last for first, last in ranges))
        found = list(islice(visible, limit))
        return found if has_all or len(found) == limit else None

    def find(self, seqs: Collection[int]) -> dict[int, Message]:
        """Return the messages at these seqs that are kept."""
        return {m.seq: m for m in (*self.messages, *self.quoted.values()) if m.seq in seqs}

    def with_quoted(self, messages: Mapping[int, Message]) -> _Window:
        """Return a window with other messages as well, the last ones if they are too many."""
        quoted = {**self.quoted, **messages}
        return self._replace(quoted=dict(list(quoted.items())[-_MOST_QUOTED:]))

    def with_newer(self, messages: Sequence[Message], last_seq: int) -> _Window:
        """Return a window with all later messages up to a seq as well.

        messages: These, newest first; the newest MOST_MESSAGES are enough.
        """
        kept = [*messages, *self.messages][:MOST_MESSAGES]
        is_cut = len(messages) + len(self.messages) > MOST_MESSAGES or len(messages) == MOST_MESSAGES
        return self._replace(first_seq=kept[-1].seq if is_cut else self.first_seq, last_seq=last_seq, messages=kept)

    def count_bytes(self) -> int:
        """Return the memory that the window takes, approximately."""
        messages = (*self.messages, *self.quoted.values())
        reactions = [summary for message in messages for summary in message.reactions]
        embeds = [embed for message in messages for embed in message.embeds.items]
        files = [attachment for message in messages for attachment in message.attachments]
        return (
            sum(_MESSAGE_BYTES + getsizeof(m.text) + getsizeof(m.metadata) for m in messages)
            + sum(_REACTION_BYTES + len(summary.keys) for summary in reactions)
            + sum(_EMBED_BYTES + getsizeof(e.description) + _EMBED_FIELD_BYTES * len(e.fields) for e in embeds)
            + sum(_ATTACHMENT_BYTES + getsizeof(file.filename) + getsizeof(file.description) for file in files)
        )


class NewestMessages:
    """Windows of the newest messages by channel, within a limit of memory. Unused ones are dropped first."""

    def __init__(
        self, messages: MessageStore, clock: Callable[[], float] = time.monotonic, max_bytes: int = MAX_BYTES
    ) -> None:
        """Begin without messages. `clock` returns seconds."""
        self._messages = messages
        self._clock = clock
        self._max_bytes = max_bytes
        self._windows: OrderedDict[ConversationId, tuple[_Window, int]] = OrderedDict()
        """Windows with their memory in bytes, the least recently used first."""
        self._flights = SingleFlight()
        self.bytes = 0
        """Memory that the windows take, approximately."""

    async def list_between(
        self, head: Head, ranges: Sequence[tuple[int, int]], limit: int, *, newest_first: bool
    ) -> list[Message]:
        """Return what `MessageStore.list_between` returns for the conversation of a head that was just read.

        No range may end after the head's newest message. At most one round trip.
        """
        ranges = [(first, last) for first, last in ranges if first <= last]
        if not ranges or not head.contents_version:
            return await self._messages.list_between(head.conversation, ranges, limit, newest_first=newest_first)
        window = self._find(head)
        # A window has the newest page of any single range.
        is_newest_page = newest_first and len(ranges) == 1 and ranges[0][1] == head.seq and limit <= MOST_MESSAGES
        if window is None and is_newest_page:
            key = (head.conversation, head.contents_version, head.seq)
            window = await self._flights.run(key, partial(self._read, head))
        found = window.select(ranges, limit, newest_first=newest_first) if window is not None else None
        if found is None:
            return await self._messages.list_between(head.conversation, ranges, limit, newest_first=newest_first)
        return found

    async def find_many(
        self, heads: Mapping[ConversationId, Head], places: Sequence[tuple[ConversationId, int]]
    ) -> dict[tuple[ConversationId, int], Message]:
        """Return the messages that exist at some places, by conversation and seq. At most one round trip.

        Args:
            heads: Heads of channels that were just read. Messages of other conversations are read from MongoDB.
            places: Conversations and seqs.
        """
        found: dict[tuple[ConversationId, int], Message] = {}
        for channel, head in heads.items():
            window = self._find_earlier(head)
            if window is not None:
                seqs = {seq for conversation, seq in places if conversation == channel}
                found |= {(channel, seq): message for seq, message in window.find(seqs).items()}
        missing = tuple(place for place in places if place not in found)
        if missing:
            versions = frozenset((head.conversation, head.contents_version) for head in heads.values())
            read = await self._flights.run((missing, versions), partial(self._read_quoted, heads, missing))
            found |= read
        return found

    async def _read_quoted(
        self, heads: Mapping[ConversationId, Head], places: Sequence[tuple[ConversationId, int]]
    ) -> dict[tuple[ConversationId, int], Message]:
        found = await self._messages.find_many(places)
        for channel, head in heads.items():
            window = self._find_earlier(head)
            quoted = {seq: message for (conversation, seq), message in found.items() if conversation == channel}
            if window is not None and quoted:
                self._keep(channel, window.with_quoted(quoted))
        return found

    def _find(self, head: Head) -> _Window | None:
        """Return the window that has the messages up to the head's newest one."""
        window = self._find_earlier(head)
        if window is None or window.last_seq >= head.seq:
            return window
        if window.last_seq + 1 < head.seq or head.newest is None:
            return None
        window = window.with_newer([head.newest], head.seq)
        self._keep(head.conversation, window)
        return window

    def _find_earlier(self, head: Head) -> _Window | None:
        """Return a window of the head's version. It may lack the newest messages."""
        known = self._windows.get(head.conversation)
        if known is None or known[0].version != head.contents_version:
            return None
        if self._clock() - known[0].read_at > MAX_AGE_SECONDS:
            return None
        self._windows.move_to_end(head.conversation)
        return known[0]

    async def _read(self, head: Head) -> _Window:
        window = self._find_earlier(head) or _Window(head.contents_version, 1, 0, (), {}, self._clock())
        if window.last_seq >= head.seq:
            return window
        added = await self._messages.list_between(
            head.conversation, [(window.last_seq + 1, head.seq)], MOST_MESSAGES, newest_first=True
        )
        window = window.with_newer(added, head.seq)
        self._keep(head.conversation, window)
        return window

    def _keep(self, channel: ConversationId, window: _Window) -> None:
        known, size = self._windows.pop(channel, (None, 0))
        self.bytes -= size
        if known is not None and known.version == window.version and known.last_seq > window.last_seq:
            window = known
        size = window.count_bytes()
        self._windows[channel] = window, size
        self.bytes += size
        while self.bytes > self._max_bytes:
            _, (_, size) = self._windows.popitem(last=False)
            self.bytes -= size
