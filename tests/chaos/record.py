"""A history, made ready for being judged: every try with its answer, every message that anybody was shown, every session likewise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from tests.chaos.history import Json


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that should not be. kind: in a word; text: enough to find it in the history."""

    kind: str
    text: str


@dataclass(slots=True)
class Try:
    """One request. `answered` is infinite, and `code` "lost", where no answer came."""

    id: int
    who: str
    user: str
    op: str
    vars: Json
    invoked: float
    answered: float = inf
    code: str = "lost"
    value: Json | list[Json] | None = None

    @property
    def done(self) -> bool:
        """Whether it was answered, and well."""
        return self.code == "ok"


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as somebody was shown it. asked: when they asked, -inf for what came by itself: it was on its way for a while."""

    user: str
    how: str
    asked: float
    at: float
    conversation: str
    message: Json


@dataclass(frozen=True, slots=True)
class Seen:
    """A session as its user was shown it, or what a message says of it: then only some fields are there. asked: as in Shown."""

    user: str
    how: str
    asked: float
    at: float
    conversation: str
    fields: Json


@dataclass
class Record:
    """A run."""

    tries: list[Try] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    losses: list[tuple[float, str]] = field(default_factory=list)
    """When Redis lost all of a user, or "all"."""
    fresh: dict[str, Json] = field(default_factory=dict)
    stored: dict[str, Json] = field(default_factory=dict)
    """MongoDB's messages by the ids that clients know."""
    intervals: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    full: set[str] = field(default_factory=set)
    """Groups with FULL history."""

    @classmethod
    def of(cls, lines: Iterable[Json]) -> Record:
        """Of the lines of a history."""
        record = cls()
        by_id: dict[int, Try] = {}
        for line in lines:
            match line["what"]:
                case "invoke":
                    tried = Try(line["id"], line["who"], line["user"], line["op"], line["vars"], line["t"])
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
                case "fresh":
                    record._take_fresh(line)
                case "stored":
                    record.stored = {row["id"]: row for row in line["messages"]}
                    record.intervals = {
                        name: [(first, inf if last == -1 else last) for first, last in stretches]
                        for name, stretches in line["intervals"].items()
                    }
        return record

    def sends(self) -> Iterator[Try]:
        """Every try to send."""
        return (tried for tried in self.tries if tried.op == "sendMessage")

    def attempts(self) -> dict[tuple[str, str], list[Try]]:
        """The tries of each message, by who sent it and its text, which no other message has."""
        found: defaultdict[tuple[str, str], list[Try]] = defaultdict(list)
        for tried in self.sends():
            found[tried.user, tried.vars["input"]["content"]].append(tried)
        return dict(found)

    def lost_between(self, began: float, ended: float, user: str) -> bool:
        """Whether Redis lost what it held of a user."""
        return any(began <= at <= ended and whose in ("all", user) for at, whose in self.losses)

    def readable(self, user: str, conversation: str, seq: int) -> bool:
        """Whether a place lies in the user's membership. Everybody named in a private conversation is in it for good."""
        if conversation.startswith("p_"):
            return user in conversation[2:].split("~")[0].split("_")
        return any(a <= seq <= b for a, b in self.intervals.get(f"{conversation} {user}", ()))

    def _take_answer(self, tried: Try) -> None:
        value = tried.value
        if value is None or not tried.done:
            return
        asked, at = tried.invoked, tried.answered
        if tried.op == "createGroup" and tried.vars["input"].get("historyVisibility") == "FULL":
            assert isinstance(value, dict)
            self.full.add(value["id"])
        if tried.op == "sendMessage":
            assert isinstance(value, dict)
            message = value["message"]
            self._show(tried.user, "its answer", asked, at, message["conversationId"], message)
            own = {"readSeq": message["seq"], "deliveredSeq": message["seq"], "writeSeq": message["seq"]}
            self._see(tried.user, f"sendMessage of {message['id']}", -inf, at, message["conversationId"], own)
            value = value.get("session")
        if tried.op == "messages":
            assert isinstance(value, dict)
            for edge in value["edges"]:
                self._show(tried.user, f"try {tried.id}", asked, at, tried.vars["id"], edge["node"])
        for session in _sessions_in(value):
            self._see(tried.user, f"{tried.op}, try {tried.id}", asked, at, session["conversation"]["id"], session)

    def _take_event(self, line: Json) -> None:
        event, user, at = line["event"], line["user"], line["t"]
        if message := event.get("message"):
            conversation = message["conversationId"]
            self._show(user, f"{event['__typename']} to {line['who']}", -inf, at, conversation, message)
            if event["__typename"] == "MessageCreated" and line["live"]:
                self._see(user, f"told of {message['id']}", -inf, at, conversation, {"writeSeq": message["seq"]})
        for session in event.get("sessions", ()):
            how = f"syncSession {event['reason']} to {line['who']}"
            self._see(user, how, -inf, at, session["conversation"]["id"], session)

    def _take_fresh(self, line: Json) -> None:
        self.fresh[line["user"]] = line
        for conversation, messages in line["histories"].items():
            for message in messages or ():
                self._show(line["user"], "in the end", line["t"], line["t"], conversation, message)

    def _show(self, user: str, how: str, asked: float, at: float, conversation: str, message: Json) -> None:
        self.shown.append(Shown(user, how, asked, at, conversation, message))

    def _see(self, user: str, how: str, asked: float, at: float, conversation: str, fields: Json) -> None:
        self.seen.append(Seen(user, how, asked, at, conversation, fields))


def _sessions_in(value: Json | list[Json] | None) -> Iterator[Json]:
    """The sessions of an answer, whole ones only."""
    if isinstance(value, dict) and "sessions" in value:
        value = value["sessions"]
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict) and "writeSeq" in one:
            yield one
