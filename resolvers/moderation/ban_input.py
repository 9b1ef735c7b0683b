"""The terms of a ban, its audit note, and the jobs that recall messages after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput
from resolvers.base.times import check_future, iso_text
from resolvers.moderation.targets import accept_reason
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.jobs.job import Job, JobId, JobKind
from store.moderation.ban import Ban

MOST_DELETE_SECONDS = 604_800

_SECOND_RECALL_MS = 60_000


@dataclass(frozen=True, slots=True)
class BanInput:
    """Terms of a ban.

    Attributes:
        until_ms: When it ends by itself (ms since the epoch); None: never.
        delete_seconds: What the user wrote in the last seconds is recalled, in the background.
        reason: For the audit log, and for those who list bans.
    """

    until_ms: int | None = None
    delete_seconds: int = 0
    reason: str | None = None

    def accepted(self, now_ms: int) -> BanInput:
        """Return the terms as they are stored. Raises InvalidInput."""
        check_future(self.until_ms, now_ms, "until")
        if not 0 <= self.delete_seconds <= MOST_DELETE_SECONDS:
            raise InvalidInput(f"deleteSeconds must be from 0 to {MOST_DELETE_SECONDS:,}", field="deleteSeconds")
        return replace(self, reason=accept_reason(self.reason))

    def ban_of(self, workspace: WorkspaceId | None, user: UserId, by: UserId, created_at_ms: int) -> Ban:
        """Return the ban of a user with these terms."""
        return Ban(workspace, user, by, created_at_ms, self.until_ms, self.reason)


def same_terms(one: Ban, other: Ban) -> bool:
    """Return whether two bans have the same end and reason."""
    return (one.until_ms, one.reason) == (other.until_ms, other.reason)


def terms_of(ban: Ban) -> dict[str, Any]:
    """Return the terms of a ban for the audit log."""
    return {"until": iso_text(ban.until_ms) if ban.until_ms is not None else None, "reason": ban.reason}


def ban_note(ban: Ban, before: Ban | None, given: BanInput) -> AuditNote:
    """Return the audit note of a ban. before: an earlier ban that it replaces."""
    return AuditNote(
        ban.by,
        "banUser",
        ban.workspace,
        ban.user,
        before=terms_of(before) if before is not None else None,
        after={**terms_of(ban), "deleteSeconds": given.delete_seconds},
        reason=ban.reason,
    )


def recall_jobs(app: Confab, ban: Ban, delete_seconds: int, now_ms: int) -> list[tuple[Job, int]]:
    """Return the jobs that recall what a banned user wrote, each with its delay (ms), for the ban's transaction.

    One is due at once. The other one, a minute later, finds messages that had a place before the ban, and that were
    stored after the first job. Their input is described in `resolvers/recalls/written_recalls.py`.
    """
    if not delete_seconds:
        return []
    given = {"workspace": ban.workspace, "by": ban.by, "since": now_ms - delete_seconds * 1000, "until": now_ms}
    return [
        (Job(JobId(str(app.store.ids.next())), JobKind.RECALLS, ban.user, now_ms, input=given), delay_ms)
        for delay_ms in (0, _SECOND_RECALL_MS)
    ]
