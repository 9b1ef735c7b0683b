"""Stored names of the fields of conversations: documents in MongoDB, heads and memberships in Redis.

The scripts in `scripts/` use the same short names; `_conversation.lua` refers to these tables.
"""

from __future__ import annotations


class ConversationField:
    """Fields of a document in `conversations` (`_id`: the conversation). Times are in ms.

    The newest message is not kept here: it is read from `messages`, so that the two can't disagree.
    """

    KIND = "k"
    """P (private), G (group) or C (channel)."""
    SEQ = "s"
    N = "n"
    """Countable messages up to and including SEQ."""
    MOVED_AT = "at"
    """Time of the newest commit."""
    WRITTEN_AT = "w"
    """Time of the newest countable message's commit."""
    MENTIONS_ALL = "ma"
    """seqs of the newest messages that mention everybody."""

    # Groups only.
    NAME = "name"
    AVATAR = "av"
    OWNER = "own"
    METADATA = "md"
    """Application data, as JSON text."""
    FULL_HISTORY = "hv"
    """True, or absent."""
    CREATED_BY = "by"
    CREATED_AT = "ct"
    MEMBER_COUNT = "mc"
    SUB_BIZ = "sb"
    GROUP_VERSION = "gv"
    """Number of changes so far."""
    LAST_CHANGE = "gi"
    """Message id of the newest change."""
    LAST_CHANGE_AT = "ga"
    END = "st"
    """A `GroupEnd`; absent while the group exists."""
    ENDED_AT = "ds"
    """seq at which the group ended."""
    ENDED_AT_MS = "dt"

    # Private conversations only, for each of the two people (0: the first by user id).
    READ = ("r0", "r1")
    """Read position of each."""
    DELIVERED = ("d0", "d1")
    """Delivered position of each."""
    WROTE_SEQ = ("q0", "q1")
    """seq of the newest countable message of each."""
    WROTE_N = ("m0", "m1")
    """N of that message."""


class HeadField:
    """Fields of a head in Redis (a hash) that differ from the document's.

    KIND, SEQ, N, MOVED_AT, WRITTEN_AT, MEMBER_COUNT, END, ENDED_AT and GROUP_VERSION are the same. SEQ and N count
    reserved messages here.
    """

    NEWEST_SEQ = "ls"
    """seq of the newest committed message."""
    NEWEST = "last"
    """The newest committed message (JSON)."""
    GROUP = "j"
    """Fields of a group that rarely change, by the document's names (JSON)."""
    MEMBERSHIP_VERSION = "mv"
    MEMBERS_TOTAL = "mt"
    """Number of memberships in Redis, current and former; absent: not loaded."""
    PENDING_CHANGE = "pc"
    """Outbox entry of the pending group change; the next change waits for it."""
    POLICY_VERSION = "pv"
    """Channels only: the smallest policy version under which rights may be judged. It only grows."""
    CONTENTS_VERSION = "cv"
    """Changes with every change of stored messages up to NEWEST_SEQ. A newer message does not change it. Random when
    the head is loaded, so that no value is used twice.
    """


class MemberField:
    """Fields of a membership: a document in `members` (`_id`: "<conversation> <user>"), a record (JSON) in Redis."""

    ROLE = "r"
    INTERVALS = "i"
    """[[first seq, last seq or -1], …], oldest first."""
    JOINED_AT = "j"
    """(ms)"""
    READ = "ar"
    """Read position of the member, as senders know it. MongoDB only."""
    DELIVERED = "ad"
    """Delivered position of the member. MongoDB only."""


NO_END = -1
"""Stored end of an interval that has not ended."""
