"""Stored names of the fields of conversations: documents in MongoDB, heads and memberships in Redis.

The scripts in `scripts/` use the same short names; `_conversation.lua` refers to these tables.
"""

from __future__ import annotations


class ConversationField:
    """Fields of a document in `conversations` (`_id`: the conversation). Times are in ms.

    The newest message is not kept here: it is read from `messages`, so that the two can't disagree.
    """

    KIND = "k"
    """P (private), G (group), C (channel) or T (thread)."""
    SEQ = "s"
    N = "n"
    """Countable messages up to and including SEQ."""
    MOVED_AT = "at"
    """Time of the newest commit."""
    WRITTEN_AT = "w"
    """Time of the newest countable message's commit."""
    MENTIONS_ALL = "ma"
    """seqs of the newest messages that mention everybody."""
    FLOOR_SEQ = "fl"
    """The floor: messages up to this seq are expired. Nobody reads them any more. It only grows. Absent: none."""
    FLOOR_N = "fn"
    """Countable messages up to FLOOR_SEQ."""
    OLDEST_AT = "fo"
    """No message after the floor was sent before this time. Only groups and private conversations."""
    PINS = "pi"
    """Pinned messages, the latest pin last: documents with the fields of `PinField`."""
    PIN_VERSION = "pk"
    """Number of changes of PINS so far."""
    PIN_NOTES = "pa"
    """Changes of PINS that are not announced yet, oldest first: documents with the fields of `PinNoteField`."""
    GUARDED_PINS = "pg"
    """Groups only. Number of changes of pins in its threads. Each writes it under the version of the group that its
    rights were judged under.
    """

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

    # Threads only. They also have GROUP_VERSION, LAST_CHANGE, LAST_CHANGE_AT, MEMBER_COUNT (followers) and CREATED_BY.
    PARENT = "tp"
    """The parent conversation. MongoDB only."""
    RECALLED = "x"
    """Countable messages that are recalled."""
    REPLIERS = "rp"
    """People who have replied."""
    LOCKED = "lk"
    """True, or absent."""

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

    KIND, SEQ, N, MOVED_AT, WRITTEN_AT, MEMBER_COUNT, END, ENDED_AT, GROUP_VERSION, PIN_VERSION, FLOOR_SEQ and FLOOR_N
    are the same. SEQ and N count reserved messages here.
    """

    NEWEST_SEQ = "ls"
    """seq of the newest committed message."""
    NEWEST = "last"
    """The newest committed message (JSON)."""
    GROUP = "j"
    """Fields of a group or thread that rarely change, by the document's names (JSON)."""
    MEMBERSHIP_VERSION = "mv"
    MEMBERS_TOTAL = "mt"
    """Number of memberships in Redis, current and former; absent: not loaded."""
    PENDING_CHANGE = "pc"
    """Outbox entry of the pending group change; the next change waits for it."""
    POLICY_VERSION = "pv"
    """Channels only: the smallest policy version under which rights may be judged. It only grows."""
    PARENT_SEQ = "ps"
    """Threads only: PARENT_SEQ of the newest reserved message (`MessageField`)."""
    PARTICIPANTS = "pp"
    """Threads only: seq of the newest reply and user, of the latest repliers, latest first (JSON)."""
    BLOCKED = "bl"
    """Private conversations only: those of the two people that the other one has blocked, each between spaces. Absent
    if a server loaded the head that knows no blocks.
    """
    PIN_COUNT = "pt"
    """Channels only: number of pinned messages. Absent if a server loaded the head that knows no pins."""
    CONTENTS_VERSION = "cv"
    """Changes with every change of stored messages up to NEWEST_SEQ. A newer message does not change it. Random when
    the head is loaded, so that no value is used twice.
    """


class PinField:
    """Fields of a pin in `ConversationField.PINS`."""

    SEQ = "s"
    NUMBER = "v"
    """PIN_VERSION after the pin. A later pin has a higher one."""


class PinNoteField:
    """Fields of a note in `ConversationField.PIN_NOTES`."""

    NUMBER = "v"
    """PIN_VERSION after the change."""
    SEQ = "s"
    """seq of the message that was pinned or unpinned."""
    AT = "a"
    """Time of the change (ms)."""
    ANNOUNCEMENT = "i"
    """Id of the SYSTEM message that announces a pin, a decimal string. Absent: the message was unpinned."""
    ACTOR = "u"
    """The user who pinned it. Only with ANNOUNCEMENT."""


class MemberField:
    """Fields of a membership: a document in `members` (`_id`: "<conversation> <user>"), a record (JSON) in Redis.

    A thread has one of everybody who followed it, replied, or stopped following; its intervals are those in which the
    user follows. Empty fields are left out, because Lua's JSON can't tell [] from {}.
    """

    ROLE = "r"
    INTERVALS = "i"
    """[[first seq, last seq or -1], …], oldest first."""
    JOINED_AT = "j"
    """(ms)"""
    READ = "ar"
    """Read position of the member, as senders know it. MongoDB only."""
    DELIVERED = "ad"
    """Delivered position of the member. MongoDB only."""

    # Threads only. Intervals are those in which the user followed.
    UNFOLLOWED = "u"
    """True if the user has stopped following, so that nothing but their own call makes them follow again."""
    LAST_REPLY = "lr"
    """seq of the user's newest reply. In Redis the seq of any of them. Absent: no reply."""


MAX_FOLLOWERS = 1_000
"""Followers of a thread."""

MAX_PARTICIPANTS = 50
"""Latest repliers that the head of a thread has."""

NO_END = -1
"""Stored end of an interval that has not ended."""
