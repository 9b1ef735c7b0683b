"""The table of a session's fields: how they are stored and what resets them, in one place.

A session is stored twice: as a row of MongoDB's collection `sessions` (`_id`: "<user> <conversation>"), which is
durable, and as a record in Redis, a JSON object built from the row and the conversation's head. Stored names are short,
because there are many rows and records. A field that has its default is left out, unless it is `fixed`.

A new message does not write the rows of its readers. In a private conversation it does not write the sender's row
either. So `write_seq` and `n` come from the head, and in private conversations the sender's read position too. The
gateway of a subBiz has a row once a setting was changed on it.

The session of a channel is in no list of sessions and no sum but that of mentions. What it takes from the head is not
stored in Redis either: it is added whenever the session is read (`store/channels/channel_sessions.py`). The same is
true of a thread that the user does not follow. The session of a followed thread is like that of a group in a subBiz.

`store/sessions/script_constants.py` passes the lists below to the Lua scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from store.base.ids import ConversationId, without_thread

T = TypeVar("T")


class Kept(Enum):
    """Where a field is stored, and what resets it."""

    SETTING = "row and record; kept when the user joins again, reset by a hard delete"
    STATE = "row and record; reset when the user joins again"
    REMINDER = "row and record; reset when the user joins again, and by every other change"
    POSITION = "row and record; the record has the later of the row's and the head's value"
    HEAD = "record only; from the conversation's head"
    MEMBERSHIP = "record only; the row has it under other names, see LAST_READABLE_SEQ below"
    CACHE = "record only; lost with the cached state, which is safe"
    GATEWAY = "record of a gateway only; computed from the sessions in its subBiz"


class NotificationLevel(StrEnum):
    """Messages that cause notifications: all, those that mention the user, or none."""

    ALL = "ALL"
    MENTIONS = "MENTIONS"
    NONE = "NONE"


DEFAULT_LEVEL = NotificationLevel.ALL
"""In force where nothing is set."""

_IN_ROW = (Kept.SETTING, Kept.STATE, Kept.REMINDER)


class Field(property, Generic[T]):
    """One field of a session, and the property of `Session` that reads it.

    Args:
        kind: Turns the stored value into the Python value.
        stored: The name in rows and records.
        kept: Where it is stored, and what resets it.
        doc: Its meaning.
        default: The value if none is stored.
        fixed: Every record has the field. Fixed fields come first, in the order of this table.
        text: Records store the number as text, because Lua's JSON keeps only 14 digits.
    """

    def __init__(
        self,
        kind: Callable[[Any], T],
        stored: str,
        kept: Kept,
        doc: str,
        *,
        default: T,
        fixed: bool = False,
        text: bool = False,
    ) -> None:
        super().__init__(_reader(kind, stored, default, fixed), doc=doc)
        self.stored = stored
        self.kept = kept
        self.default = default
        self.fixed = fixed
        self._text = text

    if TYPE_CHECKING:

        @overload
        def __get__(self, session: None, owner: type | None = None, /) -> Field[T]: ...
        @overload
        def __get__(self, session: object, owner: type | None = None, /) -> T: ...
        def __get__(self, session: object, owner: type | None = None, /) -> Field[T] | T: ...

    def of(self, session: object) -> T:
        """Return the field's value in a session."""
        return self.__get__(session)

    def in_row(self, value: T) -> Any:
        """Return the value as rows store it; None: it is left out."""
        if value == self.default:
            return None
        return int(value) if isinstance(value, bool) else value

    def in_record(self, value: T) -> Any:
        """Return the value as records store it; None: it is left out."""
        if value == self.default:
            return value if self.fixed else None
        if self._text:
            return str(value)
        return int(value) if isinstance(value, bool) else value


def _reader(kind: Callable[[Any], T], stored: str, default: T, fixed: bool) -> Callable[[Any], T]:
    if fixed:
        return lambda session: session.record[stored]

    def read(session: Any) -> T:
        value = session.record.get(stored)
        return default if value is None else kind(value)

    return read


class SessionFields:
    """The fields of a session. A setting that is added here is stored, kept, reset and read without further code."""

    __slots__ = ()

    write_seq = Field(int, "s", Kept.HEAD, "Seq of the newest message.", default=0, fixed=True)
    n = Field(int, "n", Kept.HEAD, "Countable messages up to `write_seq`.", default=0, fixed=True)
    acknowledged_seq = Field(
        int,
        "r",
        Kept.POSITION,
        "Read position as the senders know it: deleting does not move it.",
        default=0,
        fixed=True,
    )
    read_n = Field(int, "rn", Kept.POSITION, "Countable messages up to `acknowledged_seq`.", default=0, fixed=True)
    received_seq = Field(
        int,
        "d",
        Kept.POSITION,
        "Delivered position as the senders know it: deleting does not move it.",
        default=0,
        fixed=True,
    )
    priority = Field(int, "p", Kept.SETTING, "Above 0: pinned, higher nearer the top.", default=0, fixed=True)
    active_ts = Field(
        int, "a", Kept.POSITION, "Tick of the last change on the user's clock, ms.", default=0, fixed=True
    )
    write_ts = Field(int, "w", Kept.POSITION, "Time that sorts the session in lists, ms.", default=0, fixed=True)
    peer_read_seq = Field(int, "pr", Kept.HEAD, "Read position of the peer of a private conversation.", default=0)
    peer_delivered_seq = Field(
        int, "pd", Kept.HEAD, "Delivered position of the peer of a private conversation.", default=0
    )

    muted = Field(bool, "m", Kept.SETTING, "Not counted in the total of unread messages.", default=False)
    muted_until_ms = Field[int | None](
        int, "mu", Kept.SETTING, "End of the mute, ms; None: it does not end by itself.", default=None, text=True
    )
    notification_level = Field[NotificationLevel | None](
        NotificationLevel, "nl", Kept.SETTING, "Set by the user; None: that of the workspace, else ALL.", default=None
    )
    suppresses_everyone = Field[bool | None](
        bool, "se", Kept.SETTING, "Mentions of everybody do not notify; None: as in the workspace.", default=None
    )
    category = Field[str | None](str, "ca", Kept.SETTING, "Label that the user gave it.", default=None)

    deleted_seq = Field[int | None](
        int, "x", Kept.STATE, "`write_seq` when the user deleted it; None: never deleted.", default=None
    )
    deleted_n = Field[int | None](int, "xn", Kept.STATE, "`n` when the user deleted it.", default=None)
    unread_mark = Field[int | None](
        int, "us", Kept.REMINDER, "`write_seq` when the user marked it unread; None: not marked.", default=None
    )
    mentions = Field[tuple[int, ...]](
        tuple, "ms", Kept.POSITION, "Seqs of the unread messages that mention the user, ascending.", default=()
    )

    follows = Field(bool, "fw", Kept.STATE, "Channels and threads: the user follows it.", default=False)
    follow_version = Field(
        int, "fv", Kept.STATE, "Threads only: version at which the user began or ended to follow it.", default=0
    )
    workspace_level_at_ms = Field[int | None](
        int, "nw", Kept.STATE, "Channels only: when the workspace's notification level last changed.", default=None
    )

    sub_biz = Field[str | None](str, "sb", Kept.HEAD, "The subBiz that it is in; None for gateways.", default=None)
    dissolved = Field(bool, "dd", Kept.HEAD, "The group has ended.", default=False)
    group_version = Field(
        int, "gv", Kept.HEAD, "Version of the group whose update was applied last; 0: none.", default=0
    )
    last_readable_seq = Field[int | None](
        int, "f", Kept.MEMBERSHIP, "Last seq that a former member may read; None: a member.", default=None
    )
    hidden = Field(
        bool, "hi", Kept.MEMBERSHIP, "Threads only: the user can't see the parent conversation any more.", default=False
    )
    notified_read_seq = Field(
        int, "pt", Kept.CACHE, "Read position of the peer in the last receipt to the user.", default=0
    )
    notified_delivered_seq = Field(
        int, "dt", Kept.CACHE, "Delivered position of the peer in the last receipt to the user.", default=0
    )
    floor_seq = Field(int, "vs", Kept.HEAD, "Seq up to which messages are expired (ADR 99); 0: none.", default=0)
    floor_n = Field(int, "vn", Kept.HEAD, "Countable messages up to `floor_seq`.", default=0)
    gaps = Field[tuple[int, ...]](
        tuple,
        "g",
        Kept.CACHE,
        "Seqs up to `write_seq` that are not applied yet: first and last of each range.",
        default=(),
    )

    own_write_ts = Field(
        int, "ow", Kept.GATEWAY, "`write_ts` of the gateway itself, without the sessions inside.", default=0
    )
    valid_inside = Field(int, "gn", Kept.GATEWAY, "Valid sessions inside.", default=0)
    unread_inside = Field(int, "gu", Kept.GATEWAY, "Unread messages inside, without muted sessions.", default=0)
    mentions_inside = Field(int, "gq", Kept.GATEWAY, "Unread mentions inside, without muted sessions.", default=0)
    threads_inside = Field(int, "gt", Kept.GATEWAY, "Unread threads inside, without muted sessions.", default=0)
    newest_inside = Field[ConversationId | None](
        ConversationId, "lc", Kept.GATEWAY, "Conversation inside with the newest message.", default=None
    )


class SyncReason(StrEnum):
    """Reasons for changes of sessions, stored in logs and sent to devices. CATCH_UP is never stored."""

    READ = "READ"
    DELIVERED = "DELIVERED"
    DELETE = "DELETE"
    MUTE = "MUTE"
    UNMUTE = "UNMUTE"
    UNREAD = "UNREAD"
    PIN = "PIN"
    UNPIN = "UNPIN"
    CATEGORY = "CATEGORY"
    MEMBERSHIP = "MEMBERSHIP"
    NOTIFICATIONS = "NOTIFICATIONS"
    CATCH_UP = "CATCH_UP"


FENCE = "f"
"""Row only: fence of the lock under which the row was last changed. (In records this name is `last_readable_seq`.)"""

LAST_READABLE_SEQ, LAST_READABLE_N = "fs", "fn"
"""Row of a former member only: the last seq that they may read, and `n` up to there."""

CHANNEL = "ch"
"""Row only: the channel, in rows of sessions in channels. The index finds all of them when the channel is deleted.

In rows of sessions of threads in a channel: `threads_mark` of the channel, so that the same index finds these.
"""

WAS_HIDDEN = "hd"
"""Row only: the thread was hidden at the user's last load, and `syncSessions` has returned it as INVALID since."""

HIDDEN_UNDER = "hv"
"""Row only, threads in channels: policy version of the latest change that hid the thread from the user."""

NOTED_LOSS = "lo"
"""Row only, threads: the latest loss of access that the user's last load knew. See `ThreadRows.note_hidden`."""

GONE = "gd"
"""Row only: the channel was deleted, and the row is about to be removed."""

JOINED_N = "jn"
"""Row only: `n` when the user joined last. Older messages that become durable later do not move their session."""

JOINED_SEQ = "js"
"""Row only, groups: seq of the message by which the user joined last. Replies in threads before it are read."""

NAMES: Mapping[str, Field[Any]] = {name: f for name, f in vars(SessionFields).items() if isinstance(f, Field)}
"""The table, by Python name."""

FIELDS = tuple(NAMES.values())

IN_ROW_AND_RECORD = tuple(f for f in FIELDS if f.kept in _IN_ROW)
"""Copied from the row into the record."""

ROW_FIELDS = frozenset(
    (
        *("_id", FENCE, LAST_READABLE_SEQ, LAST_READABLE_N, CHANNEL, WAS_HIDDEN, HIDDEN_UNDER, NOTED_LOSS, GONE),
        *(JOINED_N, JOINED_SEQ),
    )
) | {f.stored for f in FIELDS}
"""Fields that rows may have. Others are of later versions (ADR 104)."""

SETTINGS = tuple(f for f in FIELDS if f.kept is Kept.SETTING)
"""Kept when the user joins a group again; reset by a hard delete."""

RESET_BY_JOINING = tuple(f for f in FIELDS if f.kept in (Kept.STATE, Kept.REMINDER))

RESET_BY_CHANGES = tuple(f for f in FIELDS if f.kept is Kept.REMINDER)
"""Reset by every change of a setting that does not set them."""

DEFAULT_SETTINGS: Mapping[Field[Any], Any] = {f: f.default for f in SETTINGS}
"""The values after a hard delete."""

FOLLOWED = "f"
"""Prefix of the lists of followed channels: `f<the workspace's own part of the ids>`."""

THREADS_OF = "t"
"""Prefix of the lists of threads with a session: `t<parent conversation>`."""

MENTIONED = "q"
"""List of the channels with unread mentions that are not muted, by the number of these."""

MAX_UNREAD_MENTIONS = 1_000
"""Unread mentions of a user, or of everybody, that are counted per conversation. Older ones are dropped."""

PRIORITY_WEIGHT = 1 << 42
"""Distance of two priorities in a list: more than any `write_ts`."""


def threads_mark(channel: ConversationId) -> str:
    """Return the value of CHANNEL in rows of sessions of a channel's threads."""
    return f"t_{channel}"


def channel_mark(conversation: ConversationId) -> dict[str, str]:
    """Return the field CHANNEL of a row: of a session in a channel, or in a thread there. Empty for others."""
    parent = without_thread(conversation)
    if not parent.startswith("c_"):
        return {}
    return {CHANNEL: parent if parent == conversation else threads_mark(parent)}


_FIXED = {field.stored: field.default for field in FIELDS if field.fixed}


def record_of(**values: Any) -> dict[str, Any]:
    """Return a record with these values of fields, by Python name; None: the field is left out."""
    record = dict(_FIXED)
    for name, value in values.items():
        if value is not None:
            record[NAMES[name].stored] = value
    return record
