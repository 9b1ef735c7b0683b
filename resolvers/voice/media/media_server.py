"""The interface of a media server. Voice states never depend on it: they are right without one (ADR 83)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from store.voice.voice_state import VoiceState

TOKEN_SECONDS = 600
"""Time for which a token is valid for joining. Participants stay in the room after it."""


class MediaAccess(NamedTuple):
    """Data with which a client joins a room. expires_at_ms: the token is valid for joining until then."""

    url: str
    token: str
    expires_at_ms: int


class MediaServer(Protocol):
    """Carries sound and pictures of voice channels: one room per channel, one participant per state.

    A participant is named by the user and the device of the state.
    """

    def access(self, state: VoiceState) -> MediaAccess:
        """Return a signed token for the room of the state's channel. No round trip.

        The participant may publish sound unless the state is mute, show a camera or a screen if `may_show`, and receive
        unless it is deafened.
        """
        ...
