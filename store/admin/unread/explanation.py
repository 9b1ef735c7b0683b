"""Explains an unread count: the records in MongoDB first, then what Redis has, then a verdict in words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from store.admin.cached_reads import CachedSession, read_head, read_session
from store.admin.conversation_view import check_conversation
from store.admin.source import NOT_KNOWN, AdminSource, NoSuchObject, View, time_text
from store.admin.unread.message_count import MessageCount, count_messages
from store.admin.unread.sentences import sentences_about, sentences_without_session
from store.admin.unread.stored_session import StoredSession, read_stored_session, view_session, view_stored
from store.base.ids import ConversationId, UserId, is_user_id
from store.channels.channel_sessions import with_head
from store.checking.cached.heads import CachedHeads
from store.checking.conversations.heads import Heads
from store.checking.conversations.message_numbers import MessageNumbers
from store.sessions.session import Session

SETTLE_SECONDS = (0.5, 1.0, 2.0)
"""Pauses before a difference is looked at again: servers write while it is read."""


class _Found(NamedTuple):
    """A difference between two counts, and what to do. command: None: no command repairs it."""

    text: str
    command: str | None


async def explain_unread(
    source: AdminSource, user: str, conversation: str, settle_seconds: Sequence[float] = SETTLE_SECONDS
) -> View:
    """Return why an unread count is what it is. `agrees` is false if a stored or cached count differs.

    settle_seconds: pauses before the count is read again while there are differences. Raises NoSuchObject and
    StoreError.
    """
    if not is_user_id(user):
        raise NoSuchObject(f"{user!r} has not the form of a user id.")
    name = check_conversation(conversation)
    view = await _explain(source, UserId(user), name)
    for pause in settle_seconds:
        if view["agrees"]:
            break
        await asyncio.sleep(pause)
        view = await _explain(source, UserId(user), name)
    return view


async def _explain(source: AdminSource, user: UserId, conversation: ConversationId) -> View:
    stored = await read_stored_session(source, user, conversation)
    session = stored.session
    count = await count_messages(source, session) if session is not None else None
    cached = await read_session(source.store, user, conversation) if source.has_redis else None
    shown = await _complete(source, cached.folded) if cached is not None and cached.folded is not None else None
    found = [each async for each in _differences(source, stored, count, shown)]
    verdict = list(sentences_without_session(stored))
    if session is not None and count is not None:
        verdict = list(sentences_about(stored, session, count))
    verdict += _about_cache(source, cached, shown)
    verdict += [f"{each.text} {_advice(each.command)}" for each in found]
    return {
        "user": user,
        "conversation": conversation,
        "kind": stored.head.kind.value,
        "verdict": verdict,
        "agrees": not found,
        "unread": {
            "counted_messages": count.unread_count if count is not None and count.is_whole else None,
            "stored": session.unread_count if session is not None else None,
            "cached": shown.unread_count if shown is not None else None,
        },
        "stored": view_stored(stored),
        "messages": _view_messages(count) if count is not None else None,
        "cached": _view_cached(cached, shown) if cached is not None else NOT_KNOWN,
        "differences": [{"text": each.text, "repair": each.command} for each in found],
        "redis": source.redis_view(),
    }


async def _complete(source: AdminSource, session: Session) -> Session:
    """Return a cached session with what it takes from the cached head."""
    if not session.comes_from_head or session.hidden:
        return session
    head = await read_head(source.store, session.conversation)
    return with_head(session, head.head) if head is not None else session


async def _differences(
    source: AdminSource, stored: StoredSession, count: MessageCount | None, shown: Session | None
) -> AsyncIterator[_Found]:
    session, conversation = stored.session, stored.head.conversation
    if session is None or count is None:
        return
    is_wrong = count.is_whole and count.unread_count != session.unread_count
    if is_wrong:
        yield _Found(
            f"The stored count is {session.unread_count}, but the messages give {count.unread_count}.",
            await _find_repair(source, conversation),
        )
    place = await source.store.messages.find_place(conversation, session.acknowledged_seq)
    if session.acknowledged_seq > stored.head.floor_seq and place.n != session.read_n:
        yield _Found(
            f"The row counts {session.read_n} messages up to seq {session.acknowledged_seq}, but message "
            f"{place.seq} has number {place.n}.",
            None,
        )
    if shown is not None and shown.unread_count != session.unread_count:
        repair = f"confab check --only cached-sessions --user {session.user} --repair"
        if shown.comes_from_head and await CachedHeads(source.store).compare([conversation]):
            repair = f"confab check --only cached-heads --conversation {conversation} --repair"
        yield _Found(
            f"Redis shows {shown.unread_count} unread, but MongoDB gives {session.unread_count}: the user sees the "
            "count of Redis.",
            repair,
        )


async def _find_repair(source: AdminSource, conversation: ConversationId) -> str | None:
    """Return the command that repairs a stored count; None: a message or a row has a wrong number."""
    if await MessageNumbers(source.store).compare([conversation]):
        return None
    if await Heads(source.store).compare([conversation]):
        return f"confab check --only heads --conversation {conversation} --repair"
    return None


def _advice(command: str | None) -> str:
    if command is not None:
        return f"Repair it with `{command}`."
    return "No command repairs it, because read positions refer to these numbers: report it as a bug."


def _about_cache(source: AdminSource, cached: CachedSession | None, shown: Session | None) -> list[str]:
    if cached is None:
        return [f"What the user sees is not known, because Redis is not available ({source.redis_problem})."]
    if not cached.is_loaded:
        return ["Redis has not loaded the user's state: the next request loads it from MongoDB."]
    sentences = []
    if shown is None:
        sentences.append("Redis has no session there.")
    elif cached.session is not None and cached.session.n != shown.n and not shown.comes_from_head:
        waiting = shown.n - cached.session.n
        sentences.append(
            f"{waiting} counted message{' waits' if waiting == 1 else 's wait'} in Redis to be folded into the "
            "session; the next request does it."
        )
    if cached.is_held:
        sentences.append("A server holds the user's lock: the cached state may change at this moment.")
    return sentences


def _view_messages(count: MessageCount) -> View:
    return {
        "first_seq": count.first,
        "last_seq": count.last,
        "unread": count.unread_count,
        "own": len(count.own),
        "system": len(count.system),
        "recalled": len(count.recalled),
        "all_were_counted": count.is_whole,
        "listed": count.listed,
    }


def _view_cached(cached: CachedSession, shown: Session | None) -> View:
    if not cached.is_loaded:
        return {"is_loaded": False}
    return {
        "is_loaded": True,
        "session": view_session(cached.session) if cached.session is not None else None,
        "session_with_waiting_messages": view_session(shown) if shown is not None else None,
        "total_unread_without_waiting_messages": cached.total_unread,
        "conversations_with_waiting_messages": cached.waiting_conversations,
        "next_mute_ends_at": time_text(cached.mute_due_ms),
        "is_locked": cached.is_held,
    }
