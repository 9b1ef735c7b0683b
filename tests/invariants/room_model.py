"""Conversations as lists of messages: who was in them from which message to which, and what each person may read of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

OWNER, ADMIN, MEMBER = "OWNER", "ADMIN", "MEMBER"
DISSOLVED, DISMISSED = "DISSOLVED", "DISMISSED"


@dataclass
class Said:
    """One message. `reply`: the seq of what it answers. `texts`: each content it had, oldest first; SYSTEM messages: empty."""

    seq: int
    sender: str
    system: bool = False
    mentions: frozenset[str] = frozenset()
    everybody: bool = False
    texts: list[str] = field(default_factory=list)
    reply: int | None = None
    at: int = 0
    recalled: bool = False
    recipients: frozenset[str] = frozenset()

    @property
    def content(self) -> str | None:
        return None if self.recalled or self.system else self.texts[-1]


@dataclass
class Room:
    """One conversation. `members`: with their roles. `stays`: first and last seq of each stretch that somebody was in it, the
    last one open for members. `ended`: how, if it has."""

    members: dict[str, str]
    sub_biz: str | None = None
    name: str = "Group"
    picture: str | None = None
    full: bool = False
    owner: str = ""
    ended: str = ""
    said: list[Said] = field(default_factory=list)
    stays: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for user in self.members:
            self.stays[user] = [(1, None)]

    @property
    def seq(self) -> int:
        return len(self.said)

    def say(self, sender: str, *, told: list[str] | None = None, **more: Any) -> Said:
        """The next message. It is one by the server where it tells of somebody."""
        system = told is not None
        recipients = frozenset(self.members) - {sender}
        mentions = frozenset(more.pop("mentions", told or ()))
        said = Said(self.seq + 1, sender, system, mentions, recipients=recipients, **more)
        self.said.append(said)
        return said

    def enter(self, user: str) -> None:
        """From the next message on."""
        self.members[user] = MEMBER
        self.stays.setdefault(user, []).append((self.seq + 1, None))

    def go(self, user: str) -> None:
        """Up to the last message."""
        del self.members[user]
        first, _ = self.stays[user][-1]
        self.stays[user][-1] = (first, self.seq)

    def end(self, how: str) -> None:
        for user in list(self.members):
            self.go(user)
        self.ended = how

    def knows(self, user: str) -> bool:
        """Whether somebody is or was in it, and it is there."""
        return user in self.stays and self.ended != DISMISSED

    def top(self, user: str) -> int:
        """The last seq that concerns somebody."""
        last = self.stays[user][-1][1]
        return self.seq if last is None else last

    def ranges(self, user: str) -> list[tuple[int, int | None]]:
        """What somebody may read."""
        if not self.knows(user):
            return []
        stays = [(1, self.stays[user][-1][1])] if self.full else self.stays[user]
        return [(first, last) for first, last in stays if last is None or first <= last]

    def may_read(self, user: str, seq: int) -> bool:
        return any(first <= seq and (last is None or seq <= last) for first, last in self.ranges(user))

    def readable(self, user: str) -> list[Said]:
        return [said for said in self.said if self.may_read(user, said.seq)]

    def newest(self, user: str) -> int | None:
        """The seq of the newest message that somebody may read."""
        return max((said.seq for said in self.readable(user)), default=None)

    def shown(self, user: str, said: Said) -> Json:
        """A message as somebody who may read it is shown it."""
        reply = self.said[said.reply - 1] if said.reply and self.may_read(user, said.reply) else None
        return {
            "seq": said.seq,
            "sender": said.sender,
            "contentType": "SYSTEM" if said.system else "TEXT",
            "editCount": max(0, len(said.texts) - 1),
            "editedAt": len(said.texts) > 1,
            "recalledAt": said.recalled,
            "state": "RECALLED" if said.recalled else "NORMAL",
            "content": said.content,
            "mentions": sorted(said.mentions),
            "mentionsAll": said.everybody,
            "replyTo": {"seq": reply.seq, "content": reply.content} if reply else None,
        }

    def told(self, user: str) -> Json:
        """A group as somebody who is or was in it is told of it; of a dismissed one their session tells so much."""
        inside = user in self.members
        return {
            "title": self.name,
            "name": self.name,
            "avatarUrl": self.picture,
            "owner": self.owner,
            "memberCount": len(self.members),
            "viewerRole": self.members.get(user),
            "historyVisibility": "FULL" if self.full else "SINCE_JOIN",
            "status": DISSOLVED if self.ended else "ACTIVE",
            "visibleRanges": [{"fromSeq": first, "toSeq": last} for first, last in self.ranges(user)],
            "lastMessage": self.newest(user),
            "members": dict(sorted(self.members.items())) if inside else None,
        }
