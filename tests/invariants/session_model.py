"""What sessions should be, worked out the slow way: messages in lists, every number by counting them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.api.client import Refusal
from tests.invariants import group_model, message_model
from tests.invariants.ops import Op as Op
from tests.invariants.room_model import OWNER, Json, Room, Said

Told = tuple[str, str, int, str]
"""What devices hear: what happened, in which conversation, to the message at or up to which seq, and of whom."""


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


def private_room(one: str, other: str, sub_biz: str | None = None) -> str:
    return "p_" + "_".join(sorted((one, other))) + (f"~{sub_biz}" if sub_biz else "")


def gateway(sub_biz: str) -> str:
    return f"b_{sub_biz}"


def date_time(ms: int) -> str:
    """As the API spells a moment."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SessionModel:
    """All rooms and what each user keeps of them, gateways too.

    `now`: ms. `told`: what each user's devices are to hear, in order; `payloads`: the messages they were told of last. `synced`: what
    they are to hear of their sessions, and why. `marks`: who acknowledged what, up to which seq, by conversation.

    `changed` and `rewritten` name the sessions whose activeTs and writeTs have to move for what was done since they were emptied;
    `restored` those of people who joined again.
    """

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.kept: dict[tuple[str, str], Kept] = {}
        self.told: defaultdict[str, list[Told]] = defaultdict(list)
        self.synced: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self.marks: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
        self.payloads: dict[tuple[str, str, int], Json] = {}
        self.now = 0
        self.changed: set[tuple[str, str]] = set()
        self.rewritten: set[tuple[str, str]] = set()
        self.restored: set[tuple[str, str]] = set()

    # --- what is done

    def do(self, op: Op) -> Refusal | None:
        """Carries out a mutation, or answers how it is refused. Those of a user's own sessions are all allowed here."""
        if op.kind == "send" or op.kind in group_model.GROUP_KINDS:
            refused = group_model.refusal(self, op)
            if refused is not None:
                return refused
        if op.kind in message_model.REVISIONS:
            refused = message_model.refusal(self, op)
            if refused is None:
                message_model.change(self, op)
            return refused
        if op.kind in group_model.GROUP_KINDS:
            group_model.change(self, op)
        else:
            getattr(self, f"_{op.kind}")(op)
        return None

    def _send(self, op: Op) -> None:
        """value: who is mentioned, whether everybody is, the text, and the seq of what it answers."""
        mentions, everybody, text, reply = op.value
        if op.target not in self.rooms:
            pair, _, sub_biz = op.target[2:].partition("~")
            self._open(op.target, Room(dict.fromkeys(pair.split("_"), ""), sub_biz or None))
        room = self.rooms[op.target]
        said = room.say(op.user, mentions=mentions, everybody=everybody, texts=[text], reply=reply, at=self.now)
        self.tell(op.target, said)
        mine = self.kept[op.user, op.target]
        self.acknowledge(op.user, op.target, "READ", mine.read, room.seq, own=False)
        mine.read, mine.received, mine.reminder = room.seq, room.seq, False

    def _read(self, op: Op) -> None:
        """value: up to which seq, or None."""
        if op.target.startswith("b_"):
            for name in self.listed(op.user, op.target[2:]):
                self._read(Op("read", op.user, name))
            return
        room, kept = self.rooms[op.target], self.kept[op.user, op.target]
        top = room.top(op.user)
        seq = top if op.value is None else min(op.value, top)
        if self.valid(op.user, op.target) and seq > self._shown_read(op.user, op.target):
            self.acknowledge(op.user, op.target, "READ", kept.read, seq)
            kept.read, kept.received, kept.reminder = seq, max(kept.received, seq), False
        elif kept.reminder:
            kept.reminder = False
            self.move(op.user, op.target, why="READ")

    def _receive(self, op: Op) -> None:
        """value: up to which seq."""
        kept, seq = self.kept[op.user, op.target], min(op.value, self.rooms[op.target].top(op.user))
        if self.valid(op.user, op.target) and seq > max(kept.received, kept.deleted or 0):
            self.acknowledge(op.user, op.target, "DELIVERED", kept.received, seq)
            kept.received = seq

    def _delete(self, op: Op) -> None:
        """value: whether hard."""
        kept = self.kept[op.user, op.target]
        remembers = op.value and (kept.priority or kept.muted or kept.category is not None)
        lives = self.valid(op.user, op.target)
        if not lives and not remembers and not kept.reminder:
            return
        kept.reminder = False
        if lives:
            kept.deleted = self.rooms[op.target].top(op.user)
        if op.value:
            kept.priority, kept.muted, kept.until, kept.category = 0, False, None, None
        self.move(op.user, op.target, why="DELETE")

    def _mute(self, op: Op) -> None:
        """value: False to unmute, None for ever, or until when."""
        kept = self.kept[op.user, op.target]
        before = kept.muted, kept.until, kept.reminder
        kept.muted, kept.until, kept.reminder = op.value is not False, op.value or None, False
        if (kept.muted, kept.until, kept.reminder) != before:
            self.move(op.user, op.target, why="UNMUTE" if op.value is False else "MUTE")

    def _pin(self, op: Op) -> None:
        """value: the priority."""
        kept = self.kept[op.user, op.target]
        if kept.priority != op.value:
            kept.priority, kept.reminder = op.value, False
            self.move(op.user, op.target, rewrite=op.value > 0, why="PIN" if op.value else "UNPIN")
        elif kept.reminder:
            kept.reminder = False
            self.move(op.user, op.target, why="PIN" if op.value else "UNPIN")

    def _remind(self, op: Op) -> None:
        kept = self.kept[op.user, op.target]
        if not kept.reminder and self.valid(op.user, op.target):
            kept.reminder = True
            self.move(op.user, op.target, rewrite=True, why="UNREAD")

    def _assign(self, op: Op) -> None:
        """target: nothing. value: the sessions' conversations, and the category."""
        names, category = op.value
        for name in dict.fromkeys(names):
            kept = self.kept[op.user, name]
            if kept.category != category or kept.reminder:
                kept.category, kept.reminder = category, False
                self.move(op.user, name, why="CATEGORY")

    def found(self, group: str, owner: str, members: Iterable[str], sub_biz: str | None) -> None:
        """A new group."""
        room = Room(dict.fromkeys(members, "MEMBER") | {owner: OWNER}, sub_biz, owner=owner)
        self._open(group, room)
        for member in room.members:
            self.move(member, group, why="MEMBERSHIP")

    def end_mute(self, user: str, name: str) -> None:
        """A mute's time is over."""
        kept = self.kept[user, name]
        kept.muted, kept.until = False, None
        self.move(user, name, why="UNMUTE")

    def tell(self, name: str, said: Said) -> None:
        """Its members see a new message."""
        for member in self.rooms[name].members:
            self.hear(member, "MessageCreated", name, said)
            self.move(member, name, rewrite=not said.system)

    def hear(self, user: str, what: str, name: str, said: Said) -> None:
        """The user's devices are told of a message as it is now."""
        self.told[user].append((what, name, said.seq, said.sender))
        self.payloads[user, name, said.seq] = self.shown(user, name, said)

    def acknowledge(self, user: str, name: str, kind: str, after: int, seq: int, own: bool = True) -> None:
        """Those who wrote something after a seq up to another, and are there, learn how far the user is; so do own devices. It
        moves the session, and in private the other one's."""
        room = self.rooms[name]
        covered = {s.sender for s in room.said if after < s.seq <= seq and not s.system} & room.members.keys()
        for whom in (covered - {user}) | ({user} if own else set()):
            self.told[whom].append((kind, name, seq, user))
        self.marks[name].append((user, kind, seq))
        for member in room.members if name.startswith("p_") else [user]:
            self.move(member, name, why=kind if own and member == user else "")

    def join(self, user: str, name: str) -> None:
        """Somebody begins with everything so far read, again perhaps: what they had set stays so."""
        if (user, name) in self.kept:
            self.restored.add((user, name))
        room, kept = self.rooms[name], self.kept.setdefault((user, name), Kept())
        kept.read, kept.received, kept.deleted, kept.reminder = room.seq, room.seq, None, False
        if room.sub_biz:
            self.kept.setdefault((user, gateway(room.sub_biz)), Kept())

    def _open(self, name: str, room: Room) -> None:
        self.rooms[name] = room
        for member in room.members:
            self.join(member, name)

    def move(self, user: str, name: str, rewrite: bool = False, why: str = "") -> None:
        """The user's clock ticks for a session, and their devices are told why unless they hear of a message event."""
        if why:
            self.synced[user].append((why, name))
        self.changed.add((user, name))
        if rewrite:
            self.rewritten.add((user, name))
        room = self.rooms.get(name)
        if room and room.sub_biz:
            self.changed.add((user, gateway(room.sub_biz)))

    # --- what is shown

    def shown(self, user: str, name: str, said: Said) -> Json:
        """A message as somebody who may read it is shown it."""
        return self.rooms[name].shown(user, said) | {"delivery": message_model.delivery(self, user, name, said)}

    def readable(self, user: str, name: str) -> list[Json] | None:
        """What somebody may read of a conversation."""
        room = self.rooms.get(name)
        return [self.shown(user, name, said) for said in room.readable(user)] if room and room.knows(user) else None

    def names(self, user: str) -> list[str]:
        """The conversations that the user has a session of, gateways included."""
        return [name for owner, name in self.kept if owner == user]

    def valid(self, user: str, name: str) -> bool:
        if name.startswith("b_"):
            return any(self.valid(user, inside) for inside in self._inside(user, name))
        deleted, room = self.kept[user, name].deleted, self.rooms[name]
        if room.ended:
            return False
        return deleted is None or any(deleted < s.seq <= room.top(user) and not s.system for s in room.said)

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
            "writeSeq": room.top(user) if room else 0,
            "readSeq": read,
            "deliveredSeq": max(kept.received, self._gone(user, name)) if room else 0,
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
        return max(self.kept[user, name].read, self._gone(user, name))

    def _gone(self, user: str, name: str) -> int:
        """What is behind somebody without having been read: deleted, or all of a group that has ended."""
        room = self.rooms[name]
        return room.top(user) if room.ended else self.kept[user, name].deleted or 0

    def _unread(self, user: str, name: str) -> list[Said]:
        read, room = self._shown_read(user, name), self.rooms[name]
        if room.ended:
            return []
        return [s for s in room.said if read < s.seq <= room.top(user) and s.sender != user and not s.system]
