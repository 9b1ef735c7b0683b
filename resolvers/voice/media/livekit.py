"""LiveKit as the media server of voice channels (ADR 83)."""

from __future__ import annotations

from resolvers.voice.media.livekit_tokens import LiveKitTokens
from resolvers.voice.media.media_server import MediaAccess
from resolvers.voice.media.participant_calls import ParticipantCalls, Removal
from resolvers.voice.media.rooms import Identities, MediaPermission, RoomNames
from store.base.clock import Clock
from store.voice.voice_state import VoiceState
from store.voice.voice_store import VoiceChange


class LiveKit:
    """Signs tokens for rooms, and follows the changes of voice states. An implementation of `MediaServer`."""

    def __init__(
        self,
        url: str,
        tokens: LiveKitTokens,
        names: RoomNames,
        identities: Identities,
        calls: ParticipantCalls,
        clock: Clock,
    ) -> None:
        """url: where clients connect."""
        self._url = url
        self._tokens = tokens
        self._names = names
        self._identities = identities
        self._calls = calls
        self._clock = clock

    def access(self, state: VoiceState) -> MediaAccess:
        """Return a token for joining the room of the state's channel, valid for 10 minutes. No round trip."""
        room, identity = self._participant(state)
        self._calls.withdraw_removal(room, identity)
        token, expires_at_ms = self._tokens.sign_join(room, identity, state.user, MediaPermission.of_state(state))
        return MediaAccess(self._url, token, expires_at_ms)

    def follow(self, change: VoiceChange) -> None:
        """Take a change of a voice state that this process has made. Returns at once."""
        before, state = change.before, change.state
        if before is None:
            return
        if state is None or self._participant(before) != self._participant(state):
            self._calls.put(*self._participant(before), Removal(self._clock.now_ms()))
        elif MediaPermission.of_state(before) != MediaPermission.of_state(state):
            self._calls.put(*self._participant(state), MediaPermission.of_state(state))

    def _participant(self, state: VoiceState) -> tuple[str, str]:
        return self._names.name_of(state.channel), self._identities.identity_of(state.user, state.device)
