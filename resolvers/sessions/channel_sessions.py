"""Sessions in channels and threads, for changes by their users: found with the head, or new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotAMember, NotFound
from resolvers.conversations.access import access_conversations
from resolvers.sessions.user_transactions import existing_session
from store.base.ids import ConversationId
from store.channels.channel_sessions import new_session, with_head
from store.conversations.conversation import Head
from store.sessions.changes import SetFields
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.sessions.session_lists import is_channel, is_thread
from store.sessions.user_transactions import UserTransaction


@dataclass(frozen=True, slots=True)
class NamedSessions:
    """The sessions that a change is about, complete.

    Attributes:
        sessions: By conversation. In a channel or thread without a session: the one that it begins with.
        heads: Of the channels, and of the threads that are not followed.
        new: The channels and threads without a session.
    """

    sessions: dict[ConversationId, Session]
    heads: dict[ConversationId, Head]
    new: frozenset[ConversationId]


async def find_named(
    app: Confab, transaction: UserTransaction, names: Sequence[ConversationId], argument: str
) -> NamedSessions:
    """Return the sessions of some conversations, under the user's lock.

    One round trip if channels are among them, or threads that are not followed. Raises NotFound and NotAMember, which
    name the argument: there is no session, or the user can't see the conversation.
    """
    channels = [name for name in names if is_channel(name)]
    places = await app.store.channel_sessions.find_places(transaction.user, channels)
    heads = {name: place.head for name, place in places.items()}
    threads = [name for name in names if is_thread(name) and not _is_ordinary(transaction.sessions.get(name))]
    heads |= await _find_threads(app, transaction, threads, argument)
    sessions: dict[ConversationId, Session] = {}
    for name in names:
        found = transaction.sessions.get(name)
        if not is_channel(name) and not is_thread(name):
            sessions[name] = existing_session(transaction, name, argument)
        elif name in heads:
            sessions[name] = (
                with_head(found, heads[name]) if found is not None else new_session(transaction.user, heads[name])
            )
        elif found is not None and is_thread(name):
            sessions[name] = found
        else:
            raise NotFound("there is no such conversation", field=argument)
    return NamedSessions(sessions, heads, frozenset(heads.keys() - transaction.sessions.keys()))


def _is_ordinary(session: Session | None) -> bool:
    """Return whether nothing else has to be read: the user follows the thread, and can see it."""
    return session is not None and session.follows and not session.hidden


async def _find_threads(
    app: Confab, transaction: UserTransaction, threads: Sequence[ConversationId], argument: str
) -> dict[ConversationId, Head]:
    """Return the heads of threads that the user does not follow, and of which no session is hidden.

    Raises NotFound: the user can't see a thread. NotAMember: they have left its group, and have no session.
    """
    heads: dict[ConversationId, Head] = {}
    if not threads:
        return heads
    for name, access in zip(threads, await access_conversations(app, transaction.user, threads), strict=True):
        found = transaction.sessions.get(name)
        if access is None:
            raise NotFound("there is no such conversation", field=argument)
        if access.is_current and not (found is not None and found.hidden):
            heads[name] = access.head
        elif found is None:
            raise NotAMember("you are no longer in this conversation", field=argument)
    return heads


def in_channel(change: SetFields, session: Session, *, is_new: bool) -> ChannelChange:
    """Return a change of fields as a change of a session that takes its counts from the head.

    A new session begins with everything read. That of a thread is in no list, so it has no time to move.
    """
    begins_at = (session.write_seq, session.n) if is_new else (0, 0)
    moves = change.moves_write_ts and not is_thread(session.conversation)
    return ChannelChange(session.conversation, begins_at, values=change.all_values(), moves_write_ts=moves)


def refuse_unfollowed(sessions: Iterable[Session], argument: str) -> None:
    """Raise InvalidInput if the session of a thread that is not followed is among some sessions."""
    if any(is_thread(session.conversation) and not session.follows for session in sessions):
        raise InvalidInput("this applies to a thread only while you follow it", field=argument)


def refuse_channels(names: Sequence[str], argument: str) -> None:
    """Raise InvalidInput if a channel is among some conversations."""
    if any(is_channel(name) for name in names):
        raise InvalidInput("this does not apply to channels", field=argument)
