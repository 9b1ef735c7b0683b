"""The query for a client's first screen."""

from __future__ import annotations

import strawberry

from resolvers.presence.own_presence import own_presence_from
from resolvers.workspaces.first_screen import FirstScreen, read_first_screen
from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.base.scalars import Cursor
from schema.notifications.settings_types import NotificationSettingsType
from schema.presence.presence_types import OwnPresenceType
from schema.sessions.session_types import AttentionType, SessionConnection, session_connection
from schema.users.user_types import UserType, load_user
from schema.workspaces.workspace_types import WorkspaceType, workspace_from


@strawberry.type
class Ready:
    record: strawberry.Private[FirstScreen]

    @strawberry.field
    def me(self, info: Info) -> UserType:
        return load_user(info.context, info.context.viewer)

    @strawberry.field
    def sessions(self, info: Info) -> SessionConnection:
        # The main list has no channels and threads: these are the levels of all its sessions without one of their own.
        known, level = info.context.loaders.inherited_levels, self.record.notification_settings.level
        for edge in self.record.sessions.page.edges:
            known.prime(edge.node.conversation, level)
        return session_connection(self.record.sessions)

    @strawberry.field(metadata=holds(10))
    def workspaces(self, info: Info) -> list[WorkspaceType]:
        known = info.context.loaders.workspaces
        for access, _ in self.record.workspaces:
            known.prime(access.info.id, access)
        return [workspace_from(access.info, rev) for access, rev in self.record.workspaces]

    @strawberry.field
    def attention(self) -> AttentionType:
        return AttentionType(record=self.record.attention)

    @strawberry.field
    def presence(self, info: Info) -> OwnPresenceType:
        return OwnPresenceType(record=own_presence_from(info.context.app, self.record.presence))

    @strawberry.field
    def notification_settings(self) -> NotificationSettingsType:
        return NotificationSettingsType(record=self.record.notification_settings)

    @strawberry.field
    def cursor(self) -> Cursor:
        return Cursor(self.record.sessions.cursor)


@strawberry.type
class ReadyQueries:
    @strawberry.field(
        description="Everything a client needs for its first screen, in one request. Complete up to cursor and to each "
        "workspace's rev."
    )
    async def ready(self, info: Info) -> Ready:
        context = info.context
        return Ready(record=await read_first_screen(context.app, context.viewer, context.page_sizes))
