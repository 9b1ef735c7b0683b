"""The devices of this process's connections that are in voice: connected, gone, and after a loss of Redis."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple
from weakref import WeakValueDictionary

import structlog

from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.store import Store
from store.voice.voice_state import VoiceState, voice_state_from
from store.voice.voice_store import RememberedState, VoiceChange, VoiceConditions
from subscriptions.presence.connected_devices import ConnectedDevices
from subscriptions.realtime.bus import Bus
from subscriptions.voice.voice_changes import VoiceChanges

_log = structlog.get_logger()

_FRAME = "voice"

_AT_ONCE = 500

COMPARE_SECONDS = 10
"""Interval at which the states that this process remembers are compared with Redis."""

NOTE_MS = 3_600_000
"""Interval at which the workspaces of devices in voice are noted again. Redis forgets them after a day."""


class VoiceDevice(NamedTuple):
    """A device of a user."""

    user: UserId
    device: str


@dataclass(frozen=True, slots=True)
class JoinedVoice:
    """The voice state of a device, as this process remembers it. hash_id: shows whether Redis has lost it since."""

    workspace: WorkspaceId
    state: VoiceState
    hash_id: str


class VoiceDevices:
    """Remembers the voice states of the devices that are connected to this process.

    Redis learns which server has the connection of a device in voice, and when it had none. States that Redis loses are
    written again. What fails is repeated by `renew`.
    """

    def __init__(self, store: Store, changes: VoiceChanges, devices: ConnectedDevices, bus: Bus, server: str) -> None:
        """Listen to the devices that connect and depart, and to changes of states."""
        self._store = store
        self._changes = changes
        self._devices = devices
        self._server = server
        self._bus = bus
        changes.on_change(self._announce)
        bus.on_frame(_FRAME, self._receive)
        devices.on_connected(lambda user, device: self._connect(VoiceDevice(user, device)))
        devices.on_removed(lambda user, device, heard_ms: self._disconnect(VoiceDevice(user, device), heard_ms))
        self._joined: dict[VoiceDevice, JoinedVoice] = {}
        self._arriving: set[VoiceDevice] = set()
        """Connected devices of which it is not known whether they are in voice."""
        self._gone: dict[VoiceDevice, tuple[WorkspaceId, int]] = {}
        """Devices whose departure is not in Redis yet, with its time (ms)."""
        self._uncertain: dict[VoiceDevice, WorkspaceId] = {}
        """Devices that may have joined in a workspace, because the answer of Redis was lost."""
        self._turns: WeakValueDictionary[VoiceDevice, asyncio.Lock] = WeakValueDictionary()
        self._noted_ms = store.clock.now_ms()
        self._epoch = ""
        self._rounds = 0

    @property
    def server(self) -> str:
        """The id of this process among the servers."""
        return self._server

    @property
    def joined(self) -> int:
        """The number of devices of this process in voice."""
        return len(self._joined)

    @asynccontextmanager
    async def joining(self, device: VoiceDevice, workspace: WorkspaceId) -> AsyncIterator[None]:
        """Join with a device in the block: one call after the other. `renew` completes a join without an answer."""
        async with self._turns.setdefault(device, asyncio.Lock()):
            try:
                yield
            except (StoreError, asyncio.CancelledError):
                self._uncertain[device] = workspace
                raise
            self._uncertain.pop(device, None)

    def note_joined(self, device: VoiceDevice, joined: JoinedVoice) -> None:
        """Remember the state of a device that has joined."""
        self._joined[device] = joined
        self._gone.pop(device, None)
        if not self._devices.has_device(*device):
            self._disconnect(device, self._store.clock.now_ms())

    def note_left(self, device: VoiceDevice) -> None:
        """Forget the state of a device that has left."""
        self._joined.pop(device, None)

    async def find(self, device: VoiceDevice) -> JoinedVoice | None:
        """Return the state of a device that is connected to this process; None if it is not in voice.

        No round trip if it joined, or was found, here. Raises StoreError.
        """
        return self._joined.get(device) or await self.find_again(device)

    async def find_again(self, device: VoiceDevice) -> JoinedVoice | None:
        """Return the present state of a device that is connected to this process; None if it is not in voice.

        Raises StoreError.
        """
        (workspace,) = await self._store.voice.find_workspaces([device])
        if workspace is None:
            self._joined.pop(device, None)
            return None
        return await self._attach(device, workspace)

    async def end(self, device: VoiceDevice) -> None:
        """End the state of a device of any server, because its user has removed the device. Raises StoreError."""
        (workspace,) = await self._store.voice.find_workspaces([device])
        if workspace is not None:
            await self._changes.end(workspace, device.user, VoiceConditions(device=device.device))
        self.note_left(device)

    def _announce(self, change: VoiceChange) -> None:
        """Let the servers of the concerned devices remember a change: another server may have made it."""
        states = [state for state in (change.before, change.state) if state is not None]
        body = [
            change.hash_id,
            states[0].user,
            *(each.encode() if each else None for each in (change.before, change.state)),
        ]
        self._bus.send_frames(_FRAME, dict.fromkeys((state.server for state in states), body))

    def _receive(self, body: Sequence[str | None]) -> None:
        hash_id, user, *texts = body
        before, after = (voice_state_from(UserId(user or ""), text) if text is not None else None for text in texts[:2])
        if before is not None and (after is None or after.device != before.device):
            joined = self._joined.get(VoiceDevice(before.user, before.device))
            if joined is not None and joined.state.version <= before.version:
                self.note_left(VoiceDevice(before.user, before.device))
        if after is not None:
            joined = self._joined.get(VoiceDevice(after.user, after.device))
            if joined is not None and joined.state.version <= after.version:
                self._joined[VoiceDevice(after.user, after.device)] = JoinedVoice(
                    workspace_of_channel(after.channel), after, hash_id or ""
                )

    def _connect(self, device: VoiceDevice) -> None:
        """Note that a device with an id has connected. If it is in voice, it stays there: see `renew`."""
        self._gone.pop(device, None)
        if device not in self._joined:
            self._arriving.add(device)

    def _disconnect(self, device: VoiceDevice, heard_ms: int) -> None:
        """Note that the last connection of a device here has ended. heard_ms: when it was last heard from."""
        self._arriving.discard(device)
        joined = self._joined.pop(device, None)
        if joined is not None:
            self._gone[device] = joined.workspace, heard_ms

    async def renew(self) -> None:
        """Tell Redis what has changed, and compare what this process remembers. Called once a second.

        Raises StoreError: it is repeated.
        """
        await self._note_gone()
        await self._complete_joins()
        await self._find_arriving()
        epoch = self._store.deployment.redis_epoch
        self._rounds += 1
        if epoch != self._epoch or self._rounds >= COMPARE_SECONDS:
            await self._compare()
            self._epoch, self._rounds = epoch, 0

    async def close(self) -> None:
        """Note that all devices of this process are gone. Best effort."""
        now = self._store.clock.now_ms()
        for device in tuple(self._joined):
            self._disconnect(device, now)
        try:
            await self._note_gone()
        except StoreError as error:
            _log.warning("voice_departures_not_noted", devices=len(self._gone), reason=str(error))

    async def _note_gone(self) -> None:
        for batch in _batches(self._gone):
            await asyncio.gather(*(self._note_departure(device) for device in batch))

    async def _note_departure(self, device: VoiceDevice) -> None:
        departure = self._gone.get(device)
        if departure is not None:
            workspace, heard_ms = departure
            await self._store.voice.note_gone(workspace, *device, self._server, heard_ms)
            if self._gone.get(device) == departure:
                del self._gone[device]

    async def _complete_joins(self) -> None:
        for device, workspace in tuple(self._uncertain.items()):
            async with self._turns.setdefault(device, asyncio.Lock()):
                if self._uncertain.get(device) != workspace:
                    continue
                hash_id, state = await self._store.voice.attach(workspace, *device, self._server)
                if state is not None:
                    self.note_joined(device, JoinedVoice(workspace, state, hash_id))
                    await self._changes.complete_join(workspace, *device)
                del self._uncertain[device]

    async def _find_arriving(self) -> None:
        for batch in _batches(self._arriving):
            workspaces = await self._store.voice.find_workspaces(batch)
            found = [
                self._attach(device, workspace)
                for device, workspace in zip(batch, workspaces, strict=True)
                if workspace is not None and device not in self._joined
            ]
            await asyncio.gather(*found)
            self._arriving.difference_update(batch)

    async def _attach(self, device: VoiceDevice, workspace: WorkspaceId) -> JoinedVoice | None:
        hash_id, state = await self._store.voice.attach(workspace, *device, self._server)
        if state is None:
            self._joined.pop(device, None)
            return None
        joined = JoinedVoice(workspace, state, hash_id)
        self.note_joined(device, joined)
        return joined

    async def _compare(self) -> None:
        remembered: dict[WorkspaceId, list[VoiceDevice]] = defaultdict(list)
        for device, joined in self._joined.items():
            remembered[joined.workspace].append(device)
        now = self._store.clock.now_ms()
        is_due = now - self._noted_ms >= NOTE_MS
        for workspace, devices in remembered.items():
            for batch in _batches(devices):
                await self._compare_some(workspace, batch, is_noted=is_due)
        if is_due:
            self._noted_ms = now

    async def _compare_some(self, workspace: WorkspaceId, devices: Sequence[VoiceDevice], *, is_noted: bool) -> None:
        before = {device: self._joined[device] for device in devices if device in self._joined}
        restored = await self._store.voice.restore(
            workspace, [RememberedState(each.state, each.hash_id) for each in before.values()]
        )
        self._changes.publish_restored(workspace, restored.changes)
        if restored.changes or is_noted:
            await self._store.voice.note_devices(workspace, before)
        for device, known in before.items():
            if self._joined.get(device) is not known:
                # It has joined or left meanwhile.
                continue
            state = restored.present.get(device.user)
            if state is None or state.device != device.device:
                del self._joined[device]
                continue
            self._joined[device] = JoinedVoice(workspace, state, restored.hash_id)
            if state.gone_at_ms or state.server != self._server:
                # The connection that another server had has ended, or that server has.
                await self._attach(device, workspace)


def _batches(devices: Iterable[VoiceDevice]) -> Iterator[list[VoiceDevice]]:
    """Yield the present devices in lists that one round trip can serve."""
    left = iter(list(devices))
    while batch := list(islice(left, _AT_ONCE)):
        yield batch
