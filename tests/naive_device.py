"""One device's copy of its user's sessions, kept as a frontend keeps it: a snapshot, then every event applied naively.

The copy does no input or output. Where events do not say enough, it puts the session's conversation into `to_ask`. Its
owner asks the server for that session and hands the answer to `take`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

Json = dict[str, Any]

GATEWAY_PREFIX = "b_"
RECEIPTS = ("readSeq", "deliveredSeq", "peerReadSeq", "peerDeliveredSeq")
CLOCKS = ("activeTs", "writeTs")
"""A device learns these two only when it asks: message events do not carry them."""

_REVISED = ("content", "state", "editCount")


def age(message: Json) -> tuple[bool, int]:
    """Return a key that grows with every edit and with the recall of a message."""
    return message["state"] == "RECALLED", message["editCount"]


def is_active(session: Json) -> bool:
    return bool(session["status"] == "ACTIVE")


def gateway_of(session: Json) -> str | None:
    """Return the id of the gateway above a session, or None in the main list."""
    sub_biz = session.get("subBiz")
    return f"{GATEWAY_PREFIX}{sub_biz}" if sub_biz else None


class NaiveDevice:
    """The sessions of one user on one device, valid and INVALID ones."""

    def __init__(self, user: str, *, asks_about_gaps: bool = True) -> None:
        """Start empty.

        Args:
            user: Owner of the device.
            asks_about_gaps: Whether the device asks for a session when a message skips a seq. If False, the message is
                counted as the next one, so that an event which never arrives shows as a wrong count.
        """
        self.user = user
        self.sessions: dict[str, Json] = {}
        self.to_ask: set[str] = set()
        self._asks_about_gaps = asks_about_gaps
        self._waiting: defaultdict[str, list[Json]] = defaultdict(list)
        self._receipts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._newest_texts: dict[str, Json] = {}
        self._asked_again: dict[str, int] = {}
        self._unconfirmed: set[str] = set()
        self._inside_catch_up = False

    # --- sessions

    def take(self, session: Json) -> None:
        """Store a session as the server returned it, unless the device knows a newer one."""
        name = session["conversation"]["id"]
        known = self.sessions.get(name)
        if known is not None:
            if session["activeTs"] < known["activeTs"]:
                return
            if session["writeSeq"] < known["writeSeq"]:
                # The message subscription is ahead of this one.
                self.ask_for([name], "a session behind its messages")
                return
            if _is_behind(session, known) and self._asked_again.get(name) != session["activeTs"]:
                # An event arrived while the server was preparing this answer.
                self._asked_again[name] = session["activeTs"]
                self.ask_for([name], "a session behind its events")
        # Receipts and revisions may arrive before the session that they change.
        last = self._with_newest_text(session["lastMessage"])
        self.sessions[name] = session | self._advanced(name, session) | {"lastMessage": last}
        gateway = gateway_of(session)
        if gateway and is_active(session) and not is_active(self.sessions.get(gateway, {"status": "INVALID"})):
            self.ask_for([gateway], "an unknown gateway")
        for message in self._waiting.pop(name, ()):
            self._count(message)

    def take_all(self, sessions: Iterable[Json]) -> None:
        """Replace everything by a snapshot."""
        self.sessions.clear()
        for session in sessions:
            self.take(session)
        self.to_ask.clear()

    def ask_for(self, names: Iterable[str], reason: str) -> None:
        """Note sessions that the owner has to ask for."""
        for name in names:
            if name not in self.to_ask:
                self.to_ask.add(name)
                self.note_question(reason)

    def note_question(self, reason: str) -> None:
        """Called once for each new question; subclasses count the reasons."""

    # --- events of syncSession

    def resubscribed_to_sessions(self) -> None:
        """Expect the first part of a catch-up next."""
        self._inside_catch_up = False

    def apply_sync(self, event: Json) -> None:
        """Apply one event of syncSession."""
        catching_up = event["reason"] == "CATCH_UP"
        if catching_up and event["reset"] and not self._inside_catch_up:
            self._unconfirmed = {name for name, session in self.sessions.items() if is_active(session)}
        self._inside_catch_up = event["hasMore"]
        for session in event["sessions"]:
            name = session["conversation"]["id"]
            self._unconfirmed.discard(name)
            if name.startswith(GATEWAY_PREFIX) and not is_active(session):
                # The message subscription may already have revived a session inside it.
                self.ask_for([name], "an invalid gateway")
            else:
                self.take(session)
        if catching_up and not event["hasMore"]:
            self.ask_for(self._unconfirmed, "not among the sessions after a reset")
            self._unconfirmed = set()

    # --- events of messageEvents

    def apply_created(self, message: Json) -> None:
        """Apply a MessageCreated event."""
        self._note_text(message)
        self._count(message)

    def apply_revised(self, message: Json) -> None:
        """Apply a MessageUpdated or MessageRecalled event."""
        self._note_text(message)
        for session in self.sessions.values():
            # A gateway shows the same message as the session inside it.
            session["lastMessage"] = self._with_newest_text(session["lastMessage"])

    def apply_group_changed(self, event: Json) -> None:
        """Apply a GroupChanged event."""
        group = event["group"]
        session = self.sessions.get(group["id"])
        if session is not None and "title" in session["conversation"]:
            session["conversation"] = session["conversation"] | {"title": group["name"]}

    def apply_receipt(self, event: Json) -> None:
        """Apply a ReceiptAdvanced event."""
        fields = ["deliveredSeq", "readSeq"] if event["status"] == "READ" else ["deliveredSeq"]
        if event["user"]["id"] != self.user:
            fields = ["peer" + field[0].upper() + field[1:] for field in fields]
        self._advance(event["conversationId"], fields, event["seq"])

    def _advance(self, name: str, fields: Iterable[str], seq: int) -> None:
        positions, session = self._receipts[name], self.sessions.get(name)
        for field in fields:
            positions[field] = max(positions.get(field, 0), seq)
        if session is not None:
            session |= self._advanced(name, session)

    def _advanced(self, name: str, session: Json) -> Json:
        """Return the session's positions, at least as far as receipts and the known session have said."""
        positions, known = self._receipts.get(name, {}), self.sessions.get(name, {})
        return {
            field: max(session[field], positions.get(field, 0), known.get(field) or 0)
            for field in RECEIPTS
            if session[field] is not None
        }

    def _count(self, message: Json) -> None:
        name, seq = message["conversationId"], message["seq"]
        session = self.sessions.get(name)
        own, counts = message["sender"]["id"] == self.user, message["contentType"] != "SYSTEM"
        mentioned = not own and self._is_mentioned(message)
        if not own and counts and name.startswith("p_"):
            # The sender of a message has read it.
            self._advance(name, ("peerReadSeq", "peerDeliveredSeq"), seq)
        new = session is None or (not is_active(session) and seq > session["writeSeq"])
        if session is None or new or (self._asks_about_gaps and seq > session["writeSeq"] + 1):
            self._waiting[name].append(message)
            self.ask_for([name], "a new session" if new else "a skipped seq")
            return
        if seq <= session["writeSeq"]:
            # The session already counts it, but may not yet hold what it means for this user, nor its text: another
            # server finishes the fan-out of a message whose server died.
            if ((own and counts) or mentioned) and seq > session["readSeq"]:
                self.ask_for([name], "an own message or a mention that was overtaken")
            if session["lastMessage"] is not None and session["lastMessage"]["seq"] < seq:
                session["lastMessage"] = self._with_newest_text(message)
        else:
            self._append(session, message, own=own, counts=counts, mentioned=mentioned)
        if gateway := gateway_of(session):
            # One message does not say what the gateway sums up.
            self.ask_for([gateway], "a message behind a gateway")

    def _is_mentioned(self, message: Json) -> bool:
        return bool(message["mentionsAll"] or any(user["id"] == self.user for user in message["mentions"]))

    def _append(self, session: Json, message: Json, *, own: bool, counts: bool, mentioned: bool) -> None:
        seq = session["writeSeq"] = message["seq"]
        session["lastMessage"] = self._with_newest_text(message)
        if own and counts:
            if "readCount" in session:
                session["readCount"] += session["unreadCount"] + 1
            session |= {"unreadCount": 0, "unreadMentionCount": 0, "unreadStatus": False}
            session["readSeq"] = session["deliveredSeq"] = seq
        elif counts and seq > session["readSeq"]:
            session["unreadCount"] += 1
            session["unreadMentionCount"] += mentioned

    # --- texts

    def _note_text(self, message: Json) -> None:
        known = self._newest_texts.get(message["id"])
        if known is None or age(known) < age(message):
            self._newest_texts[message["id"]] = {field: message[field] for field in _REVISED}

    def _with_newest_text(self, last: Json | None) -> Json | None:
        if last is None:
            return None
        newest = self._newest_texts.get(last.get("id", ""))
        if newest is None or ("editCount" in last and age(last) >= age(newest)):
            return last
        return last | newest

    # --- comparison

    @property
    def active_sessions(self) -> dict[str, Json]:
        return {name: session for name, session in self.sessions.items() if is_active(session)}

    @property
    def total_unread(self) -> int:
        """The number on the application's icon: unmuted sessions, without those behind a muted gateway."""
        active = self.active_sessions
        return sum(
            session["unreadCount"]
            for name, session in active.items()
            if not name.startswith(GATEWAY_PREFIX)
            and not session["muteStatus"]
            and not active.get(gateway_of(session) or "", {"muteStatus": False})["muteStatus"]
        )

    def differences(self, fresh: dict[str, Json], total: int, *, unrevised: Collection[str] = ()) -> list[str]:
        """Compare the copy with what a client without any state is shown.

        Args:
            fresh: All valid sessions, by conversation.
            total: The totalUnread that belongs to them.
            unrevised: Conversations whose edits and recalls the user does not receive any more.
        """
        mine = self.active_sessions
        wrong = [f"{name} {'is not valid' if name in mine else 'is missing'}" for name in mine.keys() ^ fresh.keys()]
        for name in sorted(mine.keys() & fresh.keys()):
            different = {
                field: (mine[name].get(field), value)
                for field, value in fresh[name].items()
                if field not in (*CLOCKS, "lastMessage") and mine[name].get(field) != value
            }
            if not _is_same_message(
                mine[name]["lastMessage"], fresh[name]["lastMessage"], revised=name not in unrevised
            ):
                different["lastMessage"] = (mine[name]["lastMessage"], fresh[name]["lastMessage"])
            if different:
                wrong.append(f"{name}: copy and server differ: {different}")
        if not wrong and self.total_unread != total:
            wrong.append(f"totalUnread {self.total_unread}, server {total}")
        return wrong


def _is_behind(session: Json, known: Json) -> bool:
    """Return whether an answer lacks a read position or a mention that an event has already shown."""
    if session["readSeq"] != known["readSeq"]:
        return bool(session["readSeq"] < known["readSeq"])
    return bool(session["unreadMentionCount"] < known["unreadMentionCount"])


def _is_same_message(mine: Json | None, fresh: Json | None, *, revised: bool) -> bool:
    if mine is None or fresh is None:
        return mine is fresh
    fields = fresh.keys() if revised else fresh.keys() - set(_REVISED)
    return all(mine[field] == fresh[field] for field in fields if field != "sender") and (
        "sender" not in fresh or mine["sender"]["id"] == fresh["sender"]["id"]
    )
