"""A conversation as a list of messages, with the intervals of its members and what each user may read."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

OWNER, ADMIN, MEMBER = "OWNER", "ADMIN", "MEMBER"
DISSOLVED, DISMISSED = "DISSOLVED", "DISMISSED"


@dataclass
class ModelMessage:
    """One message.

    `reply` is the seq of the message that it answers. `texts` is each content it had, oldest first; empty for SYSTEM.
    `event` is the kind and the text of what a SYSTEM message announces. `reactions` are the users of each emoji.
    """

    seq: int
    sender: str
    mentions: frozenset[str] = frozenset()
    mentions_all: bool = False
    texts: list[str] = field(default_factory=list)
    reply: int | None = None
    at: int = 0
    recalled_by: str | None = None
    event: tuple[str, str | None] | None = None
    recipients: frozenset[str] = frozenset()
    reactions: dict[str, list[str]] = field(default_factory=dict)

    @property
    def system(self) -> bool:
        return self.event is not None

    @property
    def recalled(self) -> bool:
        return self.recalled_by is not None

    @property
    def content(self) -> str | None:
        return None if self.recalled or self.system else self.texts[-1]

    def reactions_for(self, user: str) -> list[Json]:
        """Return the reactions as the API shows them to a user."""
        reactions = {} if self.recalled else self.reactions
        return [
            {"emoji": emoji, "count": len(users), "viewerReacted": user in users, "users": users[:5]}
            for emoji, users in reactions.items()
        ]


@dataclass
class ModelConversation:
    """One conversation.

    `members` are the present ones with their roles. `intervals` are the first and last seq of each membership, the
    last one open for members. `ended` says how a group ended, if it did. `left` is the group as former members see it.
    `pins` are the seqs of the pinned messages, the latest pin last.
    """

    members: dict[str, str]
    sub_biz: str | None = None
    name: str = "Group"
    avatar_url: str | None = None
    metadata: Json | None = None
    full: bool = False
    owner: str = ""
    ended: str = ""
    messages: list[ModelMessage] = field(default_factory=list)
    intervals: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    left: dict[str, ModelConversation] = field(default_factory=dict)
    pins: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for user in self.members:
            self.intervals[user] = [(1, None)]

    @property
    def seq(self) -> int:
        return len(self.messages)

    def add_message(self, sender: str, **more: Any) -> ModelMessage:
        """Append the next message."""
        recipients = frozenset(self.members) - {sender}
        sent = ModelMessage(self.seq + 1, sender, recipients=recipients, **more)
        self.messages.append(sent)
        return sent

    def add_event(
        self, actor: str, kind: str, *targets: str, text: str | None = None, reply: int | None = None
    ) -> ModelMessage:
        """Append the SYSTEM message that announces a change."""
        return self.add_message(actor, mentions=frozenset(targets), event=(kind, text), reply=reply)

    def add_member(self, user: str) -> None:
        """Add a member from the next message on."""
        self.members[user] = MEMBER
        self.left.pop(user, None)
        self.intervals.setdefault(user, []).append((self.seq + 1, None))

    def remove_member(self, user: str) -> None:
        """End a membership at the last message."""
        del self.members[user]
        first, _ = self.intervals[user][-1]
        self.intervals[user][-1] = (first, self.seq)
        seen = copy(self)
        seen.members, seen.left = dict(self.members), {}
        self.left[user] = seen

    def end(self, how: str) -> None:
        for user in list(self.members):
            self.remove_member(user)
            del self.left[user]
        self.ended = how

    def seen_by(self, user: str) -> ModelConversation:
        """Return the conversation with the fields of a group as a user sees them."""
        return self.left.get(user, self)

    def has_had(self, user: str) -> bool:
        """Return whether a user is or was a member, and the group is not dismissed."""
        return user in self.intervals and self.ended != DISMISSED

    def last_seq(self, user: str) -> int:
        """Return the last seq of a user's newest interval."""
        last = self.intervals[user][-1][1]
        return self.seq if last is None else last

    def visible_ranges(self, user: str) -> list[tuple[int, int | None]]:
        """Return the ranges of seq that a user may read."""
        if not self.has_had(user):
            return []
        intervals = [(1, self.intervals[user][-1][1])] if self.full else self.intervals[user]
        return [(first, last) for first, last in intervals if last is None or first <= last]

    def may_read(self, user: str, seq: int) -> bool:
        return any(first <= seq and (last is None or seq <= last) for first, last in self.visible_ranges(user))

    def readable(self, user: str) -> list[ModelMessage]:
        return [sent for sent in self.messages if self.may_read(user, sent.seq)]

    def newest(self, user: str) -> int | None:
        """Return the seq of the newest message that a user may read."""
        return max((sent.seq for sent in self.readable(user)), default=None)

    def message_for(self, user: str, sent: ModelMessage) -> Json:
        """Return a message as the API shows it to a user who may read it."""
        reply = self.messages[sent.reply - 1] if sent.reply and self.may_read(user, sent.reply) else None
        return {
            "seq": sent.seq,
            "sender": sent.sender,
            "contentType": "SYSTEM" if sent.system else "TEXT",
            "editCount": max(0, len(sent.texts) - 1),
            "editedAt": len(sent.texts) > 1,
            "recalledAt": sent.recalled,
            "recalledBy": sent.recalled_by,
            "systemEvent": sent.event
            and {"kind": sent.event[0], "actor": sent.sender, "targets": sorted(sent.mentions), "text": sent.event[1]},
            "state": "RECALLED" if sent.recalled else "NORMAL",
            "content": sent.content,
            "mentions": sorted(sent.mentions),
            "mentionsAll": sent.mentions_all,
            "replyTo": {"seq": reply.seq, "content": reply.content} if reply else None,
            "reactions": sent.reactions_for(user),
            "isPinned": sent.seq in self.pins,
        }

    def shared_group(self) -> Json:
        """Return the fields of a group that GroupChanged shows, and that change with no other event."""
        return {
            "name": self.name,
            "avatarUrl": self.avatar_url,
            "metadata": self.metadata,
            "owner": {"id": self.owner},
            "historyVisibility": "FULL" if self.full else "SINCE_JOIN",
        }

    def group_for(self, user: str) -> Json:
        """Return a group as the API shows it to a present or former member."""
        inside, seen = user in self.members, self.seen_by(user)
        return {
            "title": seen.name,
            "name": seen.name,
            "avatarUrl": seen.avatar_url,
            "metadata": seen.metadata,
            "owner": seen.owner,
            "memberCount": 0 if self.ended else len(seen.members),
            "viewerRole": self.members.get(user),
            "historyVisibility": "FULL" if self.full else "SINCE_JOIN",
            "status": DISSOLVED if self.ended else "ACTIVE",
            "visibleRanges": [{"fromSeq": first, "toSeq": last} for first, last in self.visible_ranges(user)],
            "lastMessage": self.newest(user),
            "members": dict(sorted(self.members.items())) if inside else None,
        }
