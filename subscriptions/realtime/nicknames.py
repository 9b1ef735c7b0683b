"""Changed nicknames, on all servers.

A nickname decides no rights, so its change does not make servers read members again. They drop what they keep.
"""

from __future__ import annotations

from typing import Any

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.workspaces.policies import Policies
from subscriptions.realtime.bus import Bus

_FRAME = "nickname"


def listen_to_nicknames(bus: Bus, policies: Policies) -> None:
    """Drop the facts about members whose nicknames change on other servers."""

    def forget(body: Any) -> None:
        workspace, user, *_ = body
        policies.forget_member(WorkspaceId(workspace), UserId(user))

    bus.on_frame(_FRAME, forget)
    bus.on_subscribed(policies.forget_members)


async def announce_nickname(bus: Bus, workspace: WorkspaceId, user: UserId) -> None:
    """Notify all servers that a nickname has changed. Raises Unreachable."""
    await bus.notify_all(_FRAME, [workspace, user])
