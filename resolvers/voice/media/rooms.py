"""Names of rooms and participants, and permissions of participants, as LiveKit has them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from store.base.ids import ConversationId, ConversationKind, UserId, encode_user, kind_of
from store.voice.voice_state import VoiceState

_LONGEST_IDENTITY = 200
"""LiveKit accepts identities of up to 256 bytes."""

_MICROPHONE = ("microphone",)
_PICTURES = ("camera", "screen_share", "screen_share_audio")


class RoomNames:
    """Names of rooms: one for each voice channel, with the name of the deployment.

    So deployments that share a LiveKit server have different rooms.
    """

    def __init__(self, deployment_name: Callable[[], str]) -> None:
        """deployment_name: returns the name, which is empty until the databases have answered."""
        self._deployment_name = deployment_name

    @property
    def _prefix(self) -> str:
        return f"confab-{self._deployment_name()}-"

    def name_of(self, channel: ConversationId) -> str:
        """Return the room of a channel."""
        return f"{self._prefix}{channel}"

    def channel_of(self, room: str) -> ConversationId | None:
        """Return the channel of a room; None if the room is not one of this deployment."""
        channel = room.removeprefix(self._prefix)
        if not self._deployment_name() or channel == room or kind_of(channel) is not ConversationKind.CHANNEL:
            return None
        return ConversationId(channel)


class Identities:
    """Names participants: the user, and a code for the device, because other participants read the name.

    Each device of a user has a name of its own, the same in all processes.
    """

    def __init__(self, key: str) -> None:
        """key: without it, nobody can find out a device from its code."""
        self._key = key.encode()

    def identity_of(self, user: UserId, device: str) -> str:
        """Return the identity of a user's device. User ids that are too long for LiveKit are replaced by a code."""
        name = encode_user(user)
        if len(name) > _LONGEST_IDENTITY:
            name = f"~{self._code(user)}"
        return f"{name}:{self._code(user, device)}"

    def _code(self, *parts: str) -> str:
        return hmac.new(self._key, "\0".join(parts).encode(), hashlib.sha256).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class MediaPermission:
    """Permissions of a participant. Nobody may send data: messages go through Confab."""

    can_speak: bool
    can_show: bool
    can_hear: bool

    @classmethod
    def of_state(cls, state: VoiceState) -> MediaPermission:
        """Return what the participant of a voice state may do.

        Muting and deafening oneself is done by the client, so that undoing it takes no round trip.
        """
        return cls(can_speak=not state.mute, can_show=state.may_show, can_hear=not state.deafened)

    @property
    def _sources(self) -> list[str]:
        return [*(_MICROPHONE if self.can_speak else ()), *(_PICTURES if self.can_show else ())]

    def to_grant(self) -> dict[str, Any]:
        """Return the part of a token's video grant. LiveKit reads an empty list of sources as all sources."""
        sources = self._sources
        grant = {"canPublish": bool(sources), "canPublishData": False, "canSubscribe": self.can_hear}
        return grant | ({"canPublishSources": sources} if sources else {})

    def to_message(self) -> dict[str, Any]:
        """Return LiveKit's message ParticipantPermission. It replaces all permissions of a participant."""
        return {
            "can_publish": bool(self._sources),
            "can_publish_sources": [source.upper() for source in self._sources],
            "can_publish_data": False,
            "can_subscribe": self.can_hear,
        }

    def matches(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message ParticipantPermission allows exactly this."""
        sources = set(read(message, "can_publish_sources") or ())
        return (
            bool(read(message, "can_publish")) == bool(self._sources)
            and sources == {source.upper() for source in self._sources}
            and bool(read(message, "can_subscribe")) == self.can_hear
            and not read(message, "can_publish_data")
            and not read(message, "can_update_metadata")
        )


def read(message: Mapping[str, Any], field: str) -> Any:
    """Return a field of a message of LiveKit, whose names are in snake_case or in camelCase; None if it is missing."""
    if field in message:
        return message[field]
    first, *rest = field.split("_")
    return message.get(first + "".join(part.capitalize() for part in rest))
