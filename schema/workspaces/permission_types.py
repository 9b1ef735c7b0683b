"""The GraphQL types of permissions and overwrites."""

from __future__ import annotations

from enum import Enum

import strawberry

from store.workspaces import permissions
from store.workspaces.policy import Overwrite, Overwrites


@strawberry.enum(
    name="Permission",
    description=(
        "Computed in this order: the role of everyone and all roles of the member together; ADMINISTRATOR and the "
        "owner have everything; then the channel's overwrites: deny and allow for everyone, then the denies and then "
        "the allows of the member's roles together, then deny and allow of the member. Without VIEW_CHANNEL there is "
        "nothing else; without SEND_MESSAGES none of SEND_THREADS to MENTION_EVERYONE. A channel without overwrites "
        "of its own uses its category's. A role's position (higher ranks higher) decides who may change whom, not "
        "what is allowed. New permissions are appended. The role of everyone starts with VIEW_CHANNEL, READ_HISTORY, "
        "SEND_MESSAGES, SEND_THREADS, CREATE_THREADS, ATTACH_FILES, EMBED_LINKS, ADD_REACTIONS, CREATE_INVITES, "
        "CHANGE_NICKNAME, CONNECT, SPEAK and VIDEO."
    ),
)
class PermissionType(Enum):
    ADMINISTRATOR = permissions.Permission.ADMINISTRATOR
    VIEW_CHANNEL = permissions.Permission.VIEW_CHANNEL
    READ_HISTORY = permissions.Permission.READ_HISTORY
    SEND_MESSAGES = permissions.Permission.SEND_MESSAGES
    SEND_THREADS = permissions.Permission.SEND_THREADS
    CREATE_THREADS = permissions.Permission.CREATE_THREADS
    ATTACH_FILES = permissions.Permission.ATTACH_FILES
    EMBED_LINKS = permissions.Permission.EMBED_LINKS
    MENTION_EVERYONE = permissions.Permission.MENTION_EVERYONE
    ADD_REACTIONS = permissions.Permission.ADD_REACTIONS
    PIN_MESSAGES = permissions.Permission.PIN_MESSAGES
    MANAGE_MESSAGES = permissions.Permission.MANAGE_MESSAGES
    MANAGE_THREADS = permissions.Permission.MANAGE_THREADS
    BYPASS_SLOW_MODE = permissions.Permission.BYPASS_SLOW_MODE
    CREATE_INVITES = permissions.Permission.CREATE_INVITES
    INVITE_MEMBERS = permissions.Permission.INVITE_MEMBERS
    CHANGE_NICKNAME = permissions.Permission.CHANGE_NICKNAME
    MANAGE_NICKNAMES = permissions.Permission.MANAGE_NICKNAMES
    MANAGE_CHANNELS = permissions.Permission.MANAGE_CHANNELS
    MANAGE_ROLES = permissions.Permission.MANAGE_ROLES
    MANAGE_WORKSPACE = permissions.Permission.MANAGE_WORKSPACE
    MANAGE_WEBHOOKS = permissions.Permission.MANAGE_WEBHOOKS
    KICK_MEMBERS = permissions.Permission.KICK_MEMBERS
    BAN_MEMBERS = permissions.Permission.BAN_MEMBERS
    TIMEOUT_MEMBERS = permissions.Permission.TIMEOUT_MEMBERS
    VIEW_AUDIT_LOG = permissions.Permission.VIEW_AUDIT_LOG
    VIEW_REPORTS = permissions.Permission.VIEW_REPORTS
    CONNECT = permissions.Permission.CONNECT
    SPEAK = permissions.Permission.SPEAK
    VIDEO = permissions.Permission.VIDEO
    MUTE_OTHERS = permissions.Permission.MUTE_OTHERS
    DEAFEN_OTHERS = permissions.Permission.DEAFEN_OTHERS
    MOVE_OTHERS = permissions.Permission.MOVE_OTHERS


def list_permissions(rights: permissions.Permission) -> list[PermissionType]:
    """Return permissions in the order of the enum."""
    return [PermissionType(permission) for permission in rights]


@strawberry.type
class PermissionOverwrite:
    overwrite: strawberry.Private[Overwrite]
    role_id: strawberry.ID | None
    user_id: strawberry.ID | None

    @strawberry.field
    def allow(self) -> list[PermissionType]:
        return list_permissions(self.overwrite.allow)

    @strawberry.field
    def deny(self) -> list[PermissionType]:
        return list_permissions(self.overwrite.deny)


def list_overwrites(overwrites: Overwrites) -> list[PermissionOverwrite]:
    """Return the overwrites of a channel or category: those of roles first."""
    of_roles = [
        PermissionOverwrite(overwrite=overwrite, role_id=strawberry.ID(role), user_id=None)
        for role, overwrite in overwrites.roles.items()
    ]
    of_users = [
        PermissionOverwrite(overwrite=overwrite, role_id=None, user_id=strawberry.ID(user))
        for user, overwrite in overwrites.users.items()
    ]
    return of_roles + of_users
