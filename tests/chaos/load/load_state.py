"""Knowledge that the devices of a run share: groups, and the messages that were acknowledged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx

from store.base.ids import parse_private
from tests.chaos.faults.servers import FaultyServers
from tests.chaos.judges.history import History, Json
from tests.chaos.tally import RunTally

INBOX = "b_@threads"
"""The gateway of followed threads."""


def is_of_threads(conversation: str) -> bool:
    """Return whether a conversation is a thread, or the inbox of threads. Views and mirrors leave them out."""
    return conversation.startswith("t_") or conversation == INBOX


def without_threads(sessions: Iterable[Json]) -> list[Json]:
    """Return the sessions that are not of threads."""
    return [session for session in sessions if not is_of_threads(session["conversation"]["id"])]


@dataclass
class GroupState:
    """A group, as far as the devices know it."""

    owner: str
    members: set[str]


@dataclass(frozen=True, slots=True)
class SentMessage:
    """An acknowledged message. Times in seconds since the epoch, of the first try and of the answer."""

    id: str
    conversation: str
    seq: int
    sender: str
    began: float
    answered: float


@dataclass
class LoadState:
    """The state of one run."""

    tally: RunTally
    servers: FaultyServers
    http: httpx.AsyncClient
    users: list[str]
    history: History = field(default_factory=History)
    patience: float = 60.0
    """Seconds until a device gives up a request."""
    reach: float = 1.0
    """The share of its duration in a long run that a disturbance of a device has."""
    changes_rights: bool = True
    """False: nobody loses what they can see."""
    groups: dict[str, GroupState] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    """Groups with FULL history."""
    sent: dict[str, SentMessage] = field(default_factory=dict)
    """Acknowledged messages by their texts, each of which is used once."""
    tried: set[str] = field(default_factory=set)
    """Texts that were sent, answered or not."""
    recalled: set[str] = field(default_factory=set)
    edited: set[str] = field(default_factory=set)
    skew: float = 0.0
    """Seconds by which the servers' clocks differ."""
    last_mute_end: float = 0.0
    """The end of the last mute that ends by itself soon, in seconds since the epoch."""
    received: defaultdict[str, defaultdict[str, set[int]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """For each user and group, the seqs that any of their devices received; 0 for an event without a message."""
    _texts: int = 0

    def text(self, sender: str) -> str:
        """Return a text that no other message has."""
        self._texts += 1
        return f"{sender} says {self._texts}"

    def note_received(self, user: str, event: Json) -> None:
        """Note that a device received a message, with the message it replies to, a receipt, or typing."""
        message = event.get("message")
        name = (message or event).get("conversationId")
        if name is None or name.startswith(("c_", "t_")):
            # Rights in channels are judged by judges/channel_rights.py, threads by features/feature_check.py.
            return
        if not name.startswith("g_"):
            if user not in (parse_private(name) or ()):
                self.tally.problem(f"{user} received an event of a conversation of others: {event}")
            return
        received = self.received[user][name]
        if message is None:
            received.add(0)
        elif event["__typename"] == "MessageCreated" or name not in self.full:
            received.add(message["seq"])
        if message is not None and message["replyTo"] is not None and name not in self.full:
            received.add(message["replyTo"]["seq"])

    def check_membership(self, intervals: dict[str, list[tuple[int, int]]]) -> None:
        """Check that no user received anything outside their membership intervals.

        Args:
            intervals: First and last seq of each interval, by `conversation user`; -1 for an open end.
        """
        for user, groups in self.received.items():
            for group, seqs in groups.items():
                own = intervals.get(f"{group} {user}", [])
                beyond = [s for s in seqs if s and not any(a <= s and (b == -1 or s <= b) for a, b in own)]
                if beyond or not own:
                    self.tally.problem(f"{user} received {sorted(beyond)[:20]} of {group}, and was a member in {own}")

    def check_stored(self, rows: Iterable[Json]) -> None:
        """Check that MongoDB's messages show every acknowledged edit and recall, and nothing that no device sent."""
        by_id = {f"m_{row['_id']}": row for row in rows}
        for row in by_id.values():
            # The text of a message that was refused because of its key is not stored.
            if row["k"] != "S" and "t" in row and row.get("ik", row["t"]) not in self.tried and "e" not in row:
                self.tally.problem(f"stored, though no device sent it: {row}")
        for id in self.recalled:
            if "rc" not in by_id.get(id, {}):
                self.tally.problem(f"the recall was acknowledged and is not stored: {id}")
        for id in self.edited:
            if not by_id.get(id, {}).get("e"):
                self.tally.problem(f"the edit was acknowledged and is not stored: {id}")
