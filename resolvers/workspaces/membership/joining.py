"""Joins workspaces: with an invitation, without one if the workspace is open, or added by a service."""

from __future__ import annotations

from collections.abc import Sequence

from resolvers.base.app import Confab
from resolvers.base.errors import Banned, Forbidden, InvalidInput, Unavailable
from resolvers.base.rate_limits import check_rate
from resolvers.sessions.follow_events import follow_entry, publish_all_follows
from resolvers.users.callers import Caller, CallerRole
from resolvers.users.users import access_users
from resolvers.workspaces.access import access_any_workspace, no_workspace
from resolvers.workspaces.membership.default_channels import (
    list_default_channels,
)
from resolvers.workspaces.membership.invites import access_invite, no_invite, shown_code
from resolvers.workspaces.workspaces import too_many_workspaces
from store.audit.audit_note import AuditNote
from store.base.errors import Superseded
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id
from store.workspaces.invite_store import InviteCode
from store.workspaces.membership_store import USERS_AT_ONCE, NewMember, NotOpen, UnusableInvite, UsersAreBanned
from store.workspaces.policy import Policy
from store.workspaces.user_workspaces import AlreadyMember, TooManyWorkspaces
from store.workspaces.workspace_info import WorkspaceInfo

MOST_ADDED = 1_000
_WRITES_AT_ONCE = 1_000
"""Rows of followers that one transaction writes, about."""

_TRIES = 5
"""Times that users are added again because some of them joined, or default channels changed meanwhile."""


async def join_workspace(app: Confab, user: UserId, workspace: str | None, code: str | None) -> WorkspaceInfo:
    """Make the user a member. For a member nothing changes, and the invitation is not used.

    Raises InvalidInput, NotFound, Banned, LimitReached and RateLimited.
    """
    if code is None and workspace is None:
        raise InvalidInput("give a code, or the id of an open workspace", field="workspaceId")
    invite = await access_invite(app, user, code) if code is not None else None
    if invite is not None and workspace not in (None, invite.workspace):
        raise InvalidInput("the code is for another workspace", field="code")
    wanted = invite.workspace if invite is not None else WorkspaceId(workspace or "")
    failure = no_invite() if invite is not None else no_workspace()
    info = await app.store.workspaces.find(wanted) if is_workspace_id(wanted) else None
    if info is None:
        raise failure
    if await app.store.policies.find_member(wanted, user, info.version) is not None:
        return info
    if invite is None and not info.is_open:
        raise failure
    check_rate(app.store.rate_limits.workspace_changes, user)
    try:
        joined = {"code": shown_code(invite)} if invite is not None else None
        notes = [AuditNote(user, "joinWorkspace", wanted, user, after=joined)]
        await _make_members(app, wanted, [user], info.version, notes, invite=invite, needs_open=invite is None)
    except (UnusableInvite, NotOpen) as error:
        raise failure from error
    except UsersAreBanned as error:
        raise Banned("you are banned from this workspace") from error
    except TooManyWorkspaces as error:
        raise too_many_workspaces(app) from error
    except AlreadyMember:
        # Another request of the same user was first.
        pass
    found = await app.store.workspaces.find(wanted)
    if found is None:
        raise failure
    return found


async def _make_members(
    app: Confab,
    workspace: WorkspaceId,
    users: Sequence[UserId],
    version: int,
    notes: Sequence[AuditNote],
    *,
    invite: InviteCode | None = None,
    needs_open: bool = False,
) -> None:
    """Make users members, who follow the default channels. Raises as `MembershipStore.add`, and Unavailable.

    version: The smallest policy version that may be used. notes: For the audit log.
    """
    store = app.store
    policy = await store.policies.find(workspace, version)
    profiles = await store.users.find_many(users)
    members = [NewMember(user, profiles[user].name if user in profiles else None) for user in users]
    for _ in range(_TRIES):
        if policy is None:
            raise NotOpen
        channels = await list_default_channels(app, policy)
        try:
            changed = await store.memberships.add(
                workspace,
                members,
                store.clock.now_ms(),
                app.limits.max_workspaces_per_user,
                entry=follow_entry,
                invite=invite,
                needs_open=needs_open,
                follows=channels,
                audit=store.audit.entry_rows(*notes),
            )
        except Superseded:
            policy = await store.policies.renew(workspace)
            continue
        app.memberships.announce(users)
        await store.thread_access.show_to(workspace, users)
        await publish_all_follows(app, workspace, changed)
        await app.webhook_notes.note_joined(workspace, users)
        app.memberships.announce(users)
        return
    raise Unavailable("the default channels are being changed by other requests; please try again")


async def add_to_workspace(app: Confab, caller: Caller, workspace: str, users: Sequence[str]) -> WorkspaceInfo:
    """Make users members. Those who are members are skipped. For services and admins.

    They are added in parts: after a failure some may be members. The call may be repeated. If one of the users is
    banned from the workspace, none is added.

    Raises Forbidden, InvalidInput, NotFound, Banned, LimitReached and RateLimited.
    """
    if caller.role not in (CallerRole.SERVICE, CallerRole.ADMIN):
        raise Forbidden("only callers with role service or admin may do this")
    if len(users) > MOST_ADDED:
        raise InvalidInput(f"give at most {MOST_ADDED} users in one call", field="userIds")
    access = await access_any_workspace(app, caller.user_id, workspace)
    wanted = await access_users(app, users, "userIds")
    check_rate(app.store.rate_limits.workspace_changes, caller.user_id)
    await _check_limits(app, access.info.id, wanted)
    banned = await app.store.bans.list_banned(access.info.id, wanted, app.store.clock.now_ms())
    if banned:
        raise _banned(banned)
    start = 0
    while start < len(wanted):
        # Adding many takes some time, in which the default channels may change.
        version = await app.store.policies.current_version(access.info.id)
        policy = await app.store.policies.find(access.info.id, version or 0)
        if policy is None:
            raise no_workspace()
        followed = sum(channel.is_default for channel in policy.channels.values())
        size = min(USERS_AT_ONCE, max(1, _WRITES_AT_ONCE // (1 + followed)))
        await _add(app, caller.user_id, policy, wanted[start : start + size])
        start += size
    found = await app.store.workspaces.find(access.info.id)
    if found is None:
        raise no_workspace()
    return found


async def _check_limits(app: Confab, workspace: WorkspaceId, users: Sequence[UserId]) -> None:
    """Raise LimitReached before any user is added, if one of the users is in too many workspaces."""
    full = await app.store.user_workspaces.list_at_limit(users, app.limits.max_workspaces_per_user)
    if full and set(full) - set(await app.store.policies.find_members(workspace, full)):
        raise too_many_workspaces(app, "userIds")


async def _add(app: Confab, actor: UserId, policy: Policy, users: Sequence[UserId]) -> None:
    for _ in range(_TRIES):
        members = await app.store.memberships.list_present(policy.workspace, users)
        new = [user for user in users if user not in members]
        if not new:
            return
        try:
            notes = [AuditNote(actor, "addToWorkspace", policy.workspace, user) for user in new]
            await _make_members(app, policy.workspace, new, policy.version, notes)
            return
        except AlreadyMember:
            continue
        except NotOpen as error:
            raise no_workspace() from error
        except UsersAreBanned as error:
            raise _banned(error.users) from error
        except TooManyWorkspaces as error:
            raise too_many_workspaces(app, "userIds") from error
    raise Unavailable("these users are being added by other requests; please try again")


def _banned(users: Sequence[UserId]) -> Banned:
    """Return the error for a service that adds banned users. It names the first one."""
    return Banned(f"{min(users)} is banned from this workspace; unban them first", field="userIds")
