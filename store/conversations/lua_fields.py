"""Stored field names for the scripts on conversations. Scripts use the names of the tables in Python."""

from __future__ import annotations

from store.conversations.conversation_fields import (
    MAX_FOLLOWERS,
    MAX_PARTICIPANTS,
    NO_END,
    ConversationField,
    HeadField,
    MemberField,
)
from store.conversations.group_change import ChangeField, GroupEnd
from store.messages.message_fields import MessageField
from store.messages.outbox.outbox_entries import OutboxField
from store.previews.message_embeds import EmbedsField
from store.sessions.fields import MAX_UNREAD_MENTIONS

_CONSTANTS: tuple[tuple[str, type, str], ...] = (
    ("HEAD", ConversationField, "SEQ N KIND MOVED_AT WRITTEN_AT MEMBER_COUNT GROUP_VERSION SUB_BIZ END ENDED_AT"),
    ("HEAD", ConversationField, "MENTIONS_ALL PIN_VERSION RECALLED REPLIERS LOCKED FULL_HISTORY FLOOR_SEQ FLOOR_N"),
    ("HEAD", HeadField, "NEWEST_SEQ NEWEST GROUP MEMBERSHIP_VERSION MEMBERS_TOTAL PENDING_CHANGE POLICY_VERSION"),
    ("HEAD", HeadField, "CONTENTS_VERSION PIN_COUNT PARENT_SEQ PARTICIPANTS BLOCKED"),
    ("MEMBER", MemberField, "ROLE INTERVALS JOINED_AT UNFOLLOWED LAST_REPLY"),
    (
        "CHANGE",
        ChangeField,
        "VERSION MEMBER_COUNT MEMBERS JOINED LEFT FIELDS GROUP SUB_BIZ SILENT WRITTEN_AT NEWEST_SEQ AUDIT",
    ),
    ("OUTBOX", OutboxField, "CONVERSATION SEQ N MESSAGE GROUP_CHANGE"),
    ("MESSAGE", MessageField, "CONVERSATION EDITS RECALLED_AT PIN_CHANGES REACTIONS_VERSION PARENT_SEQ HAS_THREAD"),
    ("MESSAGE", MessageField, "EMBEDS"),
    ("EMBEDS", EmbedsField, "VERSION"),
)
"""Prefix of the names in scripts, table, and the fields that scripts use."""


def lua_literals() -> dict[str, str]:
    """Return Lua literals by the names that scripts use for them, such as `HEAD_SEQ` and `MEMBER_ROLE`."""
    literals = {"GROUP_DISMISSED": f"'{GroupEnd.DISMISSED.value}'", "MEMBER_NO_END": str(NO_END)}
    literals["MAX_FOLLOWERS"], literals["MAX_PARTICIPANTS"] = str(MAX_FOLLOWERS), str(MAX_PARTICIPANTS)
    literals["MAX_MENTIONS_ALL"] = str(MAX_UNREAD_MENTIONS)
    for prefix, table, names in _CONSTANTS:
        literals |= {f"{prefix}_{name}": f"'{getattr(table, name)}'" for name in names.split()}
    return literals
