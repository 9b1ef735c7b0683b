"""Invitations to workspaces: codes with which users join."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import NotFound
from resolvers.base.rate_limits import check_rate
from store.base.ids import UserId
from store.workspaces.invite_store import InviteCode, InviteRecord
from store.workspaces.workspace_info import WorkspaceInfo


@dataclass(frozen=True, slots=True)
class Preview:
    """The workspace that a usable invitation leads to."""

    invite: InviteRecord
    workspace: WorkspaceInfo


async def find_preview(app: Confab, viewer: UserId, code: str) -> Preview | None:
    """Return what an invitation leads to, or None if it is useless. Raises RateLimited."""
    invite = await _find_usable(app, viewer, code)
    workspace = await app.store.workspaces.find(invite.code.workspace) if invite is not None else None
    return Preview(invite, workspace) if invite is not None and workspace is not None else None


async def access_invite(app: Confab, user: UserId, code: str) -> InviteRecord:
    """Return an invitation that the user may join with. Raises NotFound and RateLimited."""
    invite = await _find_usable(app, user, code)
    if invite is None:
        raise no_invite()
    return invite


async def _find_usable(app: Confab, user: UserId, code: str) -> InviteRecord | None:
    # Right codes count too: the limit must not tell them from wrong ones.
    check_rate(app.store.rate_limits.invite_lookups, user)
    parsed = InviteCode.parse(code)
    invite = await app.store.invites.find(parsed) if parsed is not None else None
    return invite if invite is not None and invite.is_usable(app.store.clock.now_ms()) else None


def no_invite() -> NotFound:
    """Return the error for a code with which nobody can join."""
    return NotFound("there is no such invitation", field="code")
