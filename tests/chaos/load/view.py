"""The copy that one device of the load keeps: its user's sessions, and the messages that it read or received.

The copy says what has to be asked, the device asks and hands over the answers. Each answer carries the `generation` in
which it was asked: after a reset the device ignores answers to earlier questions.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tests.chaos.tally import RunTally
from tests.naive_device import Json, NaiveDevice

_OPENED = 6
"""Conversations whose history is read after a reset: the one on the screen, and a few more."""
_MAX_MESSAGES = 160
_KEPT_MESSAGES = 100


class Text(NamedTuple):
    """A message as a device displays it."""

    id: str
    content: str | None
    state: str
    edits: int

    @property
    def age(self) -> tuple[bool, int]:
        """Greater for a later form of the message."""
        return self.state == "RECALLED", self.edits


def text_of(message: Json) -> Text:
    return Text(message["id"], message["content"], message["state"], message["editCount"])


class View(NaiveDevice):
    """One device's copy."""

    def __init__(self, user: str, tally: RunTally, full: set[str], generation: int) -> None:
        """Start empty.

        Args:
            user: Owner of the device.
            tally: Takes notes and problems.
            full: Groups with FULL history; the set is shared and grows.
            generation: Number of the reset that created this copy.
        """
        super().__init__(user)
        self.messages: defaultdict[str, dict[int, Text]] = defaultdict(dict)
        self.floors: dict[str, int] = {}
        """The seq from which on the copy holds every readable message of a conversation."""
        self.generation = generation
        self.snapshot_due = True
        self.histories: set[str] = set()
        """Conversations whose newest messages are to be read."""
        self._served: dict[str, tuple[int, int]] = {}
        self._tally = tally
        self._full = full

    # --- questions

    @property
    def has_questions(self) -> bool:
        return bool(self.snapshot_due or self.to_ask or self.histories)

    def describe_questions(self, fresh: dict[str, Json]) -> str:
        """Describe what the device still asks, with the sessions that a fresh client is shown."""
        if self.snapshot_due:
            return "a snapshot"
        names = sorted(self.to_ask | self.histories | self._waiting.keys())[:5]
        waiting = {name: [message["seq"] for message in self._waiting.get(name, ())] for name in names}
        return "; ".join(f"{n} held {self.sessions.get(n)}, waiting {waiting[n]}, fresh {fresh.get(n)}" for n in names)

    def note_question(self, reason: str) -> None:
        """Count the question by its reason."""
        self._tally.notes[f"asked for a session: {reason}"] += 1

    # --- sessions and histories

    def reset(self) -> None:
        """Forget everything but the valid sessions, which stay on the screen until the snapshot arrives."""
        self.generation += 1
        self.snapshot_due = True
        self.sessions = self.active_sessions
        for held in (self.messages, self.floors, self.to_ask, self.histories, self._waiting):
            held.clear()

    def take_snapshot(self, sessions: list[Json]) -> None:
        """Store all valid sessions; ask for known ones that are missing, and for the newest histories."""
        named = {session["conversation"]["id"]: session for session in sessions}
        newest = sorted(named, key=lambda name: -named[name]["activeTs"])
        for name, session in named.items():
            self.floors[name] = session["writeSeq"] + 1
            self.take(session)
            self._drop_below_floor(name)
        self.ask_for(self.sessions.keys() - named.keys(), "not in the snapshot")
        self.histories.update(name for name in newest[:_OPENED] if _has_messages(name))
        self.snapshot_due = False

    def take(self, session: Json) -> None:
        """Store a session; note a problem where the server returns an older state at a later time."""
        name = session["conversation"]["id"]
        if name not in self.sessions and name not in self.floors and _has_messages(name):
            self.histories.add(name)
        served = self._served.get(name, (0, 0))
        if session["writeSeq"] < served[0] and session["activeTs"] > served[1]:
            self._tally.problem(f"{self.user}: the server returned {name} at {served}, and later {session}")
        known = self.sessions.get(name)
        super().take(session)
        if self.sessions.get(name) is not known:
            self._served[name] = session["writeSeq"], session["activeTs"]

    def take_history(self, name: str, newest: list[Json], *, more_before: bool) -> None:
        """Store the newest messages of a conversation."""
        self.floors[name] = newest[0]["seq"] if newest and more_before else 0
        self._drop_below_floor(name)
        for message in newest:
            self._note_text(message)
            # The event of an edit may have come while the page was asked for.
            self._hold(name, message | (self._with_newest_text(message) or {}))

    # --- events

    def apply_sync(self, event: Json) -> None:
        """Apply one event of syncSession, and read the history of a conversation that the user joined."""
        super().apply_sync(event)
        if event["reason"] == "MEMBERSHIP":
            joined = (s["conversation"]["id"] for s in event["sessions"] if s["status"] == "ACTIVE")
            self.histories.update(name for name in joined if _has_messages(name))

    def apply_created(self, message: Json) -> None:
        """Apply a MessageCreated event."""
        name, seq = message["conversationId"], int(message["seq"])
        newest = max(self.messages[name], default=self.floors.get(name, seq) - 1)
        if name in self._full and seq > newest + 1:
            # A member who came back to a group with FULL history reads what no event contained.
            self.histories.add(name)
        self._hold(name, message)
        super().apply_created(message)

    def apply_revised(self, message: Json) -> None:
        """Apply a MessageUpdated or MessageRecalled event."""
        self._hold(message["conversationId"], message)
        super().apply_revised(message)

    # --- messages

    def _hold(self, name: str, message: Json) -> None:
        seq, text = message["seq"], text_of(message)
        if seq < self.floors.get(name, 0):
            return
        held = self.messages[name]
        if seq not in held or held[seq].age < text.age:
            held[seq] = text
        if len(held) > _MAX_MESSAGES and name in self.floors:
            self.floors[name] = sorted(held)[-_KEPT_MESSAGES]
            self._drop_below_floor(name)

    def _drop_below_floor(self, name: str) -> None:
        held, floor = self.messages[name], self.floors[name]
        for seq in [seq for seq in held if seq < floor]:
            del held[seq]

    def wrong_messages(self, name: str, history: dict[int, Text] | None, since: float) -> list[str]:
        """Compare the messages of a conversation with its whole history.

        Args:
            name: The conversation.
            history: All that the user may read of it; None if that is nothing.
            since: The seq since which the user has been a member without a break. Revisions of earlier messages did not
                reach the user while they were away.
        """
        held = self.messages.get(name, {})
        if history is None:
            return [f"{name}: holds {len(held)} messages that the user may not read"] if held else []
        floor = self.floors.get(name)
        readable = {seq: text for seq, text in history.items() if floor is None or seq >= floor}
        seqs = (held.keys() ^ readable.keys()) if floor is not None else held.keys() - readable.keys()
        wrong = [f"{name} {seq} (from {floor}): held {held.get(seq)}, is {readable.get(seq)}" for seq in sorted(seqs)]
        for seq in sorted(held.keys() & readable.keys()):
            late = seq < since and held[seq].age < readable[seq].age
            if held[seq] != readable[seq] and not late:
                wrong.append(f"{name} {seq}: held {held[seq]}, is {readable[seq]}, member since {since}")
        return wrong


def _has_messages(name: str) -> bool:
    return not name.startswith("b_")
