"""Places of messages: why a place is reserved, under which terms, and why a message is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from store.content_rules.content_flag import ContentFlag
from store.messages.message import Message


class ReservationReason(Enum):
    """The reason why a message gets a place."""

    NEW_MESSAGE = auto()
    DISPLACED_MESSAGE = auto()
    """The first place of the message is taken: MongoDB has another message there."""
    MISSING_COPY = auto()
    """A reply is stored, but not its copy. Several servers may notice this at the same time."""
    ANNOUNCEMENT = auto()
    """A SYSTEM message about a change that is stored. Several servers may send it at the same time."""

    @property
    def rights_were_checked(self) -> bool:
        """True unless the message is new. Its rights were checked before, or it needs none."""
        return self is not ReservationReason.NEW_MESSAGE

    def is_limited_to_one_place(self, message: Message) -> bool:
        """Return whether the message gets at most one place within a minute. A mark in Redis ensures this."""
        match self:
            case ReservationReason.NEW_MESSAGE:
                return message.key is not None
            case ReservationReason.DISPLACED_MESSAGE:
                return False
            case ReservationReason.MISSING_COPY | ReservationReason.ANNOUNCEMENT:
                return True


class Refusal(StrEnum):
    """Reasons why a message or a change got no place, as `reserve.lua` and the other scripts answer them."""

    NOT_LOADED = "not_loaded"
    """The conversation is not in the cache."""
    NOT_A_MEMBER = "not_a_member"
    FORMER_MEMBER = "former_member"
    BLOCKED = "blocked"
    """The other person of the private conversation has blocked the sender."""
    FORBIDDEN = "forbidden"
    """Only an owner or admin may do this."""
    MENTION_NOT_A_MEMBER = "mention_not_a_member"
    BUSY = "busy"
    """A pending group change has to be durable first: somebody leaves, or the sender or a mentioned user joins."""
    ALREADY_RESERVED = "already_reserved"
    """Another request has reserved a place for the same message."""
    LOCKED = "locked"
    """The thread is locked."""
    HIDDEN = "hidden"
    """The sender can't read the parent message of the thread."""
    MAY_NOT_CREATE = "may_not_create"
    """The message would begin a thread, which the sender may not do."""
    NO_THREAD = "no_thread"
    """There is no thread, and a SYSTEM message can't begin one."""
    OUTDATED = "outdated"
    """The membership has changed since the change was decided."""
    OUTDATED_RIGHTS = "outdated_rights"
    """The rights of the user who changes a thread have changed since the change was decided."""


class OutdatedRights(NamedTuple):
    """A message got no place in a channel, because its sender's rights have to be judged under this policy version."""

    version: int


class SlowModeWait(NamedTuple):
    """A message got no place in a channel, because its sender has to wait (ms)."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class ChannelTerms:
    """Terms under which a message gets a place in a channel, or in a thread there.

    judged_version: The policy version under which the sender's rights were judged; None: the message needs none.
    slow_mode_ms: Time between two messages of the sender; 0: any.
    may_manage_threads: The sender may write in a locked thread.
    may_create_threads: The sender may begin a thread.
    may_embed_links: The links of the message are previewed.
    flag: A content rule wants a report about the message.
    """

    judged_version: int | None = None
    slow_mode_ms: int = 0
    may_manage_threads: bool = True
    may_create_threads: bool = True
    may_embed_links: bool = True
    flag: ContentFlag | None = None


@dataclass(frozen=True, slots=True)
class ThreadTerms:
    """Terms under which a user may change a thread. The change is made only if they still hold.

    judged_version: In a channel, the policy version under which the rights of the user were judged; else 0.
    needs_moderator: In a group, the user needs to be its owner or an admin.
    """

    judged_version: int
    needs_moderator: bool
