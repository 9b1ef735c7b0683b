"""Reads all followed channels of a workspace, or of a category, at once."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.sessions.acknowledging import acknowledge
from resolvers.sessions.attention import Attention, count_attention
from resolvers.sessions.reading import decide_in_channel
from resolvers.workspaces.access import access_workspace
from resolvers.workspaces.channel_decisions import find_category
from store.base.ids import UserId
from store.channels.channel_sessions import with_head
from store.sessions.session_lists import followed_list
from store.sessions.user_transactions import UserTransaction


async def mark_channels_read(app: Confab, user: UserId, workspace: str, category: str | None) -> Attention:
    """Mark the channels that a user follows and can see as read, as one change with one event.

    Returns what is left to read everywhere. Raises NotFound.
    """
    access = await access_workspace(app, user, workspace)
    wanted = find_category(access.policy, category)
    snapshot = await app.store.sessions.list_followed(user, followed_list(workspace))
    names = [
        session.conversation
        for session in snapshot.sessions
        if (channel := access.policy.channels.get(session.conversation)) is not None
        and (wanted is None or channel.category == wanted)
    ]

    async def work(transaction: UserTransaction) -> None:
        places = await app.store.channel_sessions.find_places(user, names)
        heads = {name: place.head for name, place in places.items()}
        sessions = {
            name: with_head(session, heads[name]) for name, session in transaction.sessions.items() if name in heads
        }
        decided = [await decide_in_channel(app, session, None, is_new=False) for session in sessions.values()]
        due = [acknowledgement for acknowledgement in decided if acknowledgement is not None]
        await acknowledge(app, transaction, due, sessions, heads)

    if names:
        await app.store.user_transactions.run(user, names, work)
    return await count_attention(app, user)
