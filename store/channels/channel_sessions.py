"""Sessions in channels, and in threads that are not followed, as their users see them (ADR 61, ADR 70).

Nothing is written to them when others write there. What depends on the messages of others comes from the head of the
channel or thread, whenever a session is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from store.base.ids import ConversationId, UserId, without_thread
from store.channels.channel_rights import ChannelRights, ChannelRightsFinder
from store.conversations.conversation import Head
from store.conversations.conversation_store import ConversationStore
from store.sessions.fields import MAX_UNREAD_MENTIONS, record_of
from store.sessions.session import Session
from store.sessions.session_lists import is_channel


class SessionPlace(NamedTuple):
    """A channel that a user can see: its head, and the user's rights there."""

    head: Head
    rights: ChannelRights


class ChannelSessions:
    """Completes sessions in channels."""

    def __init__(self, conversations: ConversationStore, rights: ChannelRightsFinder) -> None:
        self._conversations = conversations
        self._rights = rights

    async def find_places(
        self, user: UserId, channels: Collection[ConversationId]
    ) -> dict[ConversationId, SessionPlace]:
        """Return those of some channels that a user can see. One round trip to Redis if everything is known."""
        if not channels:
            return {}
        heads = await self._conversations.find_many(channels)
        rights = await self._rights.find_many(user, {name: head.policy_version for name, head in heads.items()})
        return {name: SessionPlace(heads[name], judged) for name, judged in rights.items()}

    async def complete(self, user: UserId, sessions: Iterable[Session]) -> list[Session]:
        """Return a user's sessions, those completed that take something from the head.

        Channels that the user can't see are left out, and threads there that are not known to be hidden. No round trip
        if nothing is missing; else one to Redis if everything is known.
        """
        listed = list(sessions)
        incomplete = [session.conversation for session in listed if _is_incomplete(session)]
        if not incomplete:
            return listed
        heads = await self._find_visible_heads(user, incomplete)
        return [
            with_head(session, heads[session.conversation]) if _is_incomplete(session) else session
            for session in listed
            if not _is_incomplete(session) or session.conversation in heads
        ]

    async def _find_visible_heads(self, user: UserId, names: Sequence[ConversationId]) -> dict[ConversationId, Head]:
        """Return the heads of channels that a user can see, and of threads that are not in others. One round trip."""
        channels = {parent for name in names if is_channel(parent := without_thread(name))}
        heads = await self._conversations.find_many({*names, *channels})
        versions = {channel: heads[channel].policy_version for channel in channels if channel in heads}
        hidden = channels - (await self._rights.find_many(user, versions)).keys()
        return {name: heads[name] for name in names if name in heads and without_thread(name) not in hidden}


def _is_incomplete(session: Session) -> bool:
    return session.comes_from_head and not session.hidden


def with_head(session: Session, head: Head) -> Session:
    """Return a session in a channel, or in a thread that is not followed, with what the head says."""
    floor = head.floor_seq, head.floor_n
    return with_newest(session, head.seq, head.newest_n, head.written_at_ms, head.mentions_all, floor)


def with_newest(
    session: Session,
    seq: int,
    n: int,
    written_at_ms: int,
    mentions_all: Sequence[int] = (),
    floor: tuple[int, int] = (0, 0),
) -> Session:
    """Return such a session with the place of the newest message, and the messages that mention everybody.

    floor: seq and n up to which messages are expired.
    """
    seq, n = max(seq, session.acknowledged_seq), max(n, session.read_n)
    record = dict(session.record) | {
        Session.write_seq.stored: seq,
        Session.n.stored: n,
        Session.write_ts.stored: max(session.write_ts, written_at_ms),
    }
    mentions = {
        found for found in (*session.mentions, *mentions_all) if max(session.acknowledged_seq, floor[0]) < found <= seq
    }
    if floor[0]:
        record |= {Session.floor_seq.stored: floor[0], Session.floor_n.stored: floor[1]}
    record.pop(Session.mentions.stored, None)
    if mentions:
        record[Session.mentions.stored] = sorted(mentions)[-MAX_UNREAD_MENTIONS:]
    return Session(session.user, session.conversation, record)


def new_session(user: UserId, head: Head) -> Session:
    """Return the session of a user who has none in a channel or thread, with everything read. It is not stored."""
    seq, n = head.seq, head.newest_n
    record = record_of(acknowledged_seq=seq, read_n=n, received_seq=seq)
    return with_head(Session(user, head.conversation, record), head)
