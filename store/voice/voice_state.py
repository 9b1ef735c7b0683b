"""A user's state in a voice channel, and its text in Redis and in logs of events (ADR 83)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from store.base.ids import ConversationId, UserId
from store.clocks.clock_constants import IDLE_MS

_FLAGS: Final = {
    "self_mute": 1,
    "self_deaf": 2,
    "video": 4,
    "screen": 8,
    "muted": 16,
    "deafened": 32,
    "is_silenced": 64,
    "may_show": 128,
}
"""The bit of each flag. They are stored in logs, and read by servers of other versions: they never change."""

MOST_LEFT = 1_000
"""Last states of users who have left a voice channel that are kept for a workspace."""

VOICE_OBJECT_PREFIX = "voice "
"""Prefix of the voice states in the list of objects that have changed: then channel, a space, and user."""


@dataclass(frozen=True, slots=True)
class VoiceState:
    """Shows that a user is in a voice channel, with one device.

    Attributes:
        user: The user.
        channel: The voice channel.
        device: The device that is in it.
        server: The server with the device's connection, or the last one that had it.
        joined_at_ms: When the user joined the channel with this device. No two states of a user have the same.
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
        unknown_flags: Bits of flags that only later versions know, kept unchanged.
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
    unknown_flags: int = 0

    @property
    def mute(self) -> bool:
        """True if others cannot hear the user, by a moderator or for lack of the right to speak."""
        return self.muted or self.is_silenced

    @property
    def flags_of_rights(self) -> int:
        """The bits of the flags that follow from rights."""
        return flags(is_silenced=self.is_silenced, may_show=self.may_show)

    def encode(self) -> str:
        """Return the text of the state, without its user."""
        bits = flags(**{name: getattr(self, name) for name in _FLAGS}) | self.unknown_flags
        numbers = f"{self.version} {self.joined_at_ms} {self.gone_at_ms} {bits}"
        return f"{self.channel} {numbers} {self.server} {self.device}"


def flags(**given: bool | None) -> int:
    """Return the bits of those flags that are true."""
    return sum(_FLAGS[name] for name, is_set in given.items() if is_set)


def voice_state_from(user: UserId, text: str) -> VoiceState:
    """Return the state in a text."""
    channel, version, joined, gone, bits, server, device = text.split(" ", 6)
    return VoiceState(
        user,
        ConversationId(channel),
        device,
        server,
        int(joined),
        gone_at_ms=int(gone),
        version=int(version),
        unknown_flags=int(bits) & ~sum(_FLAGS.values()),
        **{name: bool(int(bits) & bit) for name, bit in _FLAGS.items()},
    )


def voice_literals() -> dict[str, str]:
    """Return the Lua literals that the scripts on voice states use."""
    pictures, may_show = flags(video=True, screen=True), flags(may_show=True)
    everything = sum(_FLAGS.values())
    return {
        "VOICE_PICTURES": str(pictures),
        "VOICE_MODERATED": str(flags(muted=True, deafened=True)),
        "VOICE_MAY_SHOW": str(may_show),
        "VOICE_SHOWN": str(everything - may_show),
        "VOICE_MOST_LEFT": str(MOST_LEFT),
        "VOICE_OBJECT": f"'{VOICE_OBJECT_PREFIX}'",
        "CLOCK_IDLE_MS": str(IDLE_MS),
    }
