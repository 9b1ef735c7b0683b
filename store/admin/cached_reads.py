"""Reads of what Redis has of a user or a conversation, by commands that leave it as it is.

The scripts that requests use fold waiting messages, end mutes and renew the time to live, so they are not called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from store.base.ids import ConversationId, UserId, partition_of
from store.conversations.conversation import Head
from store.conversations.conversation_fields import ConversationField, HeadField
from store.conversations.heads.head_records import decode_head, head_fields, is_cached
from store.messages.outbox.outbox_entries import OutboxField, entry_values
from store.presence.cached_record import record_from
from store.presence.presence_record import DevicePresence
from store.redis.cache import Call
from store.sessions.session import Session, session_from, waiting_field, with_waiting
from store.sessions.session_lists import is_channel
from store.store import Store

_ENTRIES_PER_READ = 500
_MOST_ENTRIES = 20_000
"""Entries of one outbox that are read."""


@dataclass(frozen=True, slots=True)
class CachedSession:
    """One session in a user's cached state.

    Attributes:
        is_loaded: The user's state is cached; of a session in a channel: those in channels too.
        session: The session as it is stored, without waiting messages; None: there is none.
        folded: The session as the next request returns it, with the messages that wait for it.
        total_unread: The user's total of unread messages, without messages that wait.
        waiting_conversations: Conversations with messages that wait.
        mute_due_ms: End of the next mute of the user; None: there is none.
        is_held: A lock holder changes the state.
    """

    is_loaded: bool
    session: Session | None = None
    folded: Session | None = None
    total_unread: int = 0
    waiting_conversations: int = 0
    mute_due_ms: int | None = None
    is_held: bool = False


class CachedHead(NamedTuple):
    """A head in Redis. reserved_seq: newest seq that a message got. pending_change: entry of a group change."""

    head: Head
    reserved_seq: int
    pending_change: str | None


class WaitingEntry(NamedTuple):
    """An entry of an outbox: a message or another event that is not delivered yet. seq: 0: no new message."""

    id: str
    seq: int
    age_ms: int


async def read_session(store: Store, user: UserId, conversation: ConversationId) -> CachedSession:
    """Return a session as Redis has it. One round trip."""
    fields = ("epoch", "total", "waiting", "due", "held", waiting_field(conversation))
    part = "channels" if is_channel(conversation) else "sessions"
    meta, text, has_part = await store.cache.run(
        [
            Call("HMGET", store.keys.user(user), fields),
            Call("HGET", (store.keys.of_user(user, part),), (conversation,)),
            Call("EXISTS", (store.keys.of_user(user, part),)),
        ]
    )
    epoch, total, waiting, due, held, noted = meta
    if epoch is None or (part == "channels" and not has_part):
        return CachedSession(is_loaded=False)
    session = session_from(user, conversation, text) if text is not None else None
    return CachedSession(
        is_loaded=True,
        session=session,
        folded=with_waiting(session, noted) if session is not None and noted is not None else session,
        total_unread=int(total or 0),
        waiting_conversations=int(waiting or 0),
        mute_due_ms=int(due) if due else None,
        is_held=held is not None,
    )


async def read_head(store: Store, conversation: ConversationId) -> CachedHead | None:
    """Return the head of a conversation as Redis has it; None: it is not cached. One round trip."""
    names = (*head_fields(conversation), ConversationField.SEQ, HeadField.PENDING_CHANGE)
    *row, reserved, pending = await store.cache.one(Call("HMGET", (store.keys.head(conversation),), names))
    if not is_cached(row):
        return None
    return CachedHead(decode_head(conversation, row), int(reserved or 0), pending.decode() if pending else None)


async def read_devices(store: Store, user: UserId) -> Sequence[DevicePresence]:
    """Return the connected devices of a user, and those whose connections ended a moment ago. One round trip."""
    (call,) = store.presence_records.read_calls([user])
    return record_from(user, await store.cache.one(call)).record.devices


async def read_routes(store: Store, user: UserId) -> dict[str, int]:
    """Return the servers that get the events of a user, with the time (ms) until which they do. One round trip."""
    answer = await store.cache.one(Call("ZRANGE", (store.keys.of_user(user, "routes"),), (0, -1, "WITHSCORES")))
    return {server.decode(): int(float(until)) for server, until in _pairs(answer)}


async def list_waiting_entries(store: Store, conversation: ConversationId) -> list[WaitingEntry]:
    """Return the entries of the outbox about a conversation, the oldest first. One round trip for each 500."""
    key, first, found, name = store.keys.outbox(partition_of(conversation)), "-", list[WaitingEntry](), b""
    for _ in range(_MOST_ENTRIES // _ENTRIES_PER_READ):
        (seconds, micros), entries = await store.cache.run(
            [Call("TIME", ()), Call("XRANGE", (key,), (first, "+", "COUNT", _ENTRIES_PER_READ))]
        )
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        for name, fields in entries:
            values = entry_values(fields)
            if values.get(OutboxField.CONVERSATION.encode(), b"").decode() == conversation:
                id, seq = name.decode(), int(values.get(OutboxField.SEQ.encode(), 0))
                found.append(WaitingEntry(id, seq, max(0, now_ms - int(id.partition("-")[0]))))
        if len(entries) < _ENTRIES_PER_READ:
            break
        first = f"({name.decode()}"
    return found


def _pairs(flat: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
