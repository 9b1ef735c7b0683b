"""Ids of workspaces and of what is inside them. Each id inside has the workspace's own part (ADR 56)."""

from __future__ import annotations

import re
from typing import NewType

from store.base.ids import ConversationId, scatter, without_thread

WorkspaceId = NewType("WorkspaceId", str)
RoleId = NewType("RoleId", str)
CategoryId = NewType("CategoryId", str)

_NUMBER = r"(0|[1-9][0-9]{0,18})"
_WORKSPACE = re.compile(rf"w_{_NUMBER}\Z")
_INSIDE = re.compile(rf"[crk]_{_NUMBER}\.{_NUMBER}\Z")
_EVERYONE = re.compile(rf"r_{_NUMBER}\Z")


def is_workspace_id(text: str) -> bool:
    """Return whether text has the form of a workspace id."""
    return _WORKSPACE.match(text) is not None


def workspace_id(snowflake: int) -> WorkspaceId:
    """Return the id of the workspace that was created with a snowflake."""
    return WorkspaceId(f"w_{scatter(snowflake)}")


def channel_id(workspace: WorkspaceId, snowflake: int) -> ConversationId:
    """Return the id of a channel that was created with a snowflake."""
    return ConversationId(_inside("c", workspace, snowflake))


def role_id(workspace: WorkspaceId, snowflake: int) -> RoleId:
    """Return the id of a role that was created with a snowflake."""
    return RoleId(_inside("r", workspace, snowflake))


def everyone_id(workspace: WorkspaceId) -> RoleId:
    """Return the id of the role that every member has."""
    return RoleId(f"r_{workspace[2:]}")


def category_id(workspace: WorkspaceId, snowflake: int) -> CategoryId:
    """Return the id of a channel category that was created with a snowflake."""
    return CategoryId(_inside("k", workspace, snowflake))


def workspace_of(text: str, prefix: str) -> WorkspaceId | None:
    """Return the workspace that an id names; None if it is not an id with that prefix ("c", "r" or "k")."""
    if text[:1] != prefix:
        return None
    found = _INSIDE.match(text) or _EVERYONE.match(text)
    return WorkspaceId(f"w_{found[1]}") if found is not None else None


def workspace_of_channel(channel: ConversationId) -> WorkspaceId:
    """Return the workspace of a well-formed id of a channel, or of a thread in a channel."""
    return WorkspaceId(f"w_{without_thread(channel)[2:].partition('.')[0]}")


def is_in_workspace(conversation: ConversationId) -> bool:
    """Return whether a well-formed id names a channel, or a thread in a channel."""
    return without_thread(conversation).startswith("c_")


def _inside(prefix: str, workspace: WorkspaceId, snowflake: int) -> str:
    return f"{prefix}_{workspace[2:]}.{snowflake}"
