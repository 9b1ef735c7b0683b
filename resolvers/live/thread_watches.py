"""Watches that begin when a client asks for the `rev` of a thread, because it will look at the thread next."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from resolvers.base.app import Confab
from resolvers.conversations.access import access_conversations
from store.base.errors import StoreError
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.base.workspace_ids import is_in_workspace
from subscriptions.realtime.mailboxes import Position


async def watch_threads(app: Confab, user: UserId, ids: Collection[str]) -> Mapping[ConversationId, int]:
    """Make a user a watcher of the threads in private conversations and groups among some ids, if they can see them.

    Read the threads after that. Then the user's log has everything that they do not include.

    Returns:
        For each thread the tick of the user's clock from which on the log has all of its events. Empty while Redis is
        away: then a subscription begins with `reset`.
    """
    threads = [ConversationId(id) for id in dict.fromkeys(ids) if kind_of(id) is ConversationKind.THREAD]
    threads = [thread for thread in threads if not is_in_workspace(thread)]
    if not threads:
        return {}
    try:
        accesses = await access_conversations(app, user, threads)
        seen = [access.head.conversation for access in accesses if access is not None and access.is_current]
        if not seen:
            return {}
        begun = await app.watches.begin(user, seen)
        snapshot = await app.store.sessions.find_many(user, ())
        return await app.watches.note_clock(user, Position(snapshot.epoch, snapshot.clock), begun)
    except StoreError:
        return {}
