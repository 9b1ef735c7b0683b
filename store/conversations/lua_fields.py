"""Stored field names as Lua constants, for the scripts on conversations."""

from __future__ import annotations

from store.conversations.conversation_fields import NO_END, ConversationField, HeadField, MemberField
from store.conversations.group_change import ChangeField, GroupEnd
from store.messages.message import MessageField
from store.messages.outbox_entries import OutboxField

_CONSTANTS: tuple[tuple[str, type, str], ...] = (
    ("HEAD", ConversationField, "SEQ N KIND MOVED_AT WRITTEN_AT MEMBER_COUNT GROUP_VERSION SUB_BIZ END ENDED_AT"),
    ("HEAD", HeadField, "NEWEST_SEQ NEWEST GROUP MEMBERSHIP_VERSION MEMBERS_TOTAL PENDING_CHANGE"),
    ("MEMBER", MemberField, "ROLE INTERVALS JOINED_AT"),
    ("CHANGE", ChangeField, "VERSION MEMBER_COUNT MEMBERS JOINED LEFT FIELDS SUB_BIZ SILENT WRITTEN_AT"),
    ("OUTBOX", OutboxField, "CONVERSATION SEQ N MESSAGE GROUP_CHANGE"),
    ("MESSAGE", MessageField, "CONVERSATION EDITS RECALLED_AT"),
)
"""Prefix of the constants, table, and the fields that scripts use."""


def lua_fields() -> str:
    """Return Lua text that defines constants such as `HEAD_SEQ` and `MEMBER_ROLE`."""
    lines = [f"local GROUP_DISMISSED = '{GroupEnd.DISMISSED.value}'\n", f"local MEMBER_NO_END = {NO_END}\n"]
    for prefix, table, names in _CONSTANTS:
        lines += [f"local {prefix}_{name} = '{getattr(table, name)}'\n" for name in names.split()]
    return "".join(lines)
