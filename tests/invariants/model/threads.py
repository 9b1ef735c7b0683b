"""Threads as plain lists of replies and followers, with a model of the conversations that they are in."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.invariants.model.conversation import MEMBER, Json, ModelConversation
from tests.invariants.model.messages import RECALL_MS
from tests.invariants.model.sessions import SessionModel


@dataclass
class ModelReply:
    """One reply. `parent_seq`: the newest seq of the parent conversation when it was sent."""

    seq: int
    sender: str
    mentions: frozenset[str]
    parent_seq: int
    at: int
    id: str = ""
    recalled: bool = False


@dataclass
class ThreadSession:
    """A user's session of a thread.

    `deleted`: the newest seq when it was deleted. `mentions_after`: mentions up to this seq ended with the following.
    """

    read: int
    deleted: int = 0
    mentions_after: int = 0
    muted: bool = False
    reminder: bool = False


@dataclass
class ModelThread:
    """The thread under a message. `intervals`: first and last seq of each user's following; None: it has not ended."""

    id: str
    conversation: str
    parent_seq: int
    replies: list[ModelReply] = field(default_factory=list)
    intervals: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)
    sessions: dict[str, ThreadSession] = field(default_factory=dict)
    locked: bool = False

    @property
    def seq(self) -> int:
        return len(self.replies)

    def follows(self, user: str) -> bool:
        return user in self.intervals and self.intervals[user][-1][1] is None

    def follow(self, user: str, read: int) -> None:
        """Let a user follow from the next reply on, with everything up to `read` read."""
        self.intervals.setdefault(user, []).append((self.seq + 1, None))
        session = self.sessions.setdefault(user, ThreadSession(read))
        session.read, session.deleted = max(session.read, read), 0


class ThreadModel:
    """All threads. `base`: the conversations, with their members and sessions."""

    def __init__(self) -> None:
        self.base = SessionModel()
        self.threads: dict[str, ModelThread] = {}

    def thread(self, conversation: str, parent_seq: int) -> ModelThread:
        """Return the thread under a message, which may have no replies."""
        name = f"t_{parent_seq}_{conversation}"
        return self.threads.setdefault(name, ModelThread(name, conversation, parent_seq))

    def begun(self) -> list[ModelThread]:
        return [thread for thread in self.threads.values() if thread.replies]

    def parent_of(self, thread: ModelThread) -> ModelConversation:
        return self.base.conversations[thread.conversation]

    # --- what is readable

    def readable(self, user: str, thread: ModelThread) -> list[ModelReply]:
        parent = self.parent_of(thread)
        if not parent.may_read(user, thread.parent_seq):
            return []
        return [reply for reply in thread.replies if parent.may_read(user, reply.parent_seq)]

    def sees(self, user: str, thread: ModelThread) -> bool:
        """Return whether the thread exists for a user. Who left before the first reply sees none."""
        parent = self.parent_of(thread)
        if not thread.replies or not parent.may_read(user, thread.parent_seq):
            return False
        return user in parent.members or bool(self.readable(user, thread))

    def shown(self, user: str, thread: ModelThread) -> Json | None:
        """Return a thread as the API shows it to a user."""
        if not self.sees(user, thread):
            return None
        replies = self.readable(user, thread)
        latest = {reply.sender: reply.seq for reply in replies}
        end = thread.seq + 1 if user in self.parent_of(thread).members else replies[-1].seq
        followers = [
            who
            for who, rows in thread.intervals.items()
            if any(first <= end and (last is None or last >= end) for first, last in rows)
        ]
        return {
            "replies": [(reply.seq, reply.sender, reply.recalled) for reply in replies],
            "replyCount": sum(not reply.recalled for reply in replies),
            "participantCount": len(latest),
            "participants": sorted(latest, key=lambda who: -latest[who]),
            "followerCount": len(followers),
            "viewerFollows": thread.follows(user) and user in self.parent_of(thread).members,
            "isLocked": thread.locked,
        }

    # --- sessions

    def is_listed(self, user: str, thread: ModelThread) -> bool:
        """Return whether a thread is in the user's inbox."""
        if not thread.follows(user) or user not in self.parent_of(thread).members:
            return False
        deleted = thread.sessions[user].deleted
        return not deleted or thread.seq > deleted

    def unread(self, user: str, thread: ModelThread) -> list[ModelReply]:
        session = thread.sessions.get(user)
        if session is None or user not in self.parent_of(thread).members:
            return []
        read = max(session.read, session.deleted)
        return [reply for reply in self.readable(user, thread) if reply.seq > read and reply.sender != user]

    def mentions(self, user: str, thread: ModelThread) -> int:
        after = 0 if thread.follows(user) or user not in thread.sessions else thread.sessions[user].mentions_after
        return sum(user in reply.mentions and reply.seq > after for reply in self.unread(user, thread))

    def attention(self, user: str) -> Json:
        found: Json = dict(self.base.attention(user))
        for thread in self.begun():
            if user in thread.sessions and not thread.sessions[user].muted:
                listed, unread = self.is_listed(user, thread), len(self.unread(user, thread))
                found["unread"] += unread if listed else 0
                found["threads"] += bool(listed and unread)
                found["mentions"] += self.mentions(user, thread)
        return found

    # --- operations. Each returns the errors that are right; an empty set: it is carried out

    def _no_access(self, user: str, thread: ModelThread) -> str | None:
        parent = self.parent_of(thread)
        if not parent.may_read(user, thread.parent_seq):
            return "NOT_FOUND"
        return None if user in parent.members else "NOT_A_MEMBER"

    def may_manage(self, user: str, thread: ModelThread) -> bool:
        """Return whether a user may lock a thread, and write while it is locked."""
        parent = self.parent_of(thread)
        return parent.members[user] not in ("", MEMBER) or parent.messages[thread.parent_seq - 1].sender == user

    def reply(self, user: str, thread: ModelThread, mentions: frozenset[str], named: str | int | None) -> set[str]:
        """Reply. named: None: by the parent message; a seq: by this reply; the id of the thread."""
        parent = self.parent_of(thread)
        refused = self._no_access(user, thread)
        if refused:
            # A member who left before the first reply finds no thread.
            return {refused} if named is None or self.sees(user, thread) else {"NOT_FOUND"}
        if isinstance(named, str) and not thread.replies:
            return {"NOT_FOUND"}
        if isinstance(named, int) and not parent.may_read(user, thread.replies[named - 1].parent_seq):
            return {"NOT_FOUND"}
        sent = parent.messages[thread.parent_seq - 1]
        if sent.system or (sent.recalled and not thread.replies):
            return {"INVALID_INPUT"}
        errors = set()
        if thread.locked and not self.may_manage(user, thread):
            errors.add("FORBIDDEN")
        if any(self._no_access(other, thread) for other in mentions):
            errors.add("INVALID_INPUT")
        if errors:
            return errors
        seq = thread.seq + 1
        for who in (user, *mentions):
            if who not in thread.intervals:
                thread.follow(who, seq - 1)
            elif who not in thread.sessions:
                thread.sessions[who] = ThreadSession(seq - 1)
        thread.replies.append(ModelReply(seq, user, mentions, parent.seq, self.base.now))
        session = thread.sessions[user]
        session.read, session.reminder = seq, False
        return set()

    def recall(self, user: str, thread: ModelThread, seq: int) -> set[str]:
        reply, parent = thread.replies[seq - 1], self.parent_of(thread)
        if reply not in self.readable(user, thread):
            return {"NOT_FOUND"}
        if user not in parent.members:
            return {"NOT_A_MEMBER"}
        moderates = parent.members[user] not in ("", MEMBER)
        if reply.sender != user and not moderates:
            return {"FORBIDDEN"}
        if self.base.now - reply.at > RECALL_MS and not moderates and not reply.recalled:
            return {"RECALL_TIMEOUT"}
        reply.recalled = True
        return set()

    def follow(self, user: str, thread: ModelThread, on: bool) -> set[str]:
        refused = self._no_access(user, thread)
        if refused or not thread.replies:
            return {refused if refused and self.sees(user, thread) else "NOT_FOUND"}
        if on and not thread.follows(user):
            thread.follow(user, thread.seq)
        elif not on and thread.follows(user):
            first, _ = thread.intervals[user][-1]
            thread.intervals[user][-1] = (first, thread.seq)
            thread.sessions[user].mentions_after = thread.seq
        return set()

    def lock(self, user: str, thread: ModelThread, on: bool) -> set[str]:
        refused = self._no_access(user, thread)
        if refused or not thread.replies:
            return {refused if refused and self.sees(user, thread) else "NOT_FOUND"}
        if not self.may_manage(user, thread):
            return {"FORBIDDEN"}
        thread.locked = on
        return set()

    def read(self, user: str, thread: ModelThread, up_to: int | None) -> None:
        """Mark a thread as read. The caller can see it."""
        seq = thread.seq if up_to is None else min(up_to, thread.seq)
        session = thread.sessions.setdefault(user, ThreadSession(0))
        session.read, session.reminder = max(session.read, seq), False
