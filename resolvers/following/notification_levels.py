"""Notification levels: what a user is notified of, in one conversation or in a workspace.

A level decides nothing but notifications: it does not change how unread messages and mentions are counted. A channel
without a level has that of its workspace. Where none is set, ALL is in force.
"""

from __future__ import annotations

from typing import Any

from resolvers.base.app import Confab
from resolvers.sessions.session_changes import set_fields
from resolvers.sessions.user_transactions import Decision, commit
from resolvers.workspaces.access import access_workspace, no_workspace
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id, workspace_of_channel
from store.sessions.changes import AcknowledgeMany
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import DEFAULT_LEVEL, Field, NotificationLevel, SyncReason
from store.sessions.session import Session
from store.sessions.session_lists import followed_list, is_channel
from store.sessions.user_transactions import UserTransaction
from store.workspaces.user_workspaces import WorkspaceNotifications, notifications_write

_FIELD = "id"
_NOT_SET = WorkspaceNotifications()


async def set_notification_level(
    app: Confab, user: UserId, target: str, level: NotificationLevel | None, suppress_everyone: bool | None
) -> NotificationLevel:
    """Set what the user is notified of in a conversation or workspace. Return the level that is in force there then.

    level, suppress_everyone: None removes the setting: that of the workspace is in force, or else the default. Raises
    NotFound, and InvalidInput for a gateway.
    """
    if is_workspace_id(target):
        wanted = WorkspaceNotifications(level, suppress_everyone)
        return await _set_in_workspace(app, user, target, wanted)
    values: dict[Field[Any], Any] = {
        Session.notification_level: level.value if level is not None else None,
        Session.suppresses_everyone: suppress_everyone,
    }
    session = await set_fields(
        app, user, target, SyncReason.NOTIFICATIONS, values, gateways=False, channels=True, argument=_FIELD
    )
    if level is not None or not is_channel(session.conversation):
        return level or DEFAULT_LEVEL
    workspace = workspace_of_channel(session.conversation)
    found = await app.store.user_workspaces.find_notifications(user, [workspace])
    return found.get(workspace, _NOT_SET).level or DEFAULT_LEVEL


async def _set_in_workspace(
    app: Confab, user: UserId, target: str, wanted: WorkspaceNotifications
) -> NotificationLevel:
    """Set what the user is notified of in a workspace.

    The sessions of followed channels without a level of their own change with it, as one event.
    """
    await access_workspace(app, user, target, _FIELD)
    workspace = WorkspaceId(target)
    snapshot = await app.store.sessions.list_followed(user, followed_list(workspace))
    names = [session.conversation for session in snapshot.sessions]
    in_force = wanted.level or DEFAULT_LEVEL

    async def work(transaction: UserTransaction) -> None:
        before = (await app.store.user_workspaces.find_notifications(user, [workspace])).get(workspace)
        if before is None:
            # The user has left meanwhile.
            raise no_workspace(_FIELD)
        if before == wanted:
            return
        write = notifications_write(user, workspace, wanted)
        places = {}
        if in_force is not (before.level or DEFAULT_LEVEL):
            inheriting = [name for name, each in transaction.sessions.items() if each.notification_level is None]
            places = await app.store.channel_sessions.find_places(user, inheriting)
        if not places:
            await app.store.mongo.write([write])
            return
        # A field of the sessions has to differ, so that their ticks move and the user's devices learn of it.
        values = {Session.workspace_level_at_ms: transaction.at}
        change = AcknowledgeMany([(ChannelChange(name, (0, 0), values=values), None) for name in places])
        heads = {name: place.head for name, place in places.items()}
        await commit(app, transaction, [Decision(change, SyncReason.NOTIFICATIONS)], [write], heads)

    await app.store.user_transactions.run(user, names, work)
    return in_force
