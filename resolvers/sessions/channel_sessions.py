"""Sessions in channels, for changes by their users: found with the channel's head, or new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, NotFound
from resolvers.sessions.user_transactions import existing_session
from store.base.ids import ConversationId
from store.channels.channel_sessions import new_session, with_head
from store.conversations.conversation import Head
from store.sessions.changes import SetFields
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.sessions.session_lists import is_channel
from store.sessions.user_transactions import UserTransaction


@dataclass(frozen=True, slots=True)
class NamedSessions:
    """The sessions that a change is about, complete.

    Attributes:
        sessions: By conversation. In a channel without a session: the one that it begins with.
        heads: Of the channels among them.
        new: The channels without a session.
    """

    sessions: dict[ConversationId, Session]
    heads: dict[ConversationId, Head]
    new: frozenset[ConversationId]


async def find_named(
    app: Confab, transaction: UserTransaction, names: Sequence[ConversationId], argument: str
) -> NamedSessions:
    """Return the sessions of some conversations, under the user's lock. One round trip if channels are among them.

    Raises NotFound, which names the argument: there is no session, or the user can't see the channel.
    """
    channels = [name for name in names if is_channel(name)]
    places = await app.store.channel_sessions.find_places(transaction.user, channels)
    sessions: dict[ConversationId, Session] = {}
    for name in names:
        if not is_channel(name):
            sessions[name] = existing_session(transaction, name, argument)
            continue
        if name not in places:
            raise NotFound("there is no such conversation", field=argument)
        head, found = places[name].head, transaction.sessions.get(name)
        sessions[name] = with_head(found, head) if found is not None else new_session(transaction.user, head)
    heads = {name: place.head for name, place in places.items()}
    return NamedSessions(sessions, heads, frozenset(heads.keys() - transaction.sessions.keys()))


def in_channel(change: SetFields, session: Session, *, is_new: bool) -> ChannelChange:
    """Return a change of fields as a change of a session in a channel. A new session begins with everything read."""
    begins_at = (session.write_seq, session.n) if is_new else (0, 0)
    return ChannelChange(
        session.conversation, begins_at, values=change.all_values(), moves_write_ts=change.moves_write_ts
    )


def refuse_channels(names: Sequence[str], argument: str) -> None:
    """Raise InvalidInput if a channel is among some conversations."""
    if any(is_channel(name) for name in names):
        raise InvalidInput("this does not apply to channels", field=argument)
