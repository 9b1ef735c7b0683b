"""The voice states of the channels that this server owns on the ring of servers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from store.base.clock import Clock
from store.base.ids import ConversationId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.store import Store
from store.voice.voice_state import VoiceState
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.voice.voice_changes import VoiceChanges

RESTORED_MS = 30_000
"""Time after a loss of Redis in which servers write their voice states again."""


def ring_key(workspace: WorkspaceId) -> str:
    """Return the key on the ring by which a server owns the rooms of a workspace."""
    return f"voice {workspace}"


class OwnedVoiceStates:
    """Reads voice states, and ends them. Calls raise StoreError, also while the Redis fallback is used."""

    def __init__(self, store: Store, changes: VoiceChanges, ring: ServerRing, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._changes = changes
        self._ring = ring
        self._epoch = ""
        self._certain_from_ms = 0

    def is_certain(self) -> bool:
        """Return whether Redis has all states: not for some time after its loss."""
        epoch, now = self._store.deployment.redis_epoch, self._clock.now_ms()
        if epoch != self._epoch:
            if self._epoch:
                self._certain_from_ms = now + RESTORED_MS
            self._epoch = epoch
        return bool(epoch) and now >= self._certain_from_ms

    def owns(self, channel: ConversationId) -> bool:
        """Return whether this server owns the workspace of a channel."""
        return self._owns(workspace_of_channel(channel))

    async def list_channels(self) -> Collection[ConversationId]:
        """Return the owned channels with voice states. One round trip; a second one if there are some."""
        every: list[ConversationId] = []
        owned: dict[WorkspaceId, Collection[ConversationId]] = {}
        for workspace in await self._store.voice.list_checked():
            if self._owns(workspace):
                owned[workspace] = every
        readings = await self._store.voice.read_many(owned) if owned else []
        return {state.channel for reading in readings for state in reading.states}

    async def read(self, channels: Collection[ConversationId]) -> Mapping[ConversationId, Sequence[VoiceState]]:
        """Return the voice states of each channel. One round trip."""
        # The Redis fallback has none.
        self._store.cache.require_shared()
        by_workspace: dict[WorkspaceId, list[ConversationId]] = {}
        for channel in channels:
            by_workspace.setdefault(workspace_of_channel(channel), []).append(channel)
        states: dict[ConversationId, list[VoiceState]] = {channel: [] for channel in channels}
        for reading in await self._store.voice.read_many(by_workspace):
            for state in reading.states:
                states[state.channel].append(state)
        return states

    async def end(self, state: VoiceState) -> None:
        """End a state, unless it has changed since it was read."""
        await self._changes.end_many(workspace_of_channel(state.channel), [state])

    def _owns(self, workspace: WorkspaceId) -> bool:
        return self._ring.owner_of(ring_key(workspace)) == self._ring.server
