"""Values of workspaces and their parts for the audit log, by the names of the API."""

from __future__ import annotations

from typing import Any

from store.workspaces.permissions import Permission
from store.workspaces.policy import Channel, ChannelCategory, MemberFacts, Overwrite, Role
from store.workspaces.workspace_info import WorkspaceInfo


def workspace_values(info: WorkspaceInfo) -> dict[str, Any]:
    """Return what an update may change. metadata: as JSON text, like that of channels."""
    return {
        "name": info.name,
        "domain": info.domain,
        "iconUrl": info.icon_url,
        "isOpen": info.is_open,
        "plan": info.plan.value,
        "retentionDays": info.retention_days,
        "metadata": info.metadata,
    }


def channel_values(channel: Channel) -> dict[str, Any]:
    """Return the settings of a channel, without its overwrites."""
    return {
        "name": channel.name,
        "kind": channel.kind.name,
        "topic": channel.topic,
        "categoryId": channel.category,
        "position": channel.position,
        "isDefault": channel.is_default,
        "isArchived": channel.is_archived,
        "inheritsPermissions": channel.inherits_permissions,
        "historyVisibility": history_visibility(full_history=channel.full_history),
        "slowModeSeconds": channel.slow_mode_seconds,
        "metadata": channel.metadata,
    }


def history_visibility(*, full_history: bool) -> str:
    """Return the API's name for what members may read from before they joined."""
    return "FULL" if full_history else "SINCE_JOIN"


def category_values(category: ChannelCategory) -> dict[str, Any]:
    """Return the settings of a category, without its overwrites."""
    return {"name": category.name, "position": category.position}


def role_values(role: Role) -> dict[str, Any]:
    """Return the settings of a role."""
    return {
        "name": role.name,
        "position": role.position,
        "color": role.color,
        "permissions": permission_names(role.permissions),
        "isMentionable": role.is_mentionable,
        "isHoisted": role.is_hoisted,
    }


def member_values(member: MemberFacts) -> dict[str, Any]:
    """Return the roles and the nickname of a member."""
    return {"roleIds": sorted(member.roles), "nickname": member.nickname}


def overwrite_values(overwrite: Overwrite) -> dict[str, Any]:
    """Return what an overwrite allows and denies."""
    return {"allow": permission_names(overwrite.allow), "deny": permission_names(overwrite.deny)}


def permission_names(permissions: Permission) -> list[str]:
    """Return the names of permissions, in the order of the API."""
    return [permission.name for permission in permissions if permission.name is not None]
