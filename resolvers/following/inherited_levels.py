"""Notification levels of conversations without one of their own: that of the next larger one (ADR 67).

A thread has the level of its conversation, a channel that of its workspace, and everything else that of the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from resolvers.base.app import Confab
from store.base.ids import ConversationId, UserId, parse_thread, without_thread
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.sessions.fields import NotificationLevel
from store.sessions.session_lists import is_channel


async def find_inherited_levels(
    app: Confab, user: UserId, conversations: Collection[ConversationId]
) -> dict[ConversationId, NotificationLevel]:
    """Return the levels in force in conversations for which the user has set none.

    One round trip to Redis, and at the same time one to MongoDB if there are channels.
    """
    threads = {name: without_thread(name) for name in conversations if parse_thread(name) is not None}
    larger = {name: threads.get(name, name) for name in conversations}
    workspaces = {workspace_of_channel(name) for name in larger.values() if is_channel(name)}
    of_user, of_workspaces, of_parents = await asyncio.gather(
        app.store.notification_settings.read(user),
        _find_workspace_levels(app, user, workspaces),
        _find_own_levels(app, user, set(threads.values())),
    )

    def level_of(name: ConversationId) -> NotificationLevel:
        of_workspace = of_workspaces.get(workspace_of_channel(name)) if is_channel(name) else None
        return of_workspace or of_user.level

    return {
        name: (of_parents.get(parent) if name in threads else None) or level_of(parent)
        for name, parent in larger.items()
    }


async def _find_own_levels(
    app: Confab, user: UserId, conversations: Collection[ConversationId]
) -> dict[ConversationId, NotificationLevel | None]:
    """Return the levels that the user has set for conversations."""
    if not conversations:
        return {}
    sessions = await app.store.sessions.find_each(user, list(conversations))
    return {session.conversation: session.notification_level for session in sessions}


async def _find_workspace_levels(
    app: Confab, user: UserId, workspaces: Collection[WorkspaceId]
) -> dict[WorkspaceId, NotificationLevel | None]:
    """Return the levels that the user has set for workspaces."""
    if not workspaces:
        return {}
    found = await app.store.user_workspaces.find_notifications(user, workspaces)
    return {workspace: each.level for workspace, each in found.items()}
