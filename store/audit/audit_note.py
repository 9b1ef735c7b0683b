"""Notes for the audit log: what an operation changed (ADR 92)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId


@dataclass(frozen=True, slots=True)
class AuditNote:
    """A change, as the audit log has to name it.

    Attributes:
        user: The user in whose name the change was made. Who acted for them is added from the request.
        action: The mutation's name, as in the contract: `banUser`.
        workspace: The workspace concerned; None: the deployment.
        target: The id of the person concerned, else of the object.
        before: Values that the change has replaced, as JSON, by the names of the API.
        after: The values after it.
        reason: The reason that the user gave.
    """

    user: UserId
    action: str
    workspace: WorkspaceId | None = None
    target: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    reason: str | None = None


def changed_values(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the values that differ, before and after a change. None: there are none. A missing value is None."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if not names:
        return None, None
    return {name: before.get(name) for name in names}, {name: after.get(name) for name in names}


def notes_if_changed(
    user: UserId,
    action: str,
    workspace: WorkspaceId | None,
    target: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
) -> tuple[AuditNote, ...]:
    """Return a note with the values that differ. Empty if all are equal: then there is nothing to note."""
    earlier, later = changed_values(before, after)
    return (AuditNote(user, action, workspace, target, earlier, later),) if later is not None else ()
