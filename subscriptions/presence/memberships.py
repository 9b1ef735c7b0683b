"""Users who have joined or left workspaces, on all servers: they count as online in others (ADR 80)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from store.base.ids import UserId
from subscriptions.presence.online_users import OnlineUsers
from subscriptions.realtime.bus import ALL_SERVERS, Bus

_FRAME = "workspaces_of"


def listen_to_memberships(bus: Bus, online: OnlineUsers) -> None:
    """Let this process write the sets of users whose workspaces have changed."""

    def note(users: Any) -> None:
        online.note_workspaces(map(UserId, users))

    bus.on_frame(_FRAME, note)


def announce_memberships(bus: Bus, users: Collection[UserId]) -> None:
    """Notify all servers that users have joined or left workspaces. Best effort."""
    bus.send_frames(_FRAME, {ALL_SERVERS: list(users)})
