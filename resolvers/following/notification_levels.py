"""Notification levels: what a user is notified of, in one conversation or in a workspace.

A level decides nothing but notifications: it does not change how unread messages and mentions are counted. Where none
is set, that of the next larger one is in force: `inherited_levels`.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from store.workspaces.user_workspaces import notifications_write

_FIELD = "id"

_SESSION_FIELDS: dict[str, Field[Any]] = {
    "level": Session.notification_level,
    "suppresses_everyone": Session.suppresses_everyone,
}
"""The fields of a session for those of WorkspaceNotifications."""


async def set_notification_level(
    app: Confab, user: UserId, target: str, values: Mapping[str, Any]
) -> NotificationLevel:
    """Set what the user is notified of in a conversation or workspace. Return the level that is in force there then.

    values: the fields of WorkspaceNotifications to set; others stay as they are. None removes a setting: that of the
    next larger one is in force. Raises NotFound, and InvalidInput for a gateway.
    """
    if is_workspace_id(target):
        return await _set_in_workspace(app, user, target, values)
    stored = {_SESSION_FIELDS[name]: value for name, value in values.items()}
    session = await set_fields(
        app, user, target, SyncReason.NOTIFICATIONS, stored, gateways=False, channels=True, argument=_FIELD
    )
    if session.notification_level is not None:
        return session.notification_level
    return (await find_inherited_levels(app, user, [session.conversation]))[session.conversation]


async def _set_in_workspace(app: Confab, user: UserId, target: str, values: Mapping[str, Any]) -> NotificationLevel:
    """Set what the user is notified of in a workspace.

    The sessions of followed channels without a level of their own change with it, as one event.
    """
    await access_workspace(app, user, target, _FIELD)
    workspace = WorkspaceId(target)
    snapshot = await app.store.sessions.list_followed(user, followed_list(workspace))
    names = [session.conversation for session in snapshot.sessions]
    of_user = (await app.store.notification_settings.read(user)).level

    async def work(transaction: UserTransaction) -> NotificationLevel:
        before = (await app.store.user_workspaces.find_notifications(user, [workspace])).get(workspace)
        if before is None:
            # The user has left meanwhile.
            raise no_workspace(_FIELD)
        wanted = before._replace(**values)
        in_force = wanted.level or of_user
        if before == wanted:
            return in_force
        write = notifications_write(user, workspace, wanted)
        places = {}
        if in_force is not (before.level or of_user):
            inheriting = [name for name, each in transaction.sessions.items() if each.notification_level is None]
            places = await app.store.channel_sessions.find_places(user, inheriting)
        if not places:
            await app.store.mongo.write([write])
            return in_force
        # A field of the sessions has to differ, so that their ticks move and the user's devices learn of it.
        moved = {Session.workspace_level_at_ms: transaction.at}
        change = AcknowledgeMany([(ChannelChange(name, (0, 0), values=moved), None) for name in places])
        heads = {name: place.head for name, place in places.items()}
        await commit(app, transaction, [Decision(change, SyncReason.NOTIFICATIONS)], [write], heads)
        return in_force

    return await app.store.user_transactions.run(user, names, work)
