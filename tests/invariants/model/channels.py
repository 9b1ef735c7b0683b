"""Channels of one workspace as plain lists of messages, intervals and overwrites, with what each user sees of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.invariants.model.channel_marks import MARKS
from tests.invariants.model.operation import Op

Json = dict[str, Any]
Overwrite = tuple[frozenset[str], frozenset[str]]
"""Allowed and denied permissions."""

EVERYONE = "everyone"
PUBLIC, PRIVATE = "PUBLIC", "PRIVATE"
VIEW, READ_HISTORY, SEND = "VIEW_CHANNEL", "READ_HISTORY", "SEND_MESSAGES"
SENDING = frozenset({"SEND_THREADS", "CREATE_THREADS", "ATTACH_FILES", "EMBED_LINKS", "MENTION_EVERYONE"})
WRITING = SENDING | {SEND, "ADD_REACTIONS", "PIN_MESSAGES"}
NONE: Overwrite = (frozenset(), frozenset())


@dataclass
class ChannelMessage:
    """One message. `notified`: the users that it mentions by name or role, found when it was sent."""

    seq: int
    sender: str
    at: int
    content: str | None
    is_system: bool = False
    mentions_all: bool = False
    notified: frozenset[str] = frozenset()
    reactions: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_recalled(self) -> bool:
        return self.content is None and not self.is_system


@dataclass
class ReadState:
    """A user's session in a channel. `mark`: the newest seq when it was marked unread."""

    read_seq: int
    mark: int | None = None
    is_muted: bool = False


@dataclass
class ModelChannel:
    """One channel. `intervals`: first and last seq of each membership, or of following; None: it has not ended.

    `pins`: seqs of the pinned messages, the latest pin last.
    """

    id: str
    kind: str
    has_full_history: bool = True
    is_default: bool = False
    is_archived: bool = False
    overwrites: dict[str, Overwrite] = field(default_factory=dict)
    messages: list[ChannelMessage] = field(default_factory=list)
    intervals: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    states: dict[str, ReadState] = field(default_factory=dict)
    pins: list[int] = field(default_factory=list)

    @property
    def followers(self) -> set[str]:
        return {user for user, rows in self.intervals.items() if rows and rows[-1][1] is None}

    @property
    def write_seq(self) -> int:
        return len(self.messages)

    def countable(self, up_to: int | None = None) -> int:
        return sum(not message.is_system for message in self.messages[:up_to])

    def begin(self, user: str) -> None:
        """Let a user follow the channel, with everything so far read."""
        self.intervals.setdefault(user, []).append((self.write_seq + 1, None))
        state = self.states.setdefault(user, ReadState(self.write_seq))
        state.read_seq = self.write_seq

    def end(self, user: str) -> None:
        if user in self.followers:
            first, _ = self.intervals[user].pop()
            if self.kind == PRIVATE:
                self.intervals[user].append((first, self.write_seq))

    def append(self, message: ChannelMessage) -> None:
        self.messages.append(message)
        for user in message.notified:
            self.states.setdefault(user, ReadState(message.seq - 1))

    def unread(self, user: str) -> list[ChannelMessage]:
        read_seq = self.states[user].read_seq
        return [message for message in self.messages[read_seq:] if not message.is_system]


class ChannelModel:
    """The workspace: who is in it since when, what roles allow, and the channels."""

    def __init__(self, owner: str, base: Iterable[str], everything: Iterable[str]) -> None:
        self.now = 0
        self.owner = owner
        self.everything = frozenset(everything)
        self.joined = {owner: 0}
        self.roles: dict[str, frozenset[str]] = {EVERYONE: frozenset(base)}
        self.mentionable: set[str] = set()
        self.has_roles: dict[str, frozenset[str]] = {}
        self.channels: dict[str, ModelChannel] = {}

    # --- rights, sentence by sentence of the contract

    def _of_roles(self, user: str) -> frozenset[str]:
        mine = [EVERYONE, *self.has_roles.get(user, ())]
        allowed = frozenset[str]().union(*(self.roles[role] for role in mine))
        return self.everything if user == self.owner or "ADMINISTRATOR" in allowed else allowed

    def rights_in_workspace(self, user: str) -> frozenset[str]:
        return self._of_roles(user) if user in self.joined else frozenset()

    def rights(self, user: str, channel: ModelChannel) -> frozenset[str]:
        """Return what a user may do in a channel; nothing if they can't see it."""
        if user not in self.joined or (channel.kind == PRIVATE and user not in channel.followers):
            return frozenset()
        allowed = self._of_roles(user)
        if "ADMINISTRATOR" not in allowed:
            roles = [channel.overwrites.get(role, NONE) for role in sorted(self.has_roles.get(user, ()))]
            for level in ([channel.overwrites.get(EVERYONE, NONE)], roles, [channel.overwrites.get(user, NONE)]):
                for _, deny in level:
                    allowed -= deny
                for allow, _ in level:
                    allowed |= allow
        if channel.is_archived:
            allowed -= WRITING
        if VIEW not in allowed:
            return frozenset()
        return allowed if SEND in allowed else allowed - SENDING

    def sees(self, user: str, channel: ModelChannel) -> bool:
        return bool(self.rights(user, channel))

    def visible(self, user: str) -> list[ModelChannel]:
        return [channel for channel in self.channels.values() if self.sees(user, channel)]

    def may_read(self, user: str, channel: ModelChannel, message: ChannelMessage) -> bool:
        """Return whether a message is in the part of the history that the user may read with READ_HISTORY."""
        if channel.has_full_history:
            return True
        if channel.kind == PRIVATE:
            rows = channel.intervals[user]
            return any(first <= message.seq and (last is None or message.seq <= last) for first, last in rows)
        return message.at >= self.joined[user]

    # --- what is shown

    def history(self, user: str, channel: ModelChannel) -> list[ChannelMessage] | None:
        rights = self.rights(user, channel)
        if not rights:
            return None
        return [m for m in channel.messages if READ_HISTORY in rights and self.may_read(user, channel, m)]

    def session(self, user: str, channel: ModelChannel) -> Json | None:
        state = channel.states.get(user)
        if state is None or not self.sees(user, channel):
            return None
        unread = channel.unread(user)
        return {
            "writeSeq": channel.write_seq,
            "readSeq": state.read_seq,
            "readCount": channel.countable() - len(unread),
            "unreadCount": len(unread),
            "unreadMentionCount": sum(m.mentions_all or user in m.notified for m in unread),
            "unreadStatus": state.mark is not None and state.read_seq <= state.mark,
            "muteStatus": state.is_muted,
        }

    def followed(self, user: str) -> list[ModelChannel]:
        return [channel for channel in self.visible(user) if user in channel.followers]

    def mentions(self, user: str) -> int:
        """Return the unread mentions by name and role in channels that the user sees and has not muted."""
        found = [c for c in self.visible(user) if user in c.states and not c.states[user].is_muted]
        return sum(user in message.notified for channel in found for message in channel.unread(user))

    # --- operations: each returns the code of its refusal, or None

    def apply(self, op: Op) -> str | None:
        """Apply an operation. Return the code with which it is refused; then nothing has changed."""
        channel = self.channels.get(op.target)
        if channel is None:
            refusal: str | None = getattr(self, f"_do_{op.kind}")(op)
            return refusal
        if not self.sees(op.user, channel):
            return "NOT_FOUND"
        if op.kind in MARKS:
            return MARKS[op.kind](self, op, channel)
        refusal = getattr(self, f"_do_{op.kind}")(op, channel)
        return refusal

    def announce(self, op: Op, channel: ModelChannel) -> None:
        """Append a SYSTEM message of the user."""
        channel.append(ChannelMessage(channel.write_seq + 1, op.user, self.now, None, is_system=True))

    def _do_join(self, op: Op) -> None:
        if op.user not in self.joined:
            self.joined[op.user] = self.now
            for channel in self.channels.values():
                if channel.is_default and not channel.is_archived and channel.kind == PUBLIC:
                    channel.begin(op.user)

    def _do_leave(self, op: Op) -> str | None:
        if op.user not in self.joined:
            return "NOT_FOUND"
        if op.user == self.owner:
            return "OWNER_CANNOT_LEAVE"
        for channel in self.channels.values():
            channel.end(op.user)
        del self.joined[op.user]
        self.has_roles.pop(op.user, None)
        return None

    def _do_permit(self, op: Op) -> None:
        """Set the permissions of a role. Only the owner does this, and so with the roles of a member."""
        role, permissions = op.value
        self.roles[role] = permissions

    def _do_roles(self, op: Op) -> str | None:
        member, roles = op.value
        if member not in self.joined:
            return "NOT_A_MEMBER"
        self.has_roles[member] = roles
        return None

    def _do_read_all(self, op: Op) -> str | None:
        if op.user not in self.joined:
            return "NOT_FOUND"
        for channel in self.followed(op.user):
            self._read(channel.states[op.user], channel.write_seq)
        return None

    def refuse_create(self, op: Op) -> str | None:
        _, _, members = op.value
        if op.user not in self.joined:
            return "NOT_FOUND"
        if "MANAGE_CHANNELS" not in self.rights_in_workspace(op.user):
            return "FORBIDDEN"
        return "NOT_A_MEMBER" if set(members) - self.joined.keys() else None

    def create(self, op: Op, id_: str, is_default: bool = False) -> None:
        kind, has_full_history, members = op.value
        channel = self.channels[id_] = ModelChannel(id_, kind, has_full_history, is_default)
        for user in {op.user, *members}:
            channel.begin(user)

    def _do_overwrite(self, op: Op, channel: ModelChannel) -> str | None:
        """The owner sets an overwrite."""
        target, (allow, deny) = op.value
        if target not in self.roles and (allow or deny) and target not in self.joined:
            return "NOT_A_MEMBER"
        before = channel.overwrites.get(target, NONE)
        if ((before[0] ^ allow) | (before[1] ^ deny)) - self.rights(op.user, channel):
            return "FORBIDDEN"
        channel.overwrites[target] = (allow, deny)
        return None

    def _do_kind(self, op: Op, channel: ModelChannel) -> str | None:
        if "MANAGE_CHANNELS" not in self.rights(op.user, channel):
            return "FORBIDDEN"
        if op.value == PRIVATE and channel.is_default:
            return "INVALID_INPUT"
        channel.kind = op.value
        return None

    def _do_archive(self, op: Op, channel: ModelChannel) -> str | None:
        if "MANAGE_CHANNELS" not in self.rights(op.user, channel):
            return "FORBIDDEN"
        if channel.is_archived != op.value:
            channel.is_archived = op.value
            self.announce(op, channel)
        return None

    def _do_follow(self, op: Op, channel: ModelChannel) -> str | None:
        if op.user in channel.followers:
            return None
        if channel.is_archived:
            return "ARCHIVED"
        channel.begin(op.user)
        return None

    def _do_unfollow(self, op: Op, channel: ModelChannel) -> None:
        channel.end(op.user)

    def _do_add(self, op: Op, channel: ModelChannel) -> str | None:
        if "INVITE_MEMBERS" not in self.rights(op.user, channel):
            return "FORBIDDEN"
        if channel.is_archived:
            return "ARCHIVED"
        may_be_added = self.joined if channel.kind == PRIVATE else {u for u in self.joined if self.sees(u, channel)}
        if not set(op.value) <= set(may_be_added):
            return "NOT_A_MEMBER"
        for user in set(op.value) - channel.followers:
            channel.begin(user)
        return None

    def _do_remove(self, op: Op, channel: ModelChannel) -> str | None:
        if "INVITE_MEMBERS" not in self.rights(op.user, channel):
            return "FORBIDDEN"
        if op.value == op.user or channel.kind != PRIVATE:
            return "INVALID_INPUT"
        if op.value not in channel.followers:
            return "NOT_A_MEMBER"
        channel.end(op.value)
        return None

    def _do_send(self, op: Op, channel: ModelChannel) -> str | None:
        mentions, roles, mentions_all, content = op.value
        rights = self.rights(op.user, channel)
        if SEND not in rights:
            return "ARCHIVED" if channel.is_archived else "FORBIDDEN"
        if "MENTION_EVERYONE" not in rights and (mentions_all or not set(roles) <= self.mentionable):
            return "FORBIDDEN"
        if not all(self.sees(user, channel) for user in mentions):
            return "INVALID_INPUT"
        of_roles = {user for user in self.joined if self.has_roles.get(user, frozenset()) & set(roles)}
        notified = frozenset(u for u in {*mentions, *of_roles} - {op.user} if self.sees(u, channel))
        seq = channel.write_seq + 1
        channel.append(ChannelMessage(seq, op.user, self.now, content, mentions_all=mentions_all, notified=notified))
        self._read(channel.states.setdefault(op.user, ReadState(0)), seq)
        return None

    def _do_edit(self, op: Op, channel: ModelChannel) -> str | None:
        seq, content = op.value
        refusal = self._refuse_revision(op.user, channel, seq)
        message = channel.messages[seq - 1]
        if refusal:
            return refusal
        if message.sender != op.user:
            return "FORBIDDEN"
        if SEND not in self.rights(op.user, channel):
            return "ARCHIVED" if channel.is_archived else "FORBIDDEN"
        if message.is_recalled:
            return "INVALID_INPUT"
        message.content = content
        return None

    def _do_recall(self, op: Op, channel: ModelChannel) -> str | None:
        refusal = self._refuse_revision(op.user, channel, op.value)
        message, may_moderate = channel.messages[op.value - 1], "MANAGE_MESSAGES" in self.rights(op.user, channel)
        if refusal:
            return refusal
        if message.sender != op.user and not may_moderate:
            return "FORBIDDEN"
        if message.is_recalled:
            return None
        if not may_moderate and self.now - message.at > 120_000:
            return "RECALL_TIMEOUT"
        message.content = None
        if message.seq in channel.pins:
            channel.pins.remove(message.seq)
        return None

    def _refuse_revision(self, user: str, channel: ModelChannel, seq: int) -> str | None:
        message = channel.messages[seq - 1]
        has_right = READ_HISTORY in self.rights(user, channel) or message.sender == user
        if not has_right or not self.may_read(user, channel, message):
            return "NOT_FOUND"
        return "INVALID_INPUT" if message.is_system else None

    def _do_read(self, op: Op, channel: ModelChannel) -> None:
        up_to = channel.write_seq if op.value is None else min(op.value, channel.write_seq)
        self._read(channel.states.setdefault(op.user, ReadState(0)), up_to)

    def _read(self, state: ReadState, up_to: int) -> None:
        state.read_seq, state.mark = max(state.read_seq, up_to), None

    def _do_mute(self, op: Op, channel: ModelChannel) -> None:
        if op.value or op.user in channel.states:
            state = channel.states.setdefault(op.user, ReadState(channel.write_seq))
            state.is_muted, state.mark = op.value, None

    def _do_mark(self, op: Op, channel: ModelChannel) -> None:
        state = channel.states.setdefault(op.user, ReadState(channel.write_seq))
        if state.mark is None or state.read_seq > state.mark:
            state.mark = channel.write_seq
