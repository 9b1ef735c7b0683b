"""A user's state in a voice channel (ADR 83)."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.ids import ConversationId, UserId


@dataclass(frozen=True, slots=True)
class VoiceState:
    """Shows that a user is in a voice channel, with one device.

    Attributes:
        user: The user.
        channel: The voice channel.
        device: The device that is in it.
        server: The server with the device's connection, or the last one that had it.
        joined_at_ms: When the user joined the channel.
        self_mute: The user has switched the microphone off.
        self_deaf: The user has switched the sound off.
        video: The user shows a camera.
        screen: The user shows a screen.
        muted: A moderator has muted the user.
        deafened: A moderator has deafened the user.
        is_silenced: The user has no right to speak in the channel.
        may_show: The user has the right to show a camera or a screen in the channel.
        gone_at_ms: When the device was last heard from, if it is not connected; 0 while it is.
        version: The tick of the newest change that others see.
    """

    user: UserId
    channel: ConversationId
    device: str
    server: str
    joined_at_ms: int
    self_mute: bool = False
    self_deaf: bool = False
    video: bool = False
    screen: bool = False
    muted: bool = False
    deafened: bool = False
    is_silenced: bool = False
    may_show: bool = False
    gone_at_ms: int = 0
    version: int = 0

    @property
    def mute(self) -> bool:
        """True if others cannot hear the user, by a moderator or for lack of the right to speak."""
        return self.muted or self.is_silenced
