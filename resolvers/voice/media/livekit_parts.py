"""The parts of a process that talk to LiveKit, connected."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from resolvers.voice.media.livekit import LiveKit
from resolvers.voice.media.livekit_api import LiveKitApi
from resolvers.voice.media.livekit_tokens import LiveKitTokens
from resolvers.voice.media.owned_states import OwnedVoiceStates
from resolvers.voice.media.participant_calls import ParticipantCalls
from resolvers.voice.media.reconciler import Reconciler
from resolvers.voice.media.room_hints import RoomHints
from resolvers.voice.media.rooms import Identities, RoomNames
from store.base.clock import Clock
from store.store import Store
from subscriptions.realtime.ring.server_ring import ServerRing
from subscriptions.realtime.server_calls import ServerCalls
from subscriptions.voice.voice_changes import VoiceChanges


class LiveKitOptions(NamedTuple):
    """Addresses and key of a LiveKit server. url: for clients; api_url: of the server API."""

    url: str
    api_url: str
    api_key: str
    secret: str


class LiveKitParts:
    """A LiveKit server as the media server of this process. It may be away at any time, also at the start."""

    def __init__(
        self, options: LiveKitOptions, store: Store, changes: VoiceChanges, ring: ServerRing, calls: ServerCalls
    ) -> None:
        """Follow the changes of voice states that this process makes. Calls nobody before `open`."""
        self.tokens = LiveKitTokens(options.api_key, options.secret, store.clock)
        self.names = RoomNames(lambda: store.deployment.name)
        self.identities = Identities(options.secret)
        self.api = LiveKitApi(options.api_url, self.tokens)
        self.calls = ParticipantCalls(self.api, self.note_room)
        self.server = LiveKit(options.url, self.tokens, self.names, self.identities, self.calls, store.clock)
        self._new_states = partial(OwnedVoiceStates, store, changes, ring)
        self.reconciler = self.build_reconciler(store.clock)
        self._hints = RoomHints(ring, calls, self.reconciler.note_hint)
        changes.on_change(self.server.follow)

    def build_reconciler(self, clock: Clock) -> Reconciler:
        """Return what compares rooms with voice states, at the times of a clock."""
        return Reconciler(self.api, self.names, self.identities, self.calls, self._new_states(clock), clock)

    def note_room(self, room: str) -> None:
        """Have the owner of a room look at it soon; rooms of others are ignored. Returns at once."""
        channel = self.names.channel_of(room)
        if channel is not None:
            self._hints.send(channel)

    def open(self) -> None:
        """Begin to compare rooms with voice states."""
        self.reconciler.open()

    async def close(self) -> None:
        """Stop. Calls that wait are made, for up to two seconds."""
        await self.reconciler.close()
        await self._hints.close()
        await self.calls.close()
        await self.api.close()
