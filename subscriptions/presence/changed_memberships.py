"""Changed memberships of workspaces, on all servers: they decide who sees whose presence, and who counts as online."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from store.base.ids import UserId
from subscriptions.realtime.bus import ALL_SERVERS, Bus

_FRAME = "memberships"


class ChangedMemberships:
    """Notifies the subscriptions of users whose membership of a workspace has changed. Best effort."""

    def __init__(self, bus: Bus) -> None:
        """Listen to the bus."""
        self._bus = bus
        self._listeners: dict[UserId, set[Callable[[], None]]] = {}
        self._on_change: list[Callable[[Collection[UserId]], None]] = []
        bus.on_frame(_FRAME, self._receive)

    def announce(self, users: Collection[UserId]) -> None:
        """Notify all servers after this has returned."""
        if users:
            self._bus.send_frames(_FRAME, {ALL_SERVERS: list(users)})

    def on_change(self, call: Callable[[Collection[UserId]], None]) -> None:
        """Make `call` with all users whose membership may have changed. It must not block."""
        self._on_change.append(call)

    def listen(self, user: UserId, call: Callable[[], None]) -> None:
        """Make `call` when a membership of a user may have changed. It must not block."""
        self._listeners.setdefault(user, set()).add(call)

    def unlisten(self, user: UserId, call: Callable[[], None]) -> None:
        """Make the call no longer. Idempotent."""
        calls = self._listeners.get(user, set())
        calls.discard(call)
        if not calls:
            self._listeners.pop(user, None)

    def _receive(self, body: Any) -> None:
        for note in self._on_change:
            note(body)
        for user in body:
            for call in list(self._listeners.get(user, ())):
                call()
