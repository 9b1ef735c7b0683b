"""What one device shows: its copy of the user's sessions and of the messages in them, built from events.

It asks the server only as a careful frontend does: for one session where events can't tell it (somebody new wrote, a place was
passed over, two subscriptions overtook each other), for the history of what it opens, for everything after a reset. The view
says what is to be asked; the device asks, and hands over the answers. Each of them carries the `generation` it was asked in: what
was asked before the device began anew doesn't count after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.chaos.history import Json
from tests.chaos.wire import Tally

_RECEIPTS = ("readSeq", "deliveredSeq", "peerReadSeq", "peerDeliveredSeq")
_CLOCKS = ("id", "activeTs", "conversation", "lastMessage")
_OPENED = 6
"""Conversations whose history is read anew after a reset: what the person looks at, and a few more."""
_MOST_HELD = 160
_KEPT = 100


class Text(NamedTuple):
    """A message as it is shown."""

    id: str
    content: str | None
    state: str
    edits: int

    @property
    def age(self) -> tuple[bool, int]:
        """Greater for what the message became later."""
        return self.state == "RECALLED", self.edits


def text_of(message: Json) -> Text:
    return Text(message["id"], message["content"], message["state"], message["editCount"])


class View:
    """One device's."""

    def __init__(self, user: str, tally: Tally, full: set[str], generation: int) -> None:
        """full: the groups whose members read what was said while they weren't, kept up by others."""
        self.user = user
        self.sessions: dict[str, Json] = {}
        self.messages: defaultdict[str, dict[int, Text]] = defaultdict(dict)
        self.floors: dict[str, int] = {}
        """From which seq on every readable message of a conversation is held."""
        self.generation = generation
        self.snapshot_due = True
        self.doubts: set[str] = set()
        """Sessions to be asked for."""
        self.histories: set[str] = set()
        """Conversations whose newest messages are to be read."""
        self._waiting: defaultdict[str, list[Json]] = defaultdict(list)
        self._marks: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._served: dict[str, tuple[int, int]] = {}
        self._unconfirmed: set[str] = set()
        self._in_parts = False
        self._tally = tally
        self._full = full

    @property
    def has_questions(self) -> bool:
        return bool(self.snapshot_due or self.doubts or self.histories)

    def describe_questions(self, fresh: dict[str, Json]) -> str:
        """What it would ask, beside what a fresh client is shown."""
        if self.snapshot_due:
            return "a snapshot"
        names = sorted(self.doubts | self.histories | self._waiting.keys())[:5]
        waiting = {name: [message["seq"] for message in self._waiting.get(name, ())] for name in names}
        return "; ".join(f"{n} held {self.sessions.get(n)}, waiting {waiting[n]}, fresh {fresh.get(n)}" for n in names)

    @property
    def total_unread(self) -> int:
        shown = self.sessions.values()
        return sum(s["unreadCount"] for s in shown if s["status"] == "ACTIVE" and not s["muteStatus"])

    def begin_anew(self) -> None:
        """Nothing held counts any more. What is shown stays until the snapshot is there."""
        self.generation += 1
        self.snapshot_due = True
        self.sessions = {name: s for name, s in self.sessions.items() if s["status"] == "ACTIVE"}
        for held in (self.messages, self.floors, self.doubts, self.histories, self._waiting):
            held.clear()

    def take_snapshot(self, sessions: list[Json]) -> None:
        """All valid sessions. What isn't among them is asked for, and the newest histories are read."""
        named = {session["conversation"]["id"]: session for session in sessions}
        newest = sorted(named, key=lambda name: -named[name]["activeTs"])
        for name, session in named.items():
            self.floors[name] = session["writeSeq"] + 1
            self.take(session)
            self._drop_below_floor(name)
        self._ask_for(self.sessions.keys() - named.keys(), "not in the snapshot")
        self.histories.update(newest[:_OPENED])
        self.snapshot_due = False

    def take(self, session: Json) -> None:
        """A session as the server showed it."""
        name = session["conversation"]["id"]
        known = self.sessions.get(name)
        if known is None:
            if name not in self.floors:
                self.histories.add(name)
        elif session["activeTs"] < known["activeTs"]:
            return
        elif session["writeSeq"] < known["writeSeq"]:
            if session["writeSeq"] < self._served.get(name, (0, 0))[0] and session["activeTs"] > self._served[name][1]:
                self._tally.problem(
                    f"{self.user}: {name} was served {self._served[name]}, and now {session}, known {known}"
                )
            self._ask_for([name], "a session behind its messages")
            return
        self._served[name] = session["writeSeq"], session["activeTs"]
        # Receipts and revisions may have been told before the session that they are to be seen in.
        last = self._latest(name, session["lastMessage"], known["lastMessage"] if known else None)
        self.sessions[name] = session | self._grown(name, session) | {"lastMessage": last}
        for message in self._waiting.pop(name, ()):
            self._count(message)

    def take_history(self, name: str, newest: list[Json], *, more_before: bool) -> None:
        """The newest messages of a conversation."""
        self.floors[name] = newest[0]["seq"] if newest and more_before else 0
        self._drop_below_floor(name)
        for message in newest:
            self._hold(name, message)

    # --- events

    def hear_sync(self, event: Json) -> None:
        """Of syncSession."""
        catching_up = event["reason"] == "CATCH_UP"
        if catching_up and event["reset"] and not self._in_parts:
            self._unconfirmed = {name for name, s in self.sessions.items() if s["status"] == "ACTIVE"}
        self._in_parts = event["hasMore"]
        for session in event["sessions"]:
            name = session["conversation"]["id"]
            self._unconfirmed.discard(name)
            self.take(session)
            if event["reason"] == "MEMBERSHIP" and session["status"] == "ACTIVE":
                self.histories.add(name)
        if catching_up and not event["hasMore"]:
            self._ask_for(self._unconfirmed, "not told after a reset")
            self._unconfirmed = set()

    def resubscribed(self) -> None:
        """What comes first is a first part."""
        self._in_parts = False

    def hear_created(self, message: Json) -> None:
        name, seq = message["conversationId"], int(message["seq"])
        newest = max(self.messages[name], default=self.floors.get(name, seq) - 1)
        if name in self._full and seq > newest + 1:
            # Whoever came back to such a group reads what they were never told.
            self.histories.add(name)
        self._hold(name, message)
        self._count(message)

    def hear_revised(self, message: Json) -> None:
        self._hold(message["conversationId"], message)
        session = self.sessions.get(message["conversationId"])
        last = session["lastMessage"] if session else None
        if session and last and last["id"] == message["id"]:
            session["lastMessage"] = self._latest(message["conversationId"], last, message)

    def hear_receipt(self, event: Json) -> None:
        name = event["conversationId"]
        fields = ["deliveredSeq", "readSeq"] if event["status"] == "READ" else ["deliveredSeq"]
        if event["user"]["id"] != self.user:
            fields = ["peer" + field[0].upper() + field[1:] for field in fields]
        self._mark(name, fields, event["seq"])

    def _mark(self, name: str, fields: Iterable[str], seq: int) -> None:
        marks, session = self._marks[name], self.sessions.get(name)
        for field in fields:
            marks[field] = max(marks.get(field, 0), seq)
        if session is not None:
            session |= self._grown(name, session)

    def _grown(self, name: str, session: Json) -> Json:
        """How far the session's people are, by itself and by the receipts that were told."""
        marks, known = self._marks.get(name, {}), self.sessions.get(name, {})
        return {
            field: max(session[field], marks.get(field, 0), known.get(field) or 0)
            for field in _RECEIPTS
            if session[field] is not None
        }

    # --- counting

    def _count(self, message: Json) -> None:
        name, seq = message["conversationId"], message["seq"]
        session = self.sessions.get(name)
        own, counts = message["sender"]["id"] == self.user, message["contentType"] != "SYSTEM"
        mentioned = not own and (message["mentionsAll"] or {"id": self.user} in message["mentions"])
        if not own and counts and name.startswith("p_"):
            # Whoever wrote it has read it.
            self._mark(name, ("peerReadSeq", "peerDeliveredSeq"), seq)
        new = session is None or (session["status"] == "INVALID" and seq > session["writeSeq"])
        if session is None or new or seq > session["writeSeq"] + 1:
            self._waiting[name].append(message)
            self._ask_for([name], "somebody new" if new else "a place was passed over")
        elif seq <= session["writeSeq"]:
            # Counted already, by others that overtook it; not what it says of this user.
            if ((own and counts) or mentioned) and seq > session["readSeq"]:
                self._ask_for([name], "one's own or a mention, overtaken")
        else:
            session["writeSeq"] = seq
            session["lastMessage"] = self._latest(name, message)
            if own and counts:
                session |= {"unreadCount": 0, "unreadMentionCount": 0, "unreadStatus": False}
                session["readSeq"] = session["deliveredSeq"] = seq
            elif counts and seq > session["readSeq"]:
                session["unreadCount"] += 1
                session["unreadMentionCount"] += mentioned

    def _ask_for(self, names: Iterable[str], why: str) -> None:
        for name in names:
            self._tally.notes[f"asked for a session: {why}"] += name not in self.doubts
            self.doubts.add(name)

    # --- messages

    def _latest(self, name: str, told: Json | None, *others: Json | None) -> Json | None:
        """A session's newest message, as it became by all that is known of it."""
        if told is None:
            return None
        texts = [text_of(message) for message in (told, *others) if message is not None and message["id"] == told["id"]]
        held = self.messages[name].get(told["seq"])
        if held is not None and held.id == told["id"]:
            texts.append(held)
        latest = max(texts, key=lambda text: text.age)
        names = {"content": latest.content, "state": latest.state, "editCount": latest.edits}
        return {"id": told["id"], "seq": told["seq"]} | names

    def _hold(self, name: str, message: Json) -> None:
        seq, text = message["seq"], text_of(message)
        if seq < self.floors.get(name, 0):
            return
        held = self.messages[name]
        if seq not in held or held[seq].age < text.age:
            held[seq] = text
        if len(held) > _MOST_HELD and name in self.floors:
            self.floors[name] = sorted(held)[-_KEPT]
            self._drop_below_floor(name)

    def _drop_below_floor(self, name: str) -> None:
        held, floor = self.messages[name], self.floors[name]
        for seq in [seq for seq in held if seq < floor]:
            del held[seq]

    # --- the end

    def differences(self, fresh: dict[str, Json], total: int, former: set[str]) -> list[str]:
        """Where the sessions are not those of a fresh client, which asked without a cursor. former: groups that the user is no member
        of any more, who are told of no edits and recalls there."""
        mine = {name: s for name, s in self.sessions.items() if s["status"] == "ACTIVE"}
        wrong = [f"{name} {'is not valid' if name in mine else 'is not shown'}" for name in mine.keys() ^ fresh.keys()]
        for name in mine.keys() & fresh.keys():
            held, shown = _comparable(mine[name]), _comparable(fresh[name])
            if name in former and held["last"] and shown["last"] and held["last"][:2] == shown["last"][:2]:
                held["last"] = shown["last"]
            different = {field: (held[field], shown[field]) for field in shown if held[field] != shown[field]}
            if different:
                wrong.append(f"{name} {different}")
        if not wrong and self.total_unread != total:
            wrong.append(f"totalUnread {self.total_unread}, is {total}")
        return wrong

    def wrong_messages(self, name: str, history: dict[int, Text] | None, since: float) -> list[str]:
        """Where the messages of a conversation are not those of its whole history. since: the seq from which on the user has
        been a member ever since; of what is before it, revisions were not told while they weren't."""
        held = self.messages.get(name, {})
        if history is None:
            return [f"{name}: holds {len(held)} messages of what it can't read"] if held else []
        floor = self.floors.get(name)
        readable = {seq: text for seq, text in history.items() if floor is None or seq >= floor}
        seqs = (held.keys() ^ readable.keys()) if floor is not None else held.keys() - readable.keys()
        wrong = [f"{name} {seq} (from {floor}): held {held.get(seq)}, is {readable.get(seq)}" for seq in sorted(seqs)]
        for seq in sorted(held.keys() & readable.keys()):
            late = seq < since and held[seq].age < readable[seq].age
            if held[seq] != readable[seq] and not late:
                wrong.append(f"{name} {seq}: held {held[seq]}, is {readable[seq]}, member since {since}")
        return wrong


def _comparable(session: Json) -> Json:
    last = session["lastMessage"]
    return {name: value for name, value in session.items() if name not in _CLOCKS} | {
        "last": (last["seq"], *text_of(last)) if last else None
    }
