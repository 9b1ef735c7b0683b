"""What sessions should be, worked out the slow way: messages in lists, every number by counting them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """One message."""

    seq: int
    sender: str
    system: bool = False
    mentions: frozenset[str] = frozenset()
    everybody: bool = False


@dataclass
class Room:
    """One conversation. Nobody leaves it."""

    members: list[str]
    sub_biz: str | None = None
    owner: str | None = None
    said: list[Said] = field(default_factory=list)

    @property
    def seq(self) -> int:
        return len(self.said)


@dataclass
class Kept:
    """What one user's session holds beside the messages. `read`, `received`: as others are told; `deleted`: writeSeq at the
    deletion."""

    read: int = 0
    received: int = 0
    deleted: int | None = None
    priority: int = 0
    muted: bool = False
    until: int | None = None
    reminder: bool = False
    category: str | None = None


@dataclass(frozen=True)
class Op:
    """One mutation. `value` is what the kind needs beside user and target."""

    kind: str
    user: str
    target: str = ""
    value: Any = None


def private_room(one: str, other: str, sub_biz: str | None = None) -> str:
    return "p_" + "_".join(sorted((one, other))) + (f"~{sub_biz}" if sub_biz else "")


def gateway(sub_biz: str) -> str:
    return f"b_{sub_biz}"


def date_time(ms: int) -> str:
    """As the API spells a moment."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SessionModel:
    """All rooms and what each user keeps of them, gateways too.

    `changed` and `rewritten` name the sessions whose activeTs and writeTs have to move for what was done since they were
    emptied.
    """

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.kept: dict[tuple[str, str], Kept] = {}
        self.changed: set[tuple[str, str]] = set()
        self.rewritten: set[tuple[str, str]] = set()

    # --- what is done

    def do(self, op: Op) -> None:
        """Carries out a mutation that is allowed."""
        getattr(self, f"_{op.kind}")(op)

    def _send(self, op: Op) -> None:
        """value: who is mentioned, and whether everybody is."""
        mentions, everybody = op.value
        if op.target not in self.rooms:
            pair, _, sub_biz = op.target[2:].partition("~")
            self._open(op.target, Room(pair.split("_"), sub_biz or None))
        room = self.rooms[op.target]
        room.said.append(Said(room.seq + 1, op.user, False, frozenset(mentions), everybody))
        for member in room.members:
            self._move(member, op.target, rewrite=True)
        mine = self.kept[op.user, op.target]
        mine.read, mine.received, mine.reminder = room.seq, room.seq, False

    def _read(self, op: Op) -> None:
        """value: up to which seq, or None."""
        if op.target.startswith("b_"):
            for name in self.listed(op.user, op.target[2:]):
                self._read(Op("read", op.user, name))
            return
        room, kept = self.rooms[op.target], self.kept[op.user, op.target]
        seq = room.seq if op.value is None else min(op.value, room.seq)
        if self.valid(op.user, op.target) and seq > self._shown_read(op.user, op.target):
            kept.read, kept.received, kept.reminder = seq, max(kept.received, seq), False
            self._tell(op.user, op.target)
        elif kept.reminder:
            kept.reminder = False
            self._move(op.user, op.target)

    def _receive(self, op: Op) -> None:
        """value: up to which seq."""
        kept, seq = self.kept[op.user, op.target], min(op.value, self.rooms[op.target].seq)
        if self.valid(op.user, op.target) and seq > max(kept.received, kept.deleted or 0):
            kept.received = seq
            self._tell(op.user, op.target)

    def _tell(self, user: str, name: str) -> None:
        """An acknowledgement moves the session, and in private the other one's."""
        for member in self.rooms[name].members if name.startswith("p_") else [user]:
            self._move(member, name)

    def _delete(self, op: Op) -> None:
        """value: whether hard."""
        kept = self.kept[op.user, op.target]
        remembers = op.value and (kept.priority or kept.muted or kept.category is not None)
        lives = self.valid(op.user, op.target)
        if not lives and not remembers and not kept.reminder:
            return
        kept.reminder = False
        if lives:
            kept.deleted = self.rooms[op.target].seq
        if op.value:
            kept.priority, kept.muted, kept.until, kept.category = 0, False, None, None
        self._move(op.user, op.target)

    def _mute(self, op: Op) -> None:
        """value: False to unmute, None for ever, or until when."""
        kept = self.kept[op.user, op.target]
        before = kept.muted, kept.until, kept.reminder
        kept.muted, kept.until, kept.reminder = op.value is not False, op.value or None, False
        if (kept.muted, kept.until, kept.reminder) != before:
            self._move(op.user, op.target)

    def _pin(self, op: Op) -> None:
        """value: the priority."""
        kept = self.kept[op.user, op.target]
        if kept.priority != op.value:
            kept.priority, kept.reminder = op.value, False
            self._move(op.user, op.target, rewrite=op.value > 0)
        elif kept.reminder:
            kept.reminder = False
            self._move(op.user, op.target)

    def _remind(self, op: Op) -> None:
        kept = self.kept[op.user, op.target]
        if not kept.reminder and self.valid(op.user, op.target):
            kept.reminder = True
            self._move(op.user, op.target, rewrite=True)

    def _assign(self, op: Op) -> None:
        """target: nothing. value: the sessions' conversations, and the category."""
        names, category = op.value
        for name in dict.fromkeys(names):
            kept = self.kept[op.user, name]
            if kept.category != category or kept.reminder:
                kept.category, kept.reminder = category, False
                self._move(op.user, name)

    def _invite(self, op: Op) -> None:
        """value: whom."""
        room = self.rooms[op.target]
        new = [user for user in dict.fromkeys(op.value) if user not in room.members]
        if not new:
            return
        room.said.append(Said(room.seq + 1, op.user, True, frozenset(new)))
        room.members += new
        for user in new:
            self._join(user, op.target, room)
        for member in room.members:
            self._move(member, op.target)

    def found(self, group: str, owner: str, members: Iterable[str], sub_biz: str | None) -> None:
        """A new group."""
        room = Room(list(dict.fromkeys([owner, *members])), sub_biz, owner)
        self._open(group, room)
        for member in room.members:
            self._move(member, group)

    def end_mute(self, user: str, name: str) -> None:
        """A mute's time is over."""
        kept = self.kept[user, name]
        kept.muted, kept.until = False, None
        self._move(user, name)

    def _open(self, name: str, room: Room) -> None:
        self.rooms[name] = room
        for member in room.members:
            self._join(member, name, room)

    def _join(self, user: str, name: str, room: Room) -> None:
        self.kept[user, name] = Kept(read=room.seq, received=room.seq)
        if room.sub_biz:
            self.kept.setdefault((user, gateway(room.sub_biz)), Kept())

    def _move(self, user: str, name: str, rewrite: bool = False) -> None:
        self.changed.add((user, name))
        if rewrite:
            self.rewritten.add((user, name))
        room = self.rooms.get(name)
        if room and room.sub_biz:
            self.changed.add((user, gateway(room.sub_biz)))

    # --- what is shown

    def names(self, user: str) -> list[str]:
        """The conversations that the user has a session of, gateways included."""
        return [name for owner, name in self.kept if owner == user]

    def valid(self, user: str, name: str) -> bool:
        if name.startswith("b_"):
            return any(self.valid(user, inside) for inside in self._inside(user, name))
        deleted = self.kept[user, name].deleted
        return deleted is None or any(said.seq > deleted and not said.system for said in self.rooms[name].said)

    def unread(self, user: str, name: str) -> int:
        if name.startswith("b_"):
            return sum(self.unread(user, inside) for inside in self._inside(user, name) if self._loud(user, inside))
        return len(self._unread(user, name))

    def mentions(self, user: str, name: str) -> int:
        if name.startswith("b_"):
            return sum(self.mentions(user, inside) for inside in self._inside(user, name) if self._loud(user, inside))
        return sum(said.everybody or user in said.mentions for said in self._unread(user, name))

    def total(self, user: str) -> int:
        return sum(self.unread(user, name) for name in self.listed(user) if self._loud(user, name))

    def listed(self, user: str, sub_biz: str | None = None, category: str | None = None) -> set[str]:
        """What is in the main list, in a subBiz, or in a folder."""
        return {
            name
            for name in self.names(user)
            if self.valid(user, name)
            and (category is not None or self.sub_biz(name) == sub_biz)
            and (category is None or self.kept[user, name].category == category)
        }

    def categories(self, user: str) -> dict[str, tuple[int, int]]:
        """How many sessions and unread messages each folder has."""
        used = {self.kept[user, name].category for name in self.names(user) if self.valid(user, name)} - {None}
        folders = {category: self.listed(user, category=category) for category in used if category}
        return {
            category: (len(names), sum(self.unread(user, name) for name in names if self._loud(user, name)))
            for category, names in folders.items()
        }

    def sub_biz(self, name: str) -> str | None:
        return self.rooms[name].sub_biz if name in self.rooms else None

    def session(self, user: str, name: str) -> Json:
        """The fields of a session as the API shows them, clocks apart."""
        kept, room = self.kept[user, name], self.rooms.get(name)
        read = self._shown_read(user, name) if room else 0
        peer = None
        if room and name.startswith("p_"):
            peer = next(self.kept[member, name] for member in room.members if member != user)
        return {
            "writeSeq": room.seq if room else 0,
            "readSeq": read,
            "deliveredSeq": max(kept.received, kept.deleted or 0) if room else 0,
            "unreadCount": self.unread(user, name),
            "unreadMentionCount": self.mentions(user, name),
            "unreadStatus": kept.reminder,
            "muteStatus": kept.muted,
            "mutedUntil": date_time(kept.until) if kept.until is not None else None,
            "priority": kept.priority,
            "categoryId": kept.category,
            "subBiz": room.sub_biz if room else None,
            "status": "ACTIVE" if self.valid(user, name) else "INVALID",
            "peerReadSeq": peer.read if peer else None,
            "peerDeliveredSeq": peer.received if peer else None,
        }

    def _inside(self, user: str, name: str) -> list[str]:
        return [inside for inside in self.names(user) if self.sub_biz(inside) == name[2:]]

    def _loud(self, user: str, name: str) -> bool:
        return self.valid(user, name) and not self.kept[user, name].muted

    def _shown_read(self, user: str, name: str) -> int:
        kept = self.kept[user, name]
        return max(kept.read, kept.deleted or 0)

    def _unread(self, user: str, name: str) -> list[Said]:
        read = self._shown_read(user, name)
        return [s for s in self.rooms[name].said if s.seq > read and s.sender != user and not s.system]
