"""Conversations with messages that users may have to be notified of: notes of the fan-out (ADR 87).

A note belongs to a conversation, not to its recipients, so it costs the same for any number of them. Workers find the
recipients later, in slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from store.base.clock import Clock
from store.base.ids import ConversationId, UserId
from store.messages.message import Message
from store.push.leased_queue import LeasedQueue, Settlement, TakenMember, settle_all
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_NOBODY = "-"


@dataclass(frozen=True, slots=True)
class NotedMessages:
    """Messages of one conversation.

    Attributes:
        first: First seq of new messages; 0: there are none.
        newest: Last seq of new messages.
        sender: The sender of all new messages; None: several.
        recalled: Seqs of messages that were recalled.
    """

    first: int = 0
    newest: int = 0
    sender: UserId | None = None
    recalled: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        """Return whether any message is noted."""
        return self.newest > 0 or bool(self.recalled)

    def to_words(self) -> tuple[str, str, str, str]:
        """Return the stored form."""
        sender = _NOBODY if self.sender is None else f"@{self.sender}"
        return str(self.first), str(self.newest), sender, ",".join(map(str, self.recalled)) or _NOBODY


NOTHING_NOTED = NotedMessages()


@dataclass(frozen=True, slots=True)
class NotedConversation:
    """The record of a noted conversation.

    Attributes:
        waiting: Messages on which no worker has begun to work.
        begun: Messages whose recipients are being listed.
        position: The last recipient that was listed for them; None: none.
    """

    waiting: NotedMessages = NOTHING_NOTED
    begun: NotedMessages = NOTHING_NOTED
    position: UserId | None = None

    def begin(self) -> NotedConversation:
        """Return the record for listing recipients: of the messages begun before, or else of those that wait."""
        return self if self.begun else NotedConversation(begun=self.waiting)

    def to_text(self) -> str:
        """Return the stored form; "" if nothing is left to do. `push_note.lua` reads `waiting`."""
        if not (self.waiting or self.begun):
            return ""
        position = _NOBODY if self.position is None else f"@{self.position}"
        return " ".join((*self.waiting.to_words(), *self.begun.to_words(), position))


def noted_from(text: str) -> NotedConversation:
    """Return the record of its stored form; of "" an empty one."""
    if not text:
        return NotedConversation()
    words = text.split(" ")
    return NotedConversation(_messages_from(words[:4]), _messages_from(words[4:8]), _user_from(words[8]))


@dataclass(frozen=True, slots=True)
class TakenNote:
    """A noted conversation that a worker has taken. record: with the changes that are not stored yet."""

    conversation: ConversationId
    taken: TakenMember
    record: NotedConversation


class NotedConversations:
    """The queue of noted conversations. All methods that wait raise Unreachable."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._queue = LeasedQueue(cache, keys, clock, "notes")
        self._clock = clock

    def note_calls(self, messages: Iterable[Message], *, are_recalled: bool = False) -> list[Call]:
        """Return the calls that note new or recalled messages, one for each key: one on a single Redis."""
        by_conversation: dict[ConversationId, NotedMessages] = {}
        for message in messages:
            noted = by_conversation.get(message.conversation)
            by_conversation[message.conversation] = _with(noted, message, are_recalled=are_recalled)
        by_part: dict[int, list[str]] = {}
        for conversation, noted in by_conversation.items():
            by_part.setdefault(self._queue.part_of(conversation), []).extend((conversation, *noted.to_words()))
        return [self._queue.call("push_note", part, *args) for part, args in by_part.items()]

    async def take(self, limit: int) -> list[TakenNote]:
        """Take conversations that are due, at most `limit` of each part of the queue."""
        return [
            TakenNote(ConversationId(taken.name), taken, noted_from(taken.record).begin())
            for taken in await self._queue.take(limit)
        ]

    async def advance(self, notes: Sequence[TakenNote]) -> list[TakenNote]:
        """Store the positions of taken conversations, and keep them for another lease."""
        after = [replace(note, taken=TakenMember(note.conversation, note.record.to_text())) for note in notes]
        await self._settle([(n.conversation, Settlement(n.taken, n.record.to_text())) for n in notes])
        return after

    async def finish(self, notes: Sequence[TakenNote]) -> None:
        """Remove conversations whose recipients are all listed. Those with further messages are due at once."""
        await self._settle([(n.conversation, Settlement(n.taken, "", self._clock.now_ms())) for n in notes])

    async def measure(self) -> tuple[int, int]:
        """Return the number of conversations that are due or in work, and the time (ms) for which the oldest waits."""
        return await self._queue.measure()

    async def _settle(self, settlements: Sequence[tuple[str, Settlement]]) -> None:
        await settle_all(self._queue, settlements, self._merge)

    def _merge(self, settled: Settlement, present: str) -> Settlement:
        """Return the settlement with the messages that were noted meanwhile."""
        ours, theirs = noted_from(settled.after), noted_from(present)
        before = noted_from(settled.taken.record)
        waiting = theirs.waiting if before.begun or theirs.begun else _without(theirs.waiting, before.waiting)
        merged = replace(ours, waiting=waiting)
        return Settlement(TakenMember(settled.taken.name, present), merged.to_text(), settled.due_ms)


def _with(noted: NotedMessages | None, message: Message, *, are_recalled: bool) -> NotedMessages:
    known = noted or NOTHING_NOTED
    if are_recalled:
        return replace(known, recalled=(*known.recalled, message.seq))
    if not known.newest:
        return NotedMessages(message.seq, message.seq, message.sender)
    sender = known.sender if known.sender == message.sender else None
    return NotedMessages(min(known.first, message.seq), max(known.newest, message.seq), sender)


def _without(noted: NotedMessages, done: NotedMessages) -> NotedMessages:
    """Return the messages that still wait, after others were added to those that a worker has begun (`done`)."""
    recalled = noted.recalled[len(done.recalled) :]
    if noted.newest <= done.newest and noted.first >= done.first:
        return NotedMessages(recalled=recalled)
    first = noted.first if noted.first < done.first else done.newest + 1
    return replace(noted, first=first, recalled=recalled)


def _messages_from(words: Sequence[str]) -> NotedMessages:
    first, newest, sender, recalled = words
    seqs = () if recalled == _NOBODY else tuple(map(int, recalled.split(",")))
    return NotedMessages(int(first), int(newest), _user_from(sender), seqs)


def _user_from(word: str) -> UserId | None:
    return None if word == _NOBODY else UserId(word[1:])
