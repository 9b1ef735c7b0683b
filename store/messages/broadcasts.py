"""The reference of a copy to the thread reply that it shows in the parent conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from store.base.ids import MessageId, UserId
from store.base.workspace_ids import RoleId


class _StoredField:
    """Stored names of the mentions in a copy."""

    MENTIONS = "m"
    MENTIONS_ALL = "ma"
    MENTIONED_ROLES = "mr"


class BroadcastOf(NamedTuple):
    """The reply that a copy shows, and the users that the reply mentions.

    The mentions are shown only. A user is mentioned once: by the reply. So the copy itself mentions nobody.

    Attributes:
        reply: The reply. Its id leads to it also if it takes another place.
        parent_seq: Seq of the parent message of the thread, in the conversation of the copy.
        mentions: Users that the reply mentions by name.
        mentions_all: The reply mentions everybody.
        mentioned_roles: Roles that the reply mentions.
    """

    reply: MessageId
    parent_seq: int
    mentions: tuple[UserId, ...] = ()
    mentions_all: bool = False
    mentioned_roles: tuple[RoleId, ...] = ()

    def to_stored(self) -> list[Any]:
        """Return [reply, seq of the parent message], followed by the mentions if there are any."""
        mentions: dict[str, Any] = {}
        if self.mentions:
            mentions[_StoredField.MENTIONS] = list(self.mentions)
        if self.mentions_all:
            mentions[_StoredField.MENTIONS_ALL] = True
        if self.mentioned_roles:
            mentions[_StoredField.MENTIONED_ROLES] = list(self.mentioned_roles)
        return [str(self.reply), self.parent_seq, *([mentions] if mentions else [])]


def broadcast_of_from(stored: Sequence[Any]) -> BroadcastOf:
    """Return what a copy says, from its stored form."""
    mentions = stored[2] if len(stored) > 2 else {}
    return BroadcastOf(
        MessageId(int(stored[0])),
        stored[1],
        tuple(mentions.get(_StoredField.MENTIONS, ())),
        bool(mentions.get(_StoredField.MENTIONS_ALL, False)),
        tuple(mentions.get(_StoredField.MENTIONED_ROLES, ())),
    )
