"""What the torture's devices know together, and what was acknowledged to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx

from store.base.ids import parse_private
from tests.chaos.fleet import Fleet
from tests.chaos.history import History, Json
from tests.chaos.wire import Tally


@dataclass
class Room:
    """A group, as far as those know who act in it."""

    owner: str
    members: set[str]


@dataclass(frozen=True, slots=True)
class Sent:
    """An acknowledged message. Times in seconds since the epoch, of the first try and of the answer."""

    id: str
    conversation: str
    seq: int
    sender: str
    began: float
    answered: float


@dataclass
class World:
    """One run's."""

    tally: Tally
    fleet: Fleet
    http: httpx.AsyncClient
    users: list[str]
    history: History = field(default_factory=History)
    patience: float = 60.0
    """Seconds for which a device asks until it gives up."""
    reach: float = 1.0
    """What a device suffers lasts for this part of the time that it lasts in a long run."""
    rooms: dict[str, Room] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    """Groups with FULL history."""
    sent: dict[str, Sent] = field(default_factory=dict)
    """By their texts, each of which is used once."""
    tried: set[str] = field(default_factory=set)
    """Texts that were sent, answered or not."""
    recalled: set[str] = field(default_factory=set)
    edited: set[str] = field(default_factory=set)
    skew: float = 0.0
    """By how many seconds servers' clocks differ."""
    last_until: float = 0.0
    """When the last of the mutes ends that end by themselves soon."""
    told: defaultdict[str, defaultdict[str, set[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """For each user and group, the seqs of which any of their devices was told; 0 where it wasn't a message."""
    _texts: int = 0

    def text(self, sender: str) -> str:
        """One that no other message has."""
        self._texts += 1
        return f"{sender} says {self._texts}"

    def was_told(self, user: str, event: Json) -> None:
        """A device was told of a message, with what that replies to, of a receipt, or of typing."""
        message = event.get("message")
        name = (message or event).get("conversationId")
        if name is None:
            return
        if not name.startswith("g_"):
            if user not in (parse_private(name) or ()):
                self.tally.problem(f"{user} is told of another conversation: {event}")
            return
        told = self.told[user][name]
        if message is None:
            told.add(0)
        elif event["__typename"] == "MessageCreated" or name not in self.full:
            told.add(message["seq"])
        if message is not None and message["replyTo"] is not None and name not in self.full:
            told.add(message["replyTo"]["seq"])

    def check_membership(self, intervals: dict[str, list[tuple[int, int]]]) -> None:
        """Nobody was told of what lies outside their memberships, given by `conversation user` with -1 for no end."""
        for user, groups in self.told.items():
            for group, seqs in groups.items():
                stretches = intervals.get(f"{group} {user}", [])
                beyond = [s for s in seqs if s and not any(a <= s and (b == -1 or s <= b) for a, b in stretches)]
                if beyond or not stretches:
                    self.tally.problem(f"{user} was told of {group} {sorted(beyond)[:20]}, member in {stretches}")

    def check_stored(self, rows: Iterable[Json]) -> None:
        """What was acknowledged is stored as it became, and nobody's message was made up. Rows: MongoDB's messages."""
        by_id = {f"m_{row['_id']}": row for row in rows}
        for row in by_id.values():
            if row["k"] != "S" and row.get("ik", row["t"]) not in self.tried and "e" not in row:
                self.tally.problem(f"stored, and nobody sent it: {row}")
        for id in self.recalled:
            if "rc" not in by_id.get(id, {}):
                self.tally.problem(f"recalled, and not stored so: {id}")
        for id in self.edited:
            if not by_id.get(id, {}).get("e"):
                self.tally.problem(f"edited, and not stored so: {id}")
