"""Changed nicknames, on all servers.

A nickname decides no rights, so its change does not make servers read members again. They drop what they keep.
"""

from __future__ import annotations

from typing import Any

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.workspaces.policies import Policies
from subscriptions.realtime.bus import ALL_SERVERS, Bus

_FRAME = "nickname"


def listen_to_nicknames(bus: Bus, policies: Policies) -> None:
    """Drop the facts about members whose nicknames change on other servers."""

    def forget(body: Any) -> None:
        workspace, user = body
        policies.forget_member(WorkspaceId(workspace), UserId(user))

    bus.on_frame(_FRAME, forget)
    bus.on_subscribed(policies.forget_members)


def announce_nickname(bus: Bus, workspace: WorkspaceId, user: UserId) -> None:
    """Notify all servers that a nickname has changed, after this has returned."""
    bus.send_frames(_FRAME, {ALL_SERVERS: [workspace, user]})
