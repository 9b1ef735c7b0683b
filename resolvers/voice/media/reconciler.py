"""Compares the rooms of the media server with the voice states (ADR 83).

The owner of a workspace on the ring of servers does this for its channels: every 15 s for channels with voice states,
every minute for all rooms, and soon after a hint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from resolvers.voice.media.livekit_api import LiveKitApi, MediaServerError
from resolvers.voice.media.owned_states import OwnedVoiceStates
from resolvers.voice.media.participant_calls import ParticipantCalls, Removal
from resolvers.voice.media.room_history import RoomHistory, RoomView
from resolvers.voice.media.rooms import Identities, RoomNames
from store.base.clock import Clock
from store.base.errors import StoreError
from store.base.ids import ConversationId
from store.base.tasks import end_tasks
from store.voice.voice_state import VoiceState

_log = structlog.get_logger(__name__)

LEAST_MS = 1_000
"""Time between two looks at a room after hints."""

_STATES_MS = 5_000
"""Interval at which the channels with voice states are read."""

_ROOMS_MS = 60_000
"""Interval at which all rooms are read."""

_WAKE_SECONDS = 0.25
_RETRY_MS = 5_000
_NAMES_PER_CALL = 100


class Reconciler:
    """Looks at rooms, and removes what does not belong together."""

    def __init__(
        self,
        api: LiveKitApi,
        names: RoomNames,
        identities: Identities,
        calls: ParticipantCalls,
        states: OwnedVoiceStates,
        clock: Clock,
    ) -> None:
        self._api = api
        self._names = names
        self._identities = identities
        self._calls = calls
        self._states = states
        self._clock = clock
        self._histories: dict[ConversationId, RoomHistory] = {}
        self._due_ms: dict[ConversationId, int] = {}
        self._looked_ms: dict[ConversationId, int] = {}
        self._states_due_ms = 0
        self._rooms_due_ms = 0
        self._failing: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            await end_tasks([self._task])

    def note_hint(self, channel: ConversationId) -> None:
        """Look at the room of an owned channel as soon as possible, at most once a second."""
        if self._states.owns(channel):
            soon = self._looked_ms.get(channel, 0) + LEAST_MS
            self._due_ms[channel] = min(self._due_ms.get(channel, soon), soon)

    async def look(self) -> None:
        """Look at everything that is due. Errors of the media server and of the databases are logged."""
        if not self._states.is_certain():
            return
        await self._guard(self._find_channels)
        now = self._clock.now_ms()
        due = [channel for channel, at in self._due_ms.items() if at <= now]
        for start in range(0, len(due), _NAMES_PER_CALL):
            await self._look_at(due[start : start + _NAMES_PER_CALL])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_WAKE_SECONDS)
            try:
                await self.look()
            except Exception:
                _log.exception("voice_rooms_not_compared")

    async def _find_channels(self) -> None:
        now = self._clock.now_ms()
        found: list[ConversationId] = []
        if now >= self._states_due_ms:
            self._states_due_ms = now + _STATES_MS
            found += await self._states.list_channels()
        if now >= self._rooms_due_ms:
            self._rooms_due_ms = now + _ROOMS_MS
            channels = (self._names.channel_of(room.name) for room in await self._api.list_rooms())
            found += [channel for channel in channels if channel is not None and self._states.owns(channel)]
        for channel in found:
            self._due_ms.setdefault(channel, now)

    async def _look_at(self, channels: Sequence[ConversationId]) -> None:
        """Compare rooms: one call for their ids, one for each that exists, and one round trip for the voice states.

        A room that cannot be read, or whose states cannot, is tried again soon.
        """
        now = self._clock.now_ms()
        owned = [channel for channel in channels if self._states.owns(channel)]
        for channel in set(channels) - set(owned):
            self._forget(channel)
        for channel in owned:
            self._looked_ms[channel] = now
            self._due_ms[channel] = now + _RETRY_MS
        compared: set[ConversationId] = set()
        views: dict[ConversationId, RoomView] = {}

        async def read_rooms() -> None:
            await self._read_rooms(owned, views)

        async def compare() -> None:
            # After the rooms: a participant has got its token after the state was stored.
            states = await self._states.read(views)
            if self._states.is_certain():
                for channel, view in views.items():
                    compared.add(channel)
                    await self._compare(channel, view, states[channel], now)

        if owned:
            await self._guard(read_rooms)
        if views:
            await self._guard(compare)
        for channel in set(owned) - compared:
            if channel in self._histories:
                self._histories[channel].note_failure()

    async def _read_rooms(self, channels: Sequence[ConversationId], views: dict[ConversationId, RoomView]) -> None:
        """Add the views of rooms that can be read. Raises MediaServerError if some cannot."""
        names = {channel: self._names.name_of(channel) for channel in channels}
        ids = {room.name: room.id for room in await self._api.list_rooms(list(names.values()))}
        existing = [channel for channel in channels if names[channel] in ids]
        views.update({channel: RoomView(None) for channel in channels if names[channel] not in ids})
        calls = (self._api.list_participants(names[channel]) for channel in existing)
        failure: BaseException | None = None
        for channel, found in zip(existing, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if isinstance(found, BaseException):
                failure = found
            else:
                views[channel] = RoomView(ids[names[channel]], found)
        if failure is not None:
            raise failure

    async def _compare(
        self, channel: ConversationId, view: RoomView, states: Sequence[VoiceState], now_ms: int
    ) -> None:
        history = self._histories.setdefault(channel, RoomHistory(now_ms))
        by_identity = {self._identities.identity_of(state.user, state.device): state for state in states}
        findings = history.compare(view, by_identity, now_ms)
        room = self._names.name_of(channel)
        for identity in findings.strangers:
            _log.info("voice_participant_without_state_removed", channel=channel)
            self._calls.put(room, identity, Removal(self._clock.now_ms()))
        for identity, permission in findings.corrected.items():
            self._calls.put(room, identity, permission)
        if findings.next_look_ms is None:
            self._forget(channel)
        else:
            self._due_ms[channel] = findings.next_look_ms
        for state in findings.ended:
            _log.info("voice_state_without_participant_ended", channel=channel, user=state.user)
            await self._states.end(state)

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something that fails while the media server or a database is away.

        Of consecutive failures only the first is logged.
        """
        name = work.__name__
        try:
            await work()
        except (MediaServerError, StoreError) as error:
            if name not in self._failing:
                _log.warning("voice_rooms_not_read", reason=str(error))
            self._failing.add(name)
        else:
            self._failing.discard(name)

    def _forget(self, channel: ConversationId) -> None:
        for known in (self._histories, self._due_ms, self._looked_ms):
            known.pop(channel, None)
