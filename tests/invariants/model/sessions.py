"""A model of sessions that derives every number by counting lists of messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.api.client import Refusal
from tests.invariants.model import groups, messages, pins, reactions
from tests.invariants.model.conversation import OWNER, Json, ModelConversation, ModelMessage
from tests.invariants.model.operation import Op as Op
from tests.user_ids import people_of

ModelEvent = tuple[str, str, int, str]
"""An event: its kind, the conversation, the seq of the message or position, and the user who caused it."""

GROUP_CHANGED = "GroupChanged"

_RULES = ((messages.REVISIONS, messages), (reactions.REACTION_KINDS, reactions), (pins.PIN_KINDS, pins))


@dataclass
class ModelSession:
    """The fields of one user's session that no message determines.

    `read` and `received` are the positions that others are shown; `deleted` is the writeSeq at the deletion.
    """

    read: int = 0
    received: int = 0
    deleted: int | None = None
    priority: int = 0
    muted: bool = False
    until: int | None = None
    reminder: bool = False
    category: str | None = None


def gateway(sub_biz: str) -> str:
    return f"b_{sub_biz}"


def date_time(ms: int) -> str:
    """Return a time in the form of the API."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SessionModel:
    """All conversations, and all users' sessions, gateways included.

    `now` is the time in ms. `events` are the messageEvents of each user in order; `event_messages` are the messages
    as the newest event of each showed them. `session_events` are the reasons and conversations of the expected
    syncSession events. `acknowledgements` are the receipts of each conversation: user, kind, seq.

    `changed` and `rewritten` name the sessions whose activeTs and writeTs have to move for what was done since these
    sets were emptied; `restored` those of users who joined again.
    """

    def __init__(self) -> None:
        self.conversations: dict[str, ModelConversation] = {}
        self.sessions: dict[tuple[str, str], ModelSession] = {}
        self.events: defaultdict[str, list[ModelEvent]] = defaultdict(list)
        self.session_events: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self.acknowledgements: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
        self.event_messages: dict[tuple[str, str, int], Json] = {}
        self.now = 0
        self.changed: set[tuple[str, str]] = set()
        self.rewritten: set[tuple[str, str]] = set()
        self.restored: set[tuple[str, str]] = set()

    # --- what is done

    def apply(self, op: Op) -> Refusal | None:
        """Apply a mutation, or return its error. Changes of a user's own sessions are always allowed here."""
        if op.kind == "send" or op.kind in groups.GROUP_KINDS:
            refused = groups.refusal(self, op)
            if refused is not None:
                return refused
        for kinds, rules in _RULES:
            if op.kind in kinds:
                refused = rules.refusal(self, op)
                if refused is None:
                    rules.change(self, op)
                return refused
        if op.kind in groups.GROUP_KINDS:
            groups.change(self, op)
        else:
            getattr(self, f"_{op.kind}")(op)
        return None

    def _send(self, op: Op) -> None:
        """Send. value: mentions, mentionAll, the text, and the seq of the message that it answers."""
        mentions, mentions_all, text, reply = op.value
        if op.target not in self.conversations:
            sub_biz = op.target.partition("~")[2] or None
            self._open(op.target, ModelConversation(dict.fromkeys(people_of(op.target), ""), sub_biz))
        conversation = self.conversations[op.target]
        sent = conversation.add_message(
            op.user, mentions=mentions, mentions_all=mentions_all, texts=[text], reply=reply, at=self.now
        )
        self.announce(op.target, sent)
        mine = self.sessions[op.user, op.target]
        self.acknowledge(op.user, op.target, "READ", mine.read, conversation.seq, own=False)
        mine.read, mine.received, mine.reminder = conversation.seq, conversation.seq, False

    def _read(self, op: Op) -> None:
        """Mark as read. value: the seq, or None for all."""
        if op.target.startswith("b_"):
            for name in self.listed(op.user, op.target[2:]):
                self._read(Op("read", op.user, name))
            return
        conversation, session = self.conversations[op.target], self.sessions[op.user, op.target]
        top = conversation.last_seq(op.user)
        seq = top if op.value is None else min(op.value, top)
        if self.is_valid(op.user, op.target) and seq > self._read_seq(op.user, op.target):
            self.acknowledge(op.user, op.target, "READ", session.read, seq)
            session.read, session.received, session.reminder = seq, max(session.received, seq), False
        elif session.reminder:
            session.reminder = False
            self.touch(op.user, op.target, why="READ")

    def _read_many(self, op: Op) -> None:
        """Mark as read. value: the conversations, or None for all that are unread."""
        names = op.value
        if names is None:
            unread = [
                name for name in self.names(op.user) if not name.startswith("b_") and self.is_valid(op.user, name)
            ]
            names = [n for n in unread if self.unread_count(op.user, n) or self.sessions[op.user, n].reminder]
        for name in dict.fromkeys(names):
            self._read(Op("read", op.user, name))

    def _receive_many(self, op: Op) -> None:
        """Acknowledge as delivered. value: conversations and seqs."""
        highest: dict[str, int] = {}
        for name, seq in op.value:
            highest[name] = max(highest.get(name, 0), seq)
        for name, seq in highest.items():
            self._receive(Op("receive", op.user, name, seq))

    def _receive(self, op: Op) -> None:
        """Acknowledge as delivered. value: the seq."""
        session, seq = self.sessions[op.user, op.target], min(op.value, self.conversations[op.target].last_seq(op.user))
        if self.is_valid(op.user, op.target) and seq > max(session.received, session.deleted or 0):
            self.acknowledge(op.user, op.target, "DELIVERED", session.received, seq)
            session.received = seq

    def _delete(self, op: Op) -> None:
        """Delete a session. value: True for a hard deletion."""
        session = self.sessions[op.user, op.target]
        remembers = op.value and (session.priority or session.muted or session.category is not None)
        lives = self.is_valid(op.user, op.target)
        if not lives and not remembers and not session.reminder:
            return
        session.reminder = False
        if lives:
            session.deleted = self.conversations[op.target].last_seq(op.user)
        if op.value:
            session.priority, session.muted, session.until, session.category = 0, False, None, None
        self.touch(op.user, op.target, why="DELETE")

    def _mute(self, op: Op) -> None:
        """Mute. value: False to unmute, None for no end, or the end in ms."""
        session = self.sessions[op.user, op.target]
        before = session.muted, session.until, session.reminder
        session.muted, session.until, session.reminder = op.value is not False, op.value or None, False
        if (session.muted, session.until, session.reminder) != before:
            self.touch(op.user, op.target, why="UNMUTE" if op.value is False else "MUTE")

    def _pin(self, op: Op) -> None:
        """Pin. value: the priority."""
        session = self.sessions[op.user, op.target]
        if session.priority != op.value:
            session.priority, session.reminder = op.value, False
            self.touch(op.user, op.target, rewrite=op.value > 0, why="PIN" if op.value else "UNPIN")
        elif session.reminder:
            session.reminder = False
            self.touch(op.user, op.target, why="PIN" if op.value else "UNPIN")

    def _remind(self, op: Op) -> None:
        session = self.sessions[op.user, op.target]
        if not session.reminder and self.is_valid(op.user, op.target):
            session.reminder = True
            self.touch(op.user, op.target, rewrite=True, why="UNREAD")

    def _assign(self, op: Op) -> None:
        """Assign a category. value: the conversations, and the category."""
        names, category = op.value
        for name in dict.fromkeys(names):
            session = self.sessions[op.user, name]
            if session.category != category or session.reminder:
                session.category, session.reminder = category, False
                self.touch(op.user, name, why="CATEGORY")

    def create_group(self, group: str, owner: str, members: Iterable[str], sub_biz: str | None) -> None:
        """Add a new group."""
        conversation = ModelConversation(dict.fromkeys(members, "MEMBER") | {owner: OWNER}, sub_biz, owner=owner)
        self._open(group, conversation)
        for member in conversation.members:
            self.touch(member, group, why="MEMBERSHIP")

    def end_mute(self, user: str, name: str) -> None:
        """End a mute whose time is over."""
        session = self.sessions[user, name]
        session.muted, session.until = False, None
        self.touch(user, name, why="UNMUTE")

    def announce(self, name: str, sent: ModelMessage) -> None:
        """Deliver a new message to the members."""
        for member in self.conversations[name].members:
            self.emit(member, "MessageCreated", name, sent)
            self.touch(member, name, rewrite=not sent.system)

    def change_group(self, name: str) -> None:
        """Send GroupChanged to the members."""
        for member in self.conversations[name].members:
            self.events[member].append((GROUP_CHANGED, name, 0, ""))
            self.touch(member, name)

    def emit(self, user: str, what: str, name: str, sent: ModelMessage) -> None:
        """Add an event about a message, in its present form."""
        self.events[user].append((what, name, sent.seq, sent.sender))
        self.event_messages[user, name, sent.seq] = self.message_for(user, name, sent)

    def acknowledge(self, user: str, name: str, kind: str, after: int, seq: int, own: bool = True) -> None:
        """Move a position of a user, and add the receipts.

        The receipts go to the present members who wrote a message in the range, and to the user's own devices if
        `own`. The clock of the user's session moves, and in a private conversation that of the other one.
        """
        conversation = self.conversations[name]
        covered = {
            s.sender for s in conversation.messages if after < s.seq <= seq and not s.system
        } & conversation.members.keys()
        for whom in (covered - {user}) | ({user} if own else set()):
            self.events[whom].append((kind, name, seq, user))
        self.acknowledgements[name].append((user, kind, seq))
        for member in conversation.members if name.startswith("p_") else [user]:
            self.touch(member, name, why=kind if own and member == user else "")

    def join(self, user: str, name: str) -> None:
        """Start a session with everything read. A user who joins again keeps their settings."""
        if (user, name) in self.sessions:
            self.restored.add((user, name))
        conversation, session = self.conversations[name], self.sessions.setdefault((user, name), ModelSession())
        session.read, session.received, session.deleted, session.reminder = (
            conversation.seq,
            conversation.seq,
            None,
            False,
        )
        if conversation.sub_biz:
            self.sessions.setdefault((user, gateway(conversation.sub_biz)), ModelSession())

    def _open(self, name: str, conversation: ModelConversation) -> None:
        self.conversations[name] = conversation
        for member in conversation.members:
            self.join(member, name)

    def touch(self, user: str, name: str, rewrite: bool = False, why: str = "") -> None:
        """Move a session's activeTs. `why`: the reason of the syncSession event, if there is no message event."""
        if why:
            self.session_events[user].append((why, name))
        self.changed.add((user, name))
        if rewrite:
            self.rewritten.add((user, name))
        conversation = self.conversations.get(name)
        if conversation and conversation.sub_biz:
            self.changed.add((user, gateway(conversation.sub_biz)))

    # --- what is shown

    def message_for(self, user: str, name: str, sent: ModelMessage) -> Json:
        """Return a message as the API shows it to a user who may read it."""
        return self.conversations[name].message_for(user, sent) | {
            "delivery": messages.delivery(self, user, name, sent)
        }

    def readable_messages(self, user: str, name: str) -> list[Json] | None:
        """Return all messages that a user may read, or None if they may read nothing of the conversation."""
        conversation = self.conversations.get(name)
        return (
            [self.message_for(user, name, sent) for sent in conversation.readable(user)]
            if conversation and conversation.has_had(user)
            else None
        )

    def names(self, user: str) -> list[str]:
        """Return the conversations of a user's sessions, gateways included."""
        return [name for owner, name in self.sessions if owner == user]

    def is_valid(self, user: str, name: str) -> bool:
        if name.startswith("b_"):
            return any(self.is_valid(user, inside) for inside in self._inside(user, name))
        deleted, conversation = self.sessions[user, name].deleted, self.conversations[name]
        if conversation.ended:
            return False
        return deleted is None or any(
            deleted < s.seq <= conversation.last_seq(user) and not s.system for s in conversation.messages
        )

    def unread_count(self, user: str, name: str) -> int:
        if name.startswith("b_"):
            return sum(
                self.unread_count(user, inside) for inside in self._inside(user, name) if self._is_unmuted(user, inside)
            )
        return len(self._unread_messages(user, name))

    def mention_count(self, user: str, name: str) -> int:
        if name.startswith("b_"):
            return sum(
                self.mention_count(user, inside)
                for inside in self._inside(user, name)
                if self._is_unmuted(user, inside)
            )
        return sum(sent.mentions_all or user in sent.mentions for sent in self._unread_messages(user, name))

    def total_unread(self, user: str) -> int:
        return sum(self.unread_count(user, name) for name in self.listed(user) if self._is_unmuted(user, name))

    def attention(self, user: str) -> Json:
        unmuted = [name for name in self.listed(user) if self._is_unmuted(user, name)]
        mentions = sum(self.mention_count(user, name) for name in unmuted)
        return {"unread": self.total_unread(user), "mentions": mentions, "threads": 0}

    def listed(self, user: str, sub_biz: str | None = None, category: str | None = None) -> set[str]:
        """Return the conversations of the main list, of a subBiz, or of a category."""
        return {
            name
            for name in self.names(user)
            if self.is_valid(user, name)
            and (category is not None or self.sub_biz(name) == sub_biz)
            and (category is None or self.sessions[user, name].category == category)
        }

    def categories(self, user: str) -> dict[str, tuple[int, int]]:
        """Return the number of sessions and of unread messages of each category."""
        used = {self.sessions[user, name].category for name in self.names(user) if self.is_valid(user, name)} - {None}
        folders = {category: self.listed(user, category=category) for category in used if category}
        return {
            category: (len(names), sum(self.unread_count(user, name) for name in names if self._is_unmuted(user, name)))
            for category, names in folders.items()
        }

    def sub_biz(self, name: str) -> str | None:
        return self.conversations[name].sub_biz if name in self.conversations else None

    def session_for(self, user: str, name: str) -> Json:
        """Return a session as the API shows it, without the clocks."""
        session, conversation = self.sessions[user, name], self.conversations.get(name)
        read = self._read_seq(user, name) if conversation else 0
        peer = None
        if conversation and name.startswith("p_"):
            peer = next(self.sessions[member, name] for member in conversation.members if member != user)
        return {
            "writeSeq": conversation.last_seq(user) if conversation else 0,
            "readSeq": read,
            "deliveredSeq": max(session.received, self._hidden_seq(user, name)) if conversation else 0,
            "readCount": sum(not s.system for s in conversation.messages[:read]) if conversation else 0,
            "unreadCount": self.unread_count(user, name),
            "unreadMentionCount": self.mention_count(user, name),
            "unreadStatus": session.reminder,
            "muteStatus": session.muted,
            "mutedUntil": date_time(session.until) if session.until is not None else None,
            "priority": session.priority,
            "categoryId": session.category,
            "subBiz": conversation.sub_biz if conversation else None,
            "status": "ACTIVE" if self.is_valid(user, name) else "INVALID",
            "peerReadSeq": peer.read if peer else None,
            "peerDeliveredSeq": peer.received if peer else None,
        }

    def _inside(self, user: str, name: str) -> list[str]:
        return [inside for inside in self.names(user) if self.sub_biz(inside) == name[2:]]

    def _is_unmuted(self, user: str, name: str) -> bool:
        return self.is_valid(user, name) and not self.sessions[user, name].muted

    def _read_seq(self, user: str, name: str) -> int:
        return max(self.sessions[user, name].read, self._hidden_seq(user, name))

    def _hidden_seq(self, user: str, name: str) -> int:
        """Return the position up to which nothing counts: the deletion, or all of a group that has ended."""
        conversation = self.conversations[name]
        return conversation.last_seq(user) if conversation.ended else self.sessions[user, name].deleted or 0

    def _unread_messages(self, user: str, name: str) -> list[ModelMessage]:
        read, conversation = self._read_seq(user, name), self.conversations[name]
        if conversation.ended:
            return []
        return [
            s
            for s in conversation.messages
            if read < s.seq <= conversation.last_seq(user) and s.sender != user and not s.system
        ]
