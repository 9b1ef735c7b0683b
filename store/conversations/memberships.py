"""A cache of memberships in this process: one version of a group's membership never changes."""

from __future__ import annotations

from store.base.ids import ConversationId, UserId
from store.conversations.conversation import Member

_MAX_MEMBERSHIPS = 20_000


class Memberships:
    """Memberships of single users, each with the version of the group's membership that it was read under.

    Every change of a group's membership gives it another version, in the same step (`apply_change` in
    `scripts/_conversation.lua`). Versions are not consecutive, so that a Redis that lost changes does not repeat them.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[ConversationId, UserId], tuple[bytes, Member]] = {}

    def has(self, group: ConversationId, user: UserId) -> bool:
        """Return whether some version of a membership is known."""
        return (group, user) in self._found

    def take(self, group: ConversationId, user: UserId, version: bytes | None) -> Member | None:
        """Return a membership that was read under this version, or None. One of another version is dropped."""
        known = self._found.get((group, user))
        if known is None:
            return None
        if known[0] != version:
            del self._found[group, user]
            return None
        return known[1]

    def remember(self, group: ConversationId, user: UserId, version: bytes, member: Member) -> None:
        """Keep a membership. If there are too many, the one that was added first is dropped."""
        if len(self._found) >= _MAX_MEMBERSHIPS:
            self._found.pop(next(iter(self._found)))
        self._found[group, user] = version, member
