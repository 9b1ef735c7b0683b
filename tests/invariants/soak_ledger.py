"""What the soak's devices were answered, held against what may never happen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from tests.invariants.soak_client import Json, Tally

FORWARD = ("writeSeq", "readSeq", "deliveredSeq", "activeTs", "writeTs")
SETTINGS = ("unreadStatus", "muteStatus", "mutedUntil", "priority", "categoryId")
_SHOWN = (*FORWARD, *SETTINGS, "unreadCount", "status", "subBiz", "peerReadSeq", "peerDeliveredSeq")


@dataclass
class Memory:
    """What one device has been shown so far."""

    name: str
    tick: int = 0
    """The newest activeTs that one of its own changes was answered with."""
    shown: dict[str, Json] = field(default_factory=dict)


@dataclass
class Ledger:
    """Everything that was acknowledged."""

    tally: Tally
    newest: dict[tuple[str, str], Json] = field(default_factory=dict)
    """The answer with the greatest activeTs, for each user and conversation."""
    doubtful: set[tuple[str, str]] = field(default_factory=set)
    """Sessions with a change whose outcome the device was not told."""
    sent: dict[str, Json] = field(default_factory=dict)
    """Acknowledged messages by their texts, each of which is used once."""
    unanswered: set[str] = field(default_factory=set)
    lasting: bool = True
    """Whether the cache is never lost: a position on a user's clock then stands for one state of the session."""
    _at: dict[tuple[str, str, int], tuple[object, ...]] = field(default_factory=dict)
    _read: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def shown(self, memory: Memory | None, user: str, session: Json, *, changed: bool = False) -> None:
        """A device was answered a session. changed: its own request is certain to have changed it.

        memory: None where the device had asked several things at once, and can't tell which was first.
        """
        conversation = session["conversation"]["id"]
        key = (user, conversation)
        if memory is not None:
            before = memory.shown.get(conversation)
            if before is not None:
                for name in FORWARD:
                    # A gateway's is the newest of those inside that are left.
                    if session[name] < before[name] and not (name == "writeTs" and conversation.startswith("b_")):
                        self.tally.problem(
                            f"{memory.name}: {name} of {conversation} went back, {before[name]} to {session[name]}"
                        )
            memory.shown[conversation] = session
            if changed:
                if session["activeTs"] <= memory.tick:
                    self.tally.problem(
                        f"{memory.name}: a change of {conversation} at {session['activeTs']}, after {memory.tick}"
                    )
                memory.tick = max(memory.tick, session["activeTs"])
        if key not in self.newest or session["activeTs"] >= self.newest[key]["activeTs"]:
            self.newest[key] = session
        self._read[key] = max(self._read[key], session["readSeq"])
        if self.lasting:
            self._same(key, session)

    def _same(self, key: tuple[str, str], session: Json) -> None:
        print_ = tuple(session[name] for name in _SHOWN)
        known = self._at.setdefault((*key, session["activeTs"]), print_)
        if known != print_:
            different = [
                f"{name} {was} {now}" for name, was, now in zip(_SHOWN, known, print_, strict=True) if was != now
            ]
            self.tally.problem(f"{key} at {session['activeTs']} was answered in two ways: {', '.join(different)}")

    def message(self, text: str, conversation: str, message: Json) -> None:
        """A message was acknowledged."""
        known = self.sent.setdefault(text, message)
        if (known["id"], known["seq"]) != (message["id"], message["seq"]) or message["conversationId"] != conversation:
            self.tally.problem(f"{text} was answered as {known} and as {message}")

    def check_final(self, final: dict[str, dict[str, Json]], now_ms: int) -> None:
        """The last change of each session is what it shows in the end; nothing acknowledged as read is unread again."""
        for (user, conversation), session in self.newest.items():
            shown = final[user].get(conversation)
            if shown is None:
                self.tally.problem(f"{user} has no session {conversation} any more")
                continue
            if shown["readSeq"] < self._read[user, conversation]:
                self.tally.problem(f"{user} {conversation}: read to {self._read[user, conversation]}, shows {shown}")
            if shown["activeTs"] < session["activeTs"]:
                self.tally.problem(f"{user} {conversation}: activeTs {session['activeTs']} went to {shown['activeTs']}")
            if (user, conversation) in self.doubtful:
                continue
            wanted = {name: session[name] for name in SETTINGS}
            if wanted["mutedUntil"] is not None and ms_of(wanted["mutedUntil"]) <= now_ms:
                wanted |= {"muteStatus": False, "mutedUntil": None}
            different = {name: (value, shown[name]) for name, value in wanted.items() if shown[name] != value}
            if different:
                self.tally.problem(f"{user} {conversation}: last answered, now shown: {different}")


def ms_of(text: str) -> int:
    """A DateTime of the API in ms since the epoch."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
