"""Reservations: a message's place and its outbox entry, made in one step in Redis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson
import structlog

from store.base.clock import Clock
from store.base.ids import PARTITIONS, ConversationId, MessageId, UserId, parse_thread
from store.conversations.group_change import ProposedChange, group_change_from
from store.messages.copy_store import make_copy
from store.messages.message import Message, ReservedMessage
from store.messages.outbox.outbox_entries import OutboxField, entry_values, reserved_message_from
from store.messages.outbox.places import (
    ChannelTerms,
    OutdatedRights,
    Refusal,
    ReservationReason,
    SlowModeWait,
    ThreadTerms,
)
from store.messages.revision_store import Revision, revision_from
from store.messages.thread_notes import ThreadNote, thread_note_from
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.session import session_from, waiting_field, waiting_from

_log = structlog.get_logger()

_MOST_LOGGED = 1_000
"""Largest number of entries of later versions that are remembered, so that each is logged once."""


class OutboxStore:
    """Reserves places and reads the outbox."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._not_understood = 0
        """Largest number of entries in a listing that only a later version understands. As many more are read."""
        self._logged: set[str] = set()

    async def reserve(
        self, message: Message, reason: ReservationReason = ReservationReason.NEW_MESSAGE, *, by_moderator: bool = False
    ) -> ReservedMessage | Refusal:
        """Check that the sender may write, give the message its place and put it into the outbox, in one step.

        For private conversations and groups. One round trip. A message that is limited to one place is refused
        if it got a place within the last minute.

        Args:
            message: The message, without a place.
            reason: The reason why the message gets a place.
            by_moderator: Refuse senders that are neither owner nor admin.
        """
        flags = (int(by_moderator), int(reason.rights_were_checked))
        answer = await self._reserve(message, self._keys_of(message, reason), flags, message.mentions)
        return answer if isinstance(answer, ReservedMessage) else Refusal(answer[0].decode())

    async def reserve_in_channel(
        self, message: Message, terms: ChannelTerms, reason: ReservationReason = ReservationReason.NEW_MESSAGE
    ) -> ReservedMessage | Refusal | OutdatedRights | SlowModeWait:
        """Like `reserve`, in a channel. Refuses the message if rights have changed since they were judged.

        Args:
            message: The message, without a place.
            terms: The terms under which the message gets a place.
            reason: The reason why the message gets a place.
        """
        message = _under(terms, message)
        judged_version = "" if terms.judged_version is None else terms.judged_version
        keys = self._keys_of(message, reason)
        if terms.slow_mode_ms:
            keys = (*keys, self._keys.last_sent(message.conversation, message.sender))
        specific = (judged_version, terms.slow_mode_ms, self._clock.now_ms())
        answer = await self._reserve(message, keys, (0, int(reason.rights_were_checked)), specific)
        return _in_channel(answer, terms)

    async def reserve_reply(
        self,
        message: Message,
        terms: ChannelTerms | None,
        reason: ReservationReason = ReservationReason.NEW_MESSAGE,
        *,
        by_parent_sender: bool = False,
    ) -> ReservedMessage | Refusal | OutdatedRights | SlowModeWait:
        """Like `reserve`, in a thread, with the change of its followers that the reply causes.

        The copy of a broadcast reply gets its place in the parent conversation in the same step.

        Args:
            message: The message, without a place.
            terms: In a thread of a channel, the terms under which the message gets a place.
            reason: The reason why the message gets a place. The copy of a displaced reply gets no place: it has one.
            by_parent_sender: The sender of the parent message writes, also while the thread is locked.
        """
        thread = parse_thread(message.conversation)
        assert thread is not None
        message = _under(terms, message) if terms is not None else message
        own, parent = self._keys.conversation(message.conversation), self._keys.conversation(thread.parent)
        keys = (*own, *parent)
        if reason.is_limited_to_one_place(message):
            keys = (*keys, self._keys.reservation(message.conversation, message.id))
        copy = make_copy(message) if message.is_broadcast and not reason.rights_were_checked else None
        slow_mode_ms = terms.slow_mode_ms if terms is not None and copy is not None else 0
        if slow_mode_ms:
            keys = (*keys, self._keys.last_sent(thread.parent, message.sender))
        flags = (int(message.mentions_all), int(reason.rights_were_checked))
        specific = (
            terms.judged_version if terms is not None and terms.judged_version is not None else "",
            int(by_parent_sender or (terms is not None and terms.may_manage_threads)),
            int(terms is None or terms.may_create_threads),
            self._clock.now_ms(),
            copy.to_json() if copy is not None else b"",
            slow_mode_ms,
            int(message.is_read_by_sender),
            *message.mentions,
        )
        answer = await self._reserve(message, keys, flags, specific, "reserve_reply")
        return _in_channel(answer, terms or ChannelTerms())

    def _keys_of(self, message: Message, reason: ReservationReason) -> tuple[str, ...]:
        keys = self._keys.conversation(message.conversation)
        if reason.is_limited_to_one_place(message):
            keys = (*keys, self._keys.reservation(message.conversation, message.id))
        return keys

    async def _reserve(
        self,
        message: Message,
        keys: tuple[str, ...],
        flags: tuple[int, int],
        specific: tuple[str | int | bytes, ...],
        script: str = "reserve",
    ) -> ReservedMessage | list[Any]:
        """Return the message with its place, or the refusal and its details."""
        args = (
            message.sender,
            int(message.kind.countable),
            message.to_json(),
            *flags,
            message.conversation,
            *specific,
        )
        answer, (epoch, noted), record = await self._cache.run(
            [
                Call(script, keys, args),
                Call("HMGET", self._keys.user(message.sender), ("epoch", waiting_field(message.conversation))),
                Call("HGET", (self._keys.of_user(message.sender, "sessions"),), (message.conversation,)),
            ]
        )
        if answer[0] != b"ok":
            return list(answer)
        _, seq, n, version, entry, *of_reply = answer
        session = session_from(message.sender, message.conversation, record) if epoch and record else None
        waiting = waiting_from(noted)
        reserved = ReservedMessage(
            message.with_place(seq, n),
            version.decode(),
            entry.decode(),
            sender_cached=bool(epoch),
            # Messages sent just before by the same sender may be among these: the record may not have them yet.
            reads_unread=session is None or n - message.kind.countable > max(session.read_n, waiting.own_n),
            reads_mentions=session is None or bool(session.mentions) or waiting.mention,
        )
        return _as_reply(reserved, *of_reply) if of_reply else reserved

    async def reserve_change(
        self,
        message: Message,
        expected_version: str,
        change: ProposedChange,
        *,
        announced: bool,
        terms: ThreadTerms | None = None,
    ) -> ReservedMessage | Refusal:
        """Change a group in the cache, give the SYSTEM message its place and put both into the outbox, in one step.

        Returns a Refusal if the membership or the terms have changed, or if another change is pending. One round trip.

        Args:
            message: The SYSTEM message. It gets no place if the change is not announced.
            expected_version: Version of the membership that the change was decided on.
            change: The change.
            announced: True if members see the message.
            terms: In a thread, what decided that the sender of the message may change it; None: they need no rights.
        """
        keys, of_thread = self._keys.conversation(message.conversation), ("", "", "", "")
        if terms is not None:
            thread = parse_thread(message.conversation)
            assert thread is not None
            keys = (*keys, *self._keys.conversation(thread.parent))
            flags = str(terms.judged_version), str(int(terms.needs_moderator))
            of_thread = (message.conversation, message.sender, *flags)
        args = (
            expected_version,
            message.created_at_ms,
            message.to_json(),
            int(announced),
            change.fields_json(),
            *of_thread,
            change.audit_json(),
            *change.member_actions(),
        )
        answer = await self._cache.one(Call("change_group", keys, args))
        if answer[0] != b"ok":
            return Refusal(answer[0].decode())
        _, seq, n, version, entry, text = answer
        made = group_change_from(orjson.loads(text))
        return ReservedMessage(message.with_place(seq, n), version.decode(), entry.decode(), made)

    async def oldest_age_ms(self) -> int:
        """Return the age of the oldest undelivered message in ms, by Redis's clock; 0 if there is none.

        One round trip that no request waits for.
        """
        streams = [Call("XRANGE", (self._keys.outbox(p),), ("-", "+", "COUNT", 1)) for p in range(PARTITIONS)]
        (seconds, micros), *found = await self._cache.run_in_background([Call("TIME", ()), *streams])
        oldest = [int(entries[0][0].partition(b"-")[0]) for entries in found if entries]
        return max(0, int(seconds) * 1000 + int(micros) // 1000 - min(oldest)) if oldest else 0

    async def find_last_sent(self, channel: ConversationId, user: UserId) -> int | None:
        """Return the time (ms) of a user's last message in a channel with slow mode, as long as it matters."""
        text = await self._cache.one(Call("GET", (self._keys.last_sent(channel, user),)))
        return int(text) if text is not None else None

    async def list_waiting(
        self, partitions: Iterable[int], idle_ms: int, limit: int
    ) -> list[ReservedMessage | Revision | ThreadNote]:
        """Return the entries older than idle_ms by Redis's clock, at most limit per partition. One round trip.

        Leaves out entries that only a later version understands, and entries on a shard that does not answer.
        """
        outboxes = tuple(self._keys.outbox(partition) for partition in partitions)
        calls = [(outbox,) for outbox in outboxes] if self._cache.is_cluster else [outboxes]  # one if they are together
        args = (idle_ms, limit + self._not_understood)
        answers = await self._cache.run_reachable([Call("list_waiting", keys, args) for keys in calls])
        found = [
            self._entry_from(entry.decode(), fields, int(now)) for now, *entries in answers for entry, fields in entries
        ]
        understood = [entry for entry in found if entry is not None]
        self._not_understood = min(max(self._not_understood, len(found) - len(understood)), _MOST_LOGGED)
        return understood

    def _entry_from(self, entry: str, fields: Any, now_ms: int) -> ReservedMessage | Revision | ThreadNote | None:
        """Return an entry; None if only a later version understands it."""
        try:
            if OutboxField.KIND.encode() not in entry_values(fields):
                return (
                    thread_note_from(entry, fields)
                    or revision_from(entry, fields, now_ms)
                    or reserved_message_from(entry, fields)
                )
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
        if entry not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(entry)
            _log.warning("outbox_entry_not_understood", entry=entry)
        return None

    async def contains(self, conversation: ConversationId, *messages: MessageId | None) -> bool:
        """Return whether at least one of some messages of a conversation is not delivered yet."""
        return any(message.id in messages for message in await self.list_undelivered(conversation))

    async def list_undelivered(self, conversation: ConversationId) -> list[Message]:
        """Return the undelivered messages in the outbox of a conversation's partition."""
        rows = await self._cache.one(Call("XRANGE", (self._keys.conversation(conversation)[2],), ("-", "+")))
        found = [self._entry_from("0-0", fields, 0) for _, fields in rows]
        return [entry.message for entry in found if isinstance(entry, ReservedMessage)]

    def clear_call(self, reserved: ReservedMessage) -> Call:
        """Return the call that deletes a delivered message from the outbox."""
        outbox = self._keys.conversation(reserved.message.conversation)[2]
        return Call("XDEL", (outbox,), (reserved.outbox_entry,))


def _under(terms: ChannelTerms, message: Message) -> Message:
    """Return a message as it is sent under terms."""
    if terms.flag != message.flag:
        message = message._replace(flag=terms.flag)
    if terms.may_embed_links or message.embeds.links_due_ms is None:
        return message
    return message._replace(embeds=message.embeds._replace(links_due_ms=None))


def _in_channel(
    answer: ReservedMessage | list[Any], terms: ChannelTerms
) -> ReservedMessage | Refusal | OutdatedRights | SlowModeWait:
    """Return the message with the version that its sender was judged under, or the refusal."""
    if isinstance(answer, ReservedMessage):
        version = terms.judged_version or 0
        copy = replace(answer.copy, judged_version=version) if answer.copy is not None else None
        return replace(answer, judged_version=version, copy=copy)
    match answer[0]:
        case b"outdated_rights":
            return OutdatedRights(answer[1])
        case b"slow_mode":
            return SlowModeWait(answer[1])
        case refusal:
            return Refusal(refusal.decode())


def _as_reply(
    reserved: ReservedMessage,
    parent_version: bytes | None,
    parent_seq: int,
    change: bytes,
    has_full_history: int = 0,
    *copy_place: Any,
) -> ReservedMessage:
    """Return a reply with what `reserve_reply.lua` answers about it."""
    copy = None
    if copy_place:
        seq, n, entry = copy_place
        placed = make_copy(reserved.message).with_place(seq, n)
        version = (parent_version or b"0").decode()
        copy = ReservedMessage(placed, version, entry.decode(), sender_cached=reserved.sender_cached)
    return replace(
        reserved,
        message=reserved.message._replace(parent_seq=parent_seq),
        change=group_change_from(orjson.loads(change)) if change else None,
        parent_version=(parent_version or b"").decode(),
        copy=copy,
        parent_full_history=bool(has_full_history),
    )
