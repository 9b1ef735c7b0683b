"""Presence records that Redis may have evicted: all servers write their parts of them again (ADR 80)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from itertools import islice

from store.base.ids import UserId
from subscriptions.presence.connected_devices import ConnectedDevices
from subscriptions.presence.presence_hub import PresenceHub
from subscriptions.realtime.bus import ALL_SERVERS, Bus

_FRAME = "presence_missing"

GATHER_SECONDS = 1.0
"""Least time between two frames. It bounds the cost when many records are read that never existed."""

_MOST_USERS = 2_000
"""Users in one frame. Further ones wait for the next frame."""

_MOST_WAITING = 100_000
"""Users who wait. Further ones are left out: their devices are written again within half an hour."""


class MissingRecords:
    """Notifies all servers of users whose records were not in Redis, at most once a second.

    Most of them have no devices and no viewers. Nobody can tell: what was evicted has left no trace.
    """

    def __init__(self, server: str, bus: Bus, devices: ConnectedDevices, hub: PresenceHub) -> None:
        self._server = server
        self._bus = bus
        self._devices = devices
        self._hub = hub
        self._missing: dict[UserId, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        bus.on_frame(_FRAME, self._receive)

    def note(self, users: Collection[UserId]) -> None:
        """Note users whose records had to be created for a reader."""
        if len(self._missing) < _MOST_WAITING:
            self._missing.update(dict.fromkeys(users))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send)

    def close(self) -> None:
        """Stop. What waits is not sent."""
        if self._timer is not None:
            self._timer.cancel()

    def _send(self) -> None:
        self._timer = None
        users = list(islice(self._missing, _MOST_USERS))
        for user in users:
            del self._missing[user]
        if self._missing:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._send)
        self._bus.send_frames(_FRAME, {ALL_SERVERS: [self._server, users]})

    def _receive(self, body: tuple[str, Iterable[str]]) -> None:
        _, names, *_ = body
        missing = [UserId(name) for name in names]
        for user in missing:
            self._devices.rewrite(user)
        # Also on the server that noted them: a writer has not read them.
        self._hub.watch_again(missing)
