"""Changes of voice states, with their events. A change of rights changes the states that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.channel_rights import ChannelRights
from store.store import Store
from store.voice.voice_rights import FLAGS_OF_RIGHTS, flags_of_rights, may_be_in_voice
from store.voice.voice_state import VoiceState
from store.voice.voice_store import VoiceChange, VoiceConditions, VoiceOutcome, VoiceReading
from subscriptions.realtime.events.voice import VoiceStateChanged
from subscriptions.realtime.shared.shared_events import SharedEvents

_ATTEMPTS = 3
"""Times that states are judged again because they have changed meanwhile. The next check judges what is left."""

Listener = Callable[[VoiceChange], None]
"""Takes a change that this process has made. It must not block."""


class VoiceChanges:
    """Changes voice states. A change and the tick of its event are one step in Redis."""

    def __init__(self, store: Store, events: SharedEvents) -> None:
        self._store = store
        self._events = events
        self._listeners: list[Listener] = []

    def on_change(self, listen: Listener) -> None:
        """Call `listen` with each change that this process makes, after it."""
        self._listeners.append(listen)

    async def join(self, state: VoiceState, flags: int, *, version: int, limit: int) -> VoiceOutcome:
        """Let a user join a channel with a device, and leave where the user or the device was before.

        See `VoiceStore.join`. Raises StoreError.
        """
        workspace = workspace_of_channel(state.channel)
        outcome = await self._store.voice.join(workspace, state, flags, version=version, limit=limit)
        if isinstance(outcome, VoiceChange):
            self._publish(workspace, outcome)
            await self.complete_join(workspace, state.user, state.device)
        return outcome

    async def complete_join(self, workspace: WorkspaceId, user: UserId, device: str) -> None:
        """End the state in another workspace of a device that has joined in this one. Raises StoreError."""
        earlier = await self._store.voice.note_device(workspace, user, device)
        while earlier is not None:
            # A device is in one voice channel.
            await self.end(earlier, user, VoiceConditions(device=device))
            earlier = await self._store.voice.note_device(workspace, user, device, earlier)

    async def change(
        self,
        workspace: WorkspaceId,
        user: UserId,
        conditions: VoiceConditions,
        *,
        set_flags: int = 0,
        clear_flags: int = 0,
        move_to: ConversationId | None = None,
        limit: int = 0,
    ) -> VoiceOutcome:
        """Change flags of a state, or its channel. See `VoiceStore.change`. Raises StoreError."""
        outcome = await self._store.voice.change(
            workspace,
            user,
            conditions,
            set_flags=set_flags,
            clear_flags=clear_flags,
            move_to=move_to,
            limit=limit,
        )
        return self._published(workspace, outcome)

    async def end(self, workspace: WorkspaceId, user: UserId, conditions: VoiceConditions) -> VoiceOutcome:
        """End a state. Raises StoreError."""
        return self._published(workspace, await self._store.voice.end(workspace, user, conditions))

    async def end_many(self, workspace: WorkspaceId, states: Iterable[VoiceState]) -> None:
        """End those states that are still exactly as given. Raises StoreError."""
        for change in await self._store.voice.end_many(workspace, list(states)):
            self._publish(workspace, change)

    def publish_restored(self, workspace: WorkspaceId, changes: Iterable[VoiceChange]) -> None:
        """Send the events of states that were written again."""
        for change in changes:
            self._publish(workspace, change)

    async def judge(self, workspace: WorkspaceId, at_least: int) -> None:
        """End states whose users may no longer be there, and give the others the flags that follow from their rights.

        One round trip if nobody is in voice. at_least: the policy version to judge under. Raises StoreError.
        """
        for _ in range(_ATTEMPTS):
            reading = await self._store.voice.read(workspace)
            if not reading.states or await self._judge(workspace, reading, at_least):
                return

    async def _judge(self, workspace: WorkspaceId, reading: VoiceReading, at_least: int) -> bool:
        """Judge states once. Returns False if some have changed meanwhile."""
        policy = await self._store.policies.find(workspace, at_least)
        if policy is None:
            outcomes = [await self.end(workspace, each.user, VoiceConditions(state=each)) for each in reading.states]
            return all(isinstance(outcome, VoiceChange) for outcome in outcomes)
        rights = await self._find_rights(policy.version, reading.states)
        is_complete = True
        for state in reading.states:
            own = rights.get(state.user)
            outcome: VoiceOutcome | None = None
            conditions = VoiceConditions(state=state)
            if own is None or not may_be_in_voice(own):
                outcome = await self.end(workspace, state.user, conditions)
            elif flags_of_rights(own) != state.flags_of_rights:
                flags = flags_of_rights(own)
                outcome = await self.change(
                    workspace, state.user, conditions, set_flags=flags, clear_flags=FLAGS_OF_RIGHTS & ~flags
                )
            is_complete &= outcome is None or isinstance(outcome, VoiceChange)
        if is_complete:
            await self._store.voice.note_judged(workspace, policy.version)
        return is_complete

    async def _find_rights(self, version: int, states: Iterable[VoiceState]) -> Mapping[UserId, ChannelRights]:
        users: dict[ConversationId, list[UserId]] = {}
        for state in states:
            users.setdefault(state.channel, []).append(state.user)
        rights: dict[UserId, ChannelRights] = {}
        for channel, inside in users.items():
            rights |= await self._store.channel_rights.find_viewers(channel, inside, version)
        return rights

    def _published(self, workspace: WorkspaceId, outcome: VoiceOutcome) -> VoiceOutcome:
        if isinstance(outcome, VoiceChange):
            self._publish(workspace, outcome)
        return outcome

    def _publish(self, workspace: WorkspaceId, change: VoiceChange) -> None:
        state = change.state or change.before
        if change.appended.tick and state is not None:
            before = change.before
            has_moved = change.state is not None and before is not None and before.channel != state.channel
            event = VoiceStateChanged(workspace, state, before if has_moved else None, left=change.state is None)
            self._events.publish(event, change.appended)
        for listen in self._listeners:
            listen(change)
