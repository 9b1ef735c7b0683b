"""Notification levels: what a user is notified of, in one conversation or in a workspace.

A level decides nothing but notifications: it does not change how unread messages and mentions are counted. Where none
is set, that of the next larger one is in force: `inherited_levels`.
"""

from __future__ import annotations

from typing import Any

from resolvers.base.app import Confab
from resolvers.following.inherited_levels import find_inherited_levels
from resolvers.sessions.session_changes import set_fields
from resolvers.sessions.user_transactions import Decision, commit
from resolvers.workspaces.access import access_workspace, no_workspace
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.sessions.changes import AcknowledgeMany
from store.sessions.channel_changes import ChannelChange
from store.sessions.fields import Field, NotificationLevel, SyncReason
from store.sessions.session import Session
from store.sessions.session_lists import followed_list
from store.sessions.user_transactions import UserTransaction
from store.workspaces.user_workspaces import WorkspaceNotifications, notifications_write

_FIELD = "id"


async def set_notification_level(
    app: Confab, user: UserId, target: str, level: NotificationLevel | None, suppress_everyone: bool | None
) -> NotificationLevel:
    """Set what the user is notified of in a conversation or workspace. Return the level that is in force there then.

    level, suppress_everyone: None removes the setting: that of the next larger one is in force. Raises NotFound, and
    InvalidInput for a gateway.
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
    if level is not None:
        return level
    return (await find_inherited_levels(app, user, [session.conversation]))[session.conversation]


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
    of_user = (await app.store.notification_settings.read(user)).level
    in_force = wanted.level or of_user

    async def work(transaction: UserTransaction) -> None:
        before = (await app.store.user_workspaces.find_notifications(user, [workspace])).get(workspace)
        if before is None:
            # The user has left meanwhile.
            raise no_workspace(_FIELD)
        if before == wanted:
            return
        write = notifications_write(user, workspace, wanted)
        places = {}
        if in_force is not (before.level or of_user):
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
