"""Changes of groups and threads: the decision, and the record that is kept until the delivery is complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypedDict, cast

import orjson

from store.audit.audit_entry import to_json
from store.base.ids import UserId
from store.conversations.conversation_fields import ConversationField
from store.conversations.group_info import GroupInfo, GroupState, group_info_from


class GroupEnd(StrEnum):
    """Ends of groups, with stored values."""

    DISSOLVED = "D"
    """The group stays readable to its former members."""
    DISMISSED = "X"
    """No part of the group can be read."""


class GroupFields(TypedDict, total=False):
    """Fields of a group that a change sets. Absent fields do not change."""

    name: str
    avatar_url: str | None
    owner: UserId
    metadata: str
    full_history: bool
    end: GroupEnd
    ended_at: int
    """Newest seq of a group that ended. Set by `change_group.lua`."""
    locked: bool
    """Threads only."""
    replier_count: int
    """Threads only. Set by `reserve_reply.lua`."""


_STORED_NAMES = {
    "name": ConversationField.NAME,
    "avatar_url": ConversationField.AVATAR,
    "owner": ConversationField.OWNER,
    "metadata": ConversationField.METADATA,
    "full_history": ConversationField.FULL_HISTORY,
    "end": ConversationField.END,
    "ended_at": ConversationField.ENDED_AT,
    "locked": ConversationField.LOCKED,
    "replier_count": ConversationField.REPLIERS,
}
_PYTHON_NAMES = {stored: name for name, stored in _STORED_NAMES.items()}


def to_stored(fields: GroupFields) -> dict[str, Any]:
    """Return fields by their stored names. None removes a field: an avatar, or a mark such as that of a lock."""
    return {_STORED_NAMES[name]: None if value is False else value for name, value in fields.items()}


def _from_stored(stored: Mapping[str, Any]) -> GroupFields:
    fields = {_PYTHON_NAMES[name]: value for name, value in stored.items()}
    for mark in ("full_history", "locked"):
        if mark in fields:
            fields[mark] = bool(fields[mark])
    if "end" in fields:
        fields["end"] = GroupEnd(fields["end"])
    return cast(GroupFields, fields)


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change of a group or thread before it has a version. In a thread, members are followers."""

    joining: tuple[UserId, ...] = ()
    leaving: tuple[UserId, ...] = ()
    roles: tuple[tuple[UserId, str], ...] = ()
    """Members and their new roles."""
    fields: GroupFields = field(default_factory=GroupFields)
    audit: Mapping[str, Any] | None = None
    """The row of an entry of the audit log, stored in the transaction of the change."""

    def member_actions(self) -> list[str]:
        """Return users and actions in turn: join, leave, or a role, as `change_group.lua` takes them."""
        actions = [*((user, "join") for user in self.joining), *((user, "leave") for user in self.leaving), *self.roles]
        return [part for pair in actions for part in pair]

    def fields_json(self) -> bytes:
        """Return the fields by stored name (JSON)."""
        return orjson.dumps(to_stored(self.fields))

    def audit_json(self) -> bytes:
        """Return the entry of the audit log (JSON); empty: none."""
        return to_json(dict(self.audit)) if self.audit is not None else b""


class ChangeField:
    """Stored names of a group change's fields (JSON). Empty ones are left out: Lua's JSON can't tell [] from {}."""

    VERSION = "v"
    MEMBER_COUNT = "mc"
    MEMBERS = "mem"
    """[[user, member record (JSON)], …]"""
    JOINED = "in"
    LEFT = "out"
    FIELDS = "set"
    """Stored group fields and their new values; null removes one."""
    GROUP = "g"
    """All stored fields of the group after the change. Absent in changes that earlier versions made."""
    SUB_BIZ = "sb"
    SILENT = "q"
    """True if no message belongs to the change."""
    WRITTEN_AT = "w"
    NEWEST_SEQ = "s"
    """Threads only: newest reserved seq before the change."""
    AUDIT = "a"
    """The row of an entry of the audit log (JSON in JSON)."""


_F = ChangeField

_TICKS_OF_MESSAGE = 2


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A change of a group and of its memberships, or of a thread and its followers.

    `version`: the group's version after the change; each change takes the next one.
    `member_records`: records (JSON) of all memberships that begin, end or get another role, as they are afterwards.
    `joined`, `left`: users whose membership begins or ends.
    `group`: the fields of the group after the change; None in a thread, or if an earlier version of Confab made the
        change.
    `announced`: a message belongs to it: the SYSTEM message that announces it, or in a thread the reply that causes it.
    `written_at_ms`: time at which the newest countable message before it became durable, as far as Redis has it.
    `newest_seq`: threads only: newest reserved seq before the change; None: the change is that of a group.
    `audit`: the row (JSON) of an entry of the audit log, stored with the change; empty: none.
    """

    version: int
    member_count: int
    member_records: tuple[tuple[UserId, str], ...] = ()
    joined: tuple[UserId, ...] = ()
    left: tuple[UserId, ...] = ()
    fields: GroupFields = field(default_factory=GroupFields)
    group: GroupInfo | None = None
    sub_biz: str | None = None
    announced: bool = True
    written_at_ms: int = 0
    newest_seq: int | None = None
    audit: str = ""

    @property
    def is_of_thread(self) -> bool:
        """True if it changes a thread. Its message is a reply."""
        return self.newest_seq is not None

    @property
    def is_departure(self) -> bool:
        """True if members leave the group."""
        return bool(self.left) and not self.is_of_thread

    @property
    def state(self) -> GroupState | None:
        """The group as its members see it after the change; None if an earlier version of Confab made the change."""
        return GroupState(self.group, self.member_count, self.version) if self.group is not None else None

    @property
    def dissolves(self) -> bool:
        """True if the change ends the group."""
        return "end" in self.fields

    @property
    def updates_group(self) -> bool:
        """True if a field or a role changes: all members get the event GroupChanged."""
        if self.dissolves or self.is_of_thread:
            return False
        return bool(self.fields) or len(self.member_records) > len(self.joined) + len(self.left)

    def update_time_ms(self, at_ms: int) -> int:
        """Return the time of GroupChanged, for a change that became durable at a time.

        The time is after the ticks of the SYSTEM message and its gateway. So most members' sessions have the same tick,
        which is also the time of the head. They need no separate write.
        """
        return at_ms + _TICKS_OF_MESSAGE if self.announced else at_ms

    def to_json(self) -> bytes:
        """Return the record kept in the outbox with the SYSTEM message."""
        fields = {
            _F.VERSION: self.version, _F.MEMBER_COUNT: self.member_count, _F.MEMBERS: self.member_records,
            _F.JOINED: self.joined, _F.LEFT: self.left, _F.FIELDS: to_stored(self.fields), _F.SUB_BIZ: self.sub_biz,
            _F.SILENT: not self.announced, _F.WRITTEN_AT: self.written_at_ms,
            _F.GROUP: self.group.to_fields() if self.group is not None else None, _F.NEWEST_SEQ: self.newest_seq,
            _F.AUDIT: self.audit,
        }  # fmt: skip
        numbers = (_F.MEMBER_COUNT, _F.NEWEST_SEQ)
        return orjson.dumps(
            {name: value for name, value in fields.items() if value or (name in numbers and value is not None)}
        )


def group_change_from(record: dict[str, Any]) -> GroupChange:
    """Return the change of a decoded record."""
    group = record.get(_F.GROUP) if _F.NEWEST_SEQ not in record else None
    return GroupChange(
        version=record[_F.VERSION],
        member_count=record[_F.MEMBER_COUNT],
        member_records=tuple((UserId(user), member) for user, member in record.get(_F.MEMBERS, ())),
        joined=tuple(UserId(user) for user in record.get(_F.JOINED, ())),
        left=tuple(UserId(user) for user in record.get(_F.LEFT, ())),
        fields=_from_stored(record.get(_F.FIELDS, {})),
        group=group_info_from(group) if group is not None else None,
        sub_biz=record.get(_F.SUB_BIZ),
        announced=not record.get(_F.SILENT, False),
        written_at_ms=record.get(_F.WRITTEN_AT, 0),
        newest_seq=record.get(_F.NEWEST_SEQ),
        audit=record.get(_F.AUDIT, ""),
    )
