"""Bans (ADR 96)."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId


@dataclass(frozen=True, slots=True)
class Ban:
    """A ban of a user. Times in ms since the epoch.

    Attributes:
        workspace: The workspace that the user is banned from; None: the whole deployment.
        user: The banned user.
        by: The user who banned them last.
        created_at_ms: When they were banned. It stays when the ban is given another end or reason.
        until_ms: When it ends by itself; None: it does not.
        reason: The reason that was given.
    """

    workspace: WorkspaceId | None
    user: UserId
    by: UserId
    created_at_ms: int
    until_ms: int | None = None
    reason: str | None = None

    def is_in_force(self, now_ms: int) -> bool:
        """Return whether the ban has not ended by itself."""
        return self.until_ms is None or self.until_ms > now_ms
