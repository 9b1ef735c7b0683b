"""Invitations to workspaces: codes with which users join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from resolvers.base.app import Confab
from resolvers.base.errors import InvalidInput, LimitReached, NotFound
from resolvers.base.rate_limits import check_rate
from resolvers.base.times import check_future, iso_text
from resolvers.workspaces.access import access_workspace, check_right, find_access
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.workspaces.changing.attempts import repeat_while_superseded
from store.workspaces.invite_store import InviteCode, InviteRecord, TooManyInvites
from store.workspaces.permissions import Permission
from store.workspaces.workspace_info import WorkspaceInfo

MOST_INVITES = 1_000
_MAX_USES = 1_000_000

_SHOWN_CHARACTERS = 4
"""Characters of a secret that the audit log shows. A secret has 16."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The workspace that a usable invitation leads to."""

    invite: InviteRecord
    workspace: WorkspaceInfo


async def create_invite(
    app: Confab, viewer: UserId, workspace: str, expires_at_ms: int | None, max_uses: int
) -> InviteRecord:
    """Create a code with which `max_uses` users may join; 0: without limit.

    Raises InvalidInput, NotFound, Forbidden, LimitReached and RateLimited.
    """
    check_rate(app.store.rate_limits.workspace_changes, viewer)

    async def create() -> InviteRecord:
        access = await access_workspace(app, viewer, workspace)
        check_right(app, access, Permission.CREATE_INVITES)
        now_ms = app.store.clock.now_ms()
        if not 0 <= max_uses <= _MAX_USES:
            raise InvalidInput(f"maxUses must be from 0 to {_MAX_USES:,}; 0 means without limit", field="maxUses")
        check_future(expires_at_ms, now_ms, "expiresAt")
        invite = InviteRecord(InviteCode.make(access.info.id), viewer, now_ms, expires_at_ms, max_uses)
        await app.store.invites.insert(
            invite,
            access.policy.version,
            MOST_INVITES,
            app.store.audit.entry_rows(
                AuditNote(viewer, "createInvite", access.info.id, shown_code(invite.code), after=_values(invite))
            ),
        )
        return invite

    try:
        return await repeat_while_superseded(create)
    except TooManyInvites as error:
        raise LimitReached(f"a workspace has at most {MOST_INVITES:,} invitation codes; revoke some") from error


async def revoke_invite(app: Confab, viewer: UserId, code: str) -> None:
    """Remove a code: its creator, or a member with MANAGE_WORKSPACE.

    A member without the right gets Forbidden only for a code that exists. Raises NotFound, Forbidden and RateLimited.
    """
    check_rate(app.store.rate_limits.invite_lookups, viewer)
    parsed = InviteCode.parse(code)

    async def revoke() -> None:
        invite = await app.store.invites.find(parsed) if parsed is not None else None
        access = await find_access(app, viewer, invite.code.workspace) if invite is not None else None
        if invite is None or access is None or access.facts is None:
            raise no_invite()
        if invite.created_by != viewer:
            check_right(app, access, Permission.MANAGE_WORKSPACE)
        rows = app.store.audit.entry_rows(
            AuditNote(viewer, "revokeInvite", access.info.id, shown_code(invite.code), before=_values(invite))
        )
        if not await app.store.invites.delete(invite.code, access.policy.version, rows):
            raise no_invite()

    await repeat_while_superseded(revoke)


async def find_preview(app: Confab, viewer: UserId, code: str) -> Preview | None:
    """Return what an invitation leads to, or None if it is unusable. Raises RateLimited."""
    invite = await _find_usable(app, viewer, code)
    workspace = await app.store.workspaces.find(invite.code.workspace) if invite is not None else None
    return Preview(invite, workspace) if invite is not None and workspace is not None else None


async def access_invite(app: Confab, user: UserId, code: str) -> InviteCode:
    """Return the code of an invitation that the user may join with. Raises NotFound and RateLimited.

    For members of its workspace every code is valid: the answer to a join that used the code up may have been lost.
    """
    parsed = _parse(app, user, code)
    if parsed is None:
        raise no_invite()
    # Both are read in any case: the time does not tell whether there is such a workspace.
    invite, present = await app.store.mongo.gather(
        app.store.invites.find(parsed), app.store.memberships.list_present(parsed.workspace, [user])
    )
    if user not in present and (invite is None or not invite.is_usable(app.store.clock.now_ms())):
        raise no_invite()
    return parsed


def _parse(app: Confab, user: UserId, code: str) -> InviteCode | None:
    # Right codes count too: the limit must not tell them from wrong ones.
    check_rate(app.store.rate_limits.invite_lookups, user)
    return InviteCode.parse(code)


async def _find_usable(app: Confab, user: UserId, code: str) -> InviteRecord | None:
    parsed = _parse(app, user, code)
    invite = await app.store.invites.find(parsed) if parsed is not None else None
    return invite if invite is not None and invite.is_usable(app.store.clock.now_ms()) else None


def shown_code(code: InviteCode) -> str:
    """Return the part of a code that the audit log shows. It does not admit anybody."""
    return f"{str(code)[: -len(code.secret)]}{code.secret[:_SHOWN_CHARACTERS]}…"


def _values(invite: InviteRecord) -> dict[str, Any]:
    expires_at_ms = invite.expires_at_ms
    expires_at = iso_text(expires_at_ms) if expires_at_ms is not None else None
    return {"expiresAt": expires_at, "maxUses": invite.max_uses, "uses": invite.uses}


def no_invite() -> NotFound:
    """Return the error for a code with which nobody can join."""
    return NotFound("there is no such invitation", field="code")
