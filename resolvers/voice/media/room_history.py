"""History of a room: what lists of its participants have shown, and what follows for its voice states (ADR 83)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from resolvers.voice.media.livekit_api import Participant
from resolvers.voice.media.media_server import TOKEN_SECONDS
from resolvers.voice.media.rooms import MediaPermission
from store.voice.voice_state import VoiceState

LOOK_MS = 15_000
"""Time between two looks at a room with voice states."""

ABSENT_MS = 28_000
"""Time for which a participant must be missing before its state ends. With the time between two looks it is less than
45 s."""

UNSEEN_MS = TOKEN_SECONDS * 1000
"""Time for which a participant may take to connect. After it, no token that a client has opens the room."""

STRANGER_MS = 5_000
"""Time for which a participant without a state stays."""


@dataclass(frozen=True, slots=True)
class RoomView:
    """One list of the participants of a room, which was read without an error. room_id: None if there is no room."""

    room_id: str | None
    participants: Collection[Participant] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """Differences between a room and its voice states.

    Attributes:
        ended: States whose participant has left the room.
        strangers: Identities of participants without a state.
        corrected: What participants may do who may do something else in the room.
        next_look_ms: When to look again; None if the room is empty and has no states.
    """

    ended: list[VoiceState]
    strangers: list[str]
    corrected: dict[str, MediaPermission]
    next_look_ms: int | None


@dataclass
class RoomHistory:
    """The participants that were seen in a room, and those that are missing.

    A state ends only if its participant was seen since the user joined, in this same room, and is then missing in each
    list for 28 s; or if it was not seen for 10 minutes. After an error, and after a restart of the media server, these
    times begin again: so an absence is always that of a participant, and never that of the media server.
    """

    began_at_ms: int
    """When this history, or the room, began again."""
    room_id: str | None = None
    was_occupied: bool = False
    seen: dict[str, int] = field(default_factory=dict)
    """By identity: the time of joining of the state whose participant was seen."""
    absent_since: dict[str, int] = field(default_factory=dict)
    stranger_since: dict[str, int] = field(default_factory=dict)

    def note_failure(self) -> None:
        """Note that a list could not be read: nobody counts as missing until the next one."""
        self.absent_since.clear()
        self.stranger_since.clear()

    def compare(self, view: RoomView, states: Mapping[str, VoiceState], now_ms: int) -> Findings:
        """Return the differences at present. states: those of the channel by identity, read after the view."""
        present = {participant.identity: participant for participant in view.participants}
        if self.was_occupied and view.room_id != self.room_id:
            # A room whose last participant leaves stays for a while, so this one was lost.
            self.began_at_ms = now_ms
            self.seen.clear()
            self.absent_since.clear()
        self.room_id, self.was_occupied = view.room_id, bool(present)
        ended, looks = [], [now_ms + LOOK_MS] if states or present else []
        self.seen = {identity: at for identity, at in self.seen.items() if identity in states}
        self.absent_since = {identity: at for identity, at in self.absent_since.items() if identity in states}
        for identity, state in states.items():
            if identity in present:
                self.seen[identity] = state.joined_at_ms
                self.absent_since.pop(identity, None)
                continue
            ends_at = self._end_of_absence(identity, state, now_ms)
            looks.append(max(ends_at, now_ms + 1))
            if ends_at <= now_ms:
                ended.append(state)
        strangers = self._find_strangers(present, states, now_ms)
        looks += [at + STRANGER_MS for at in self.stranger_since.values() if at + STRANGER_MS > now_ms]
        wanted = {identity: MediaPermission.of_state(states[identity]) for identity in present.keys() & states.keys()}
        corrected = {
            identity: permission
            for identity, permission in wanted.items()
            if not permission.matches(present[identity].permission)
        }
        return Findings(ended, strangers, corrected, min(looks, default=None))

    def _end_of_absence(self, identity: str, state: VoiceState, now_ms: int) -> int:
        """Return the time at which a state without a participant ends."""
        if self.seen.get(identity) == state.joined_at_ms:
            return self.absent_since.setdefault(identity, now_ms) + ABSENT_MS
        self.absent_since.pop(identity, None)
        return max(state.joined_at_ms, self.began_at_ms) + UNSEEN_MS

    def _find_strangers(
        self, present: Mapping[str, Participant], states: Mapping[str, VoiceState], now_ms: int
    ) -> list[str]:
        """Return participants that had no state for a while. Agents, recordings and other services need none."""
        without = [each.identity for each in present.values() if each.is_person and each.identity not in states]
        self.stranger_since = {identity: self.stranger_since.get(identity, now_ms) for identity in without}
        return [identity for identity, since in self.stranger_since.items() if now_ms - since >= STRANGER_MS]
