"""A history in the form that the judges need: tries with answers, and every message and session that was shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from store.base.ids import parse_private, parse_thread
from tests.chaos.judges.history import Json

CACHE_FAULTS = frozenset({"lose keys in Redis", "lose a user in Redis", "flush Redis"})
"""Faults that leave servers and databases at work."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen: its kind in a word, and a text that helps to find it in the history."""

    kind: str
    text: str


@dataclass(slots=True)
class Try:
    """One request. Without an answer `answered` is infinite and `code` is "lost"."""

    id: int
    device: str
    user: str
    operation: str
    variables: Json
    invoked: float
    answered: float = inf
    code: str = "lost"
    value: Json | list[Json] | None = None

    @property
    def succeeded(self) -> bool:
        return self.code == "ok"


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message as a client was shown it.

    `asked` is the time of the request; -inf for an event, which may have been under way for a while.
    """

    user: str
    source: str
    asked: float
    at: float
    conversation: str
    message: Json


@dataclass(frozen=True, slots=True)
class SeenSession:
    """A session as its user was shown it, or the fields of it that a message implies. `asked`: as in SeenMessage."""

    user: str
    source: str
    asked: float
    at: float
    conversation: str
    fields: Json


@dataclass(frozen=True, slots=True)
class SeenChannel:
    """A channel as its creator made it."""

    id: str
    is_private: bool


@dataclass
class Record:
    """One run."""

    tries: list[Try] = field(default_factory=list)
    messages: list[SeenMessage] = field(default_factory=list)
    sessions: list[SeenSession] = field(default_factory=list)
    losses: list[tuple[float, str]] = field(default_factory=list)
    """The moments when Redis lost data: of one user, or "all"."""
    disturbed: bool = False
    """True if there was any fault besides the loss of cached data."""
    fresh: dict[str, Json] = field(default_factory=dict)
    stored: dict[str, Json] = field(default_factory=dict)
    """MongoDB's messages by the ids that clients know."""
    intervals: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    """Groups with FULL history."""
    channels: dict[str, SeenChannel] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Json]) -> Record:
        """Build the record of a history's lines."""
        record = cls()
        by_id: dict[int, Try] = {}
        for line in lines:
            match line["what"]:
                case "invoke":
                    tried = Try(
                        line["id"], line["device"], line["user"], line["operation"], line["variables"], line["t"]
                    )
                    by_id[tried.id] = tried
                    record.tries.append(tried)
                case "answer":
                    tried = by_id[line["id"]]
                    tried.code, tried.value = line["code"], line["value"]
                    if tried.code != "lost":
                        tried.answered = line["t"]
                    record._take_answer(tried)
                case "event":
                    record._take_event(line)
                case "fault" if "lost" in line:
                    record.losses.append((line["t"], line["lost"]))
                case "fault":
                    record.disturbed = record.disturbed or line["name"] not in CACHE_FAULTS
                case "fresh":
                    record._take_fresh(line)
                case "stored":
                    record.stored = {row["id"]: row for row in line["messages"]}
                    record.intervals = {
                        name: [(first, inf if last == -1 else last) for first, last in intervals]
                        for name, intervals in line["intervals"].items()
                    }
        return record

    def sends(self) -> Iterator[Try]:
        """Iterate over every try to send."""
        return (tried for tried in self.tries if tried.operation == "sendMessage")

    def attempts(self) -> dict[tuple[str, str], list[Try]]:
        """Return the tries of each message, by its sender and its text, which no other message has."""
        found: defaultdict[tuple[str, str], list[Try]] = defaultdict(list)
        for tried in self.sends():
            found[tried.user, tried.variables["input"]["content"]].append(tried)
        return dict(found)

    def readable(self, user: str, conversation: str, seq: int) -> bool:
        """Return whether a seq lies in the user's membership. Private conversations and PUBLIC channels have no end."""
        place = parse_thread(conversation)
        if place is not None:
            # People who may read a part of a thread are not judged, only those who may read nothing of it.
            return self._ever_inside(user, place.parent)
        people = parse_private(conversation)
        if people is not None:
            return user in people[:2]
        if conversation in self.channels and not self.channels[conversation].is_private:
            # Users who can see the channel can read all of it. Rights are judged by channel_rights.py.
            return True
        return any(a <= seq <= b for a, b in self.intervals.get(f"{conversation} {user}", ()))

    def _ever_inside(self, user: str, conversation: str) -> bool:
        people = parse_private(conversation)
        if people is not None:
            return user in people[:2]
        return conversation in self.channels or f"{conversation} {user}" in self.intervals

    def _take_answer(self, tried: Try) -> None:
        value = tried.value
        if value is None or not tried.succeeded:
            return
        asked, at = tried.invoked, tried.answered
        if tried.operation == "createGroup" and tried.variables["input"].get("historyVisibility") == "FULL":
            assert isinstance(value, dict)
            self.full.add(value["id"])
        if tried.operation == "createChannel":
            assert isinstance(value, dict)
            is_private = tried.variables["input"].get("kind") == "PRIVATE"
            self.channels[value["id"]] = SeenChannel(value["id"], is_private)
        if tried.operation == "sendMessage":
            assert isinstance(value, dict)
            message = value["message"]
            self._see_message(tried.user, "the answer to the send", asked, at, message["conversationId"], message)
            own = {"readSeq": message["seq"], "deliveredSeq": message["seq"], "writeSeq": message["seq"]}
            self._see_session(tried.user, f"sendMessage of {message['id']}", -inf, at, message["conversationId"], own)
            value = value.get("session")
        if tried.operation == "messages":
            assert isinstance(value, dict)
            for edge in value["edges"]:
                self._see_message(tried.user, f"try {tried.id}", asked, at, tried.variables["id"], edge["node"])
        for session in _without_hidden_threads(sessions_in(value)):
            source = f"{tried.operation}, try {tried.id}"
            self._see_session(tried.user, source, asked, at, session["conversation"]["id"], session)

    def _take_event(self, line: Json) -> None:
        event, user, at = line["event"], line["user"], line["t"]
        if message := event.get("message"):
            conversation = message["conversationId"]
            self._see_message(user, f"{event['__typename']} to {line['device']}", -inf, at, conversation, message)
            if event["__typename"] == "MessageCreated" and line["live"]:
                seen = {"writeSeq": message["seq"]}
                self._see_session(user, f"the event of {message['id']}", -inf, at, conversation, seen)
        for session in _without_hidden_threads(event.get("sessions", ())):
            source = f"syncSession {event['reason']} to {line['device']}"
            self._see_session(user, source, -inf, at, session["conversation"]["id"], session)

    def _take_fresh(self, line: Json) -> None:
        self.fresh[line["user"]] = line
        for conversation, messages in line["histories"].items():
            for message in messages or ():
                self._see_message(line["user"], "at the end", line["t"], line["t"], conversation, message)

    def _see_message(self, *fields: object) -> None:
        self.messages.append(SeenMessage(*fields))  # type: ignore[arg-type]  # the fields of SeenMessage, in order

    def _see_session(self, *fields: object) -> None:
        self.sessions.append(SeenSession(*fields))  # type: ignore[arg-type]  # the fields of SeenSession, in order


def _without_hidden_threads(sessions: Iterable[Json]) -> Iterator[Json]:
    """Leave out sessions of threads that their user does not follow, or cannot see: these have no positions."""
    return (s for s in sessions if s["status"] == "ACTIVE" or not s["conversation"]["id"].startswith("t_"))


def sessions_in(value: Json | list[Json] | None) -> Iterator[Json]:
    """Iterate over the whole sessions in an answer."""
    if isinstance(value, dict) and "sessions" in value:
        value = value["sessions"]
    elif isinstance(value, dict) and "edges" in value:
        value = [edge["node"] for edge in value["edges"]]
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict) and "writeSeq" in one:
            yield one
