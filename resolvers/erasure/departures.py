"""Ends the memberships, follows and devices of an erased user, with the usual events for other members (ADR 94).

Another member becomes the owner of the user's groups and workspaces. Without other members they are deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import NotAMember, NotFound
from resolvers.devices.devices import remove_device
from resolvers.groups.group_decisions import GroupDecision, carry_out
from resolvers.groups.group_rules import ADMIN, MEMBER, OWNER
from resolvers.threads.thread_changes import end_follow
from resolvers.workspaces.membership.membership_changes import end_memberships
from store.audit.audit_note import AuditNote
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.conversations.conversation import GroupSnapshot, Member
from store.conversations.group_change import GroupEnd, ProposedChange
from store.erasure.renaming import Renaming
from store.erasure.row_changes import SYSTEM_TEXTS
from store.messages.system_events import SystemEvent, SystemEventKind
from store.voice.voice_store import VoiceConditions
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import Policy
from store.workspaces.rights import rights_in_workspace

ACTION = "eraseUser"
"""The action of entries in the audit log."""

_BLOCKERS_PER_READ = 100


async def remove_devices(app: Confab, user: UserId) -> None:
    """Remove the devices of a user and end their connections. Raises StoreError."""
    for device in await app.store.devices.list(user):
        try:
            await remove_device(app, user, device.id)
        except NotFound:
            continue


async def end_blocks(app: Confab, user: UserId, on_step: Callable[[], Awaitable[None]]) -> None:
    """End all blocks by a user and of a user, in the way that all servers see it. Raises StoreError."""
    blocks = app.store.blocks
    for block in await blocks.rows.list_blocks(user):
        await blocks.remove(user, block.user)
        await on_step()
    while blockers := await blocks.rows.list_blockers(user, _BLOCKERS_PER_READ):
        for blocker in blockers:
            await blocks.remove(blocker, user)
            await on_step()


async def unfollow_thread(app: Confab, user: UserId, thread: ConversationId) -> None:
    """End the follow of a thread, if the user can still access it. Raises StoreError."""
    with suppress(NotFound, NotAMember):
        await end_follow(app, user, thread)


async def leave_group_as_erased(app: Confab, user: UserId, group: ConversationId) -> None:
    """End the membership of a group. Its owner becomes the longest-standing admin, or else member. Raises StoreError.

    A group without other members is dismissed.
    """
    others = [m for m in await app.store.conversations.list_members(group) if m.is_current and m.user != user]
    successor = min(others, key=lambda m: (m.role != ADMIN, m.joined_at_ms, m.user), default=None)

    def hand_over(_snapshot: GroupSnapshot, member: Member) -> GroupDecision | None:
        if member.role != OWNER:
            return None
        if successor is None:
            return GroupDecision(ProposedChange(fields={"end": GroupEnd.DISMISSED}))
        change = ProposedChange(roles=((user, MEMBER), (successor.user, OWNER)), fields={"owner": successor.user})
        return _announced(change, SystemEventKind.OWNER_CHANGED, successor.user)

    def leave(_snapshot: GroupSnapshot, _member: Member) -> GroupDecision:
        return _announced(ProposedChange(leaving=(user,)), SystemEventKind.MEMBER_LEFT, user)

    try:
        await carry_out(app, user, group, [successor.user] if successor is not None else [], hand_over)
        await carry_out(app, user, group, [], leave)
    except (NotFound, NotAMember):
        # It has ended, or an earlier attempt has left it.
        return


def _announced(change: ProposedChange, kind: SystemEventKind, about: UserId) -> GroupDecision:
    return GroupDecision(change, SystemEvent(kind), SYSTEM_TEXTS[kind], [about])


async def leave_workspaces(app: Confab, renaming: Renaming) -> None:
    """End all memberships of workspaces. Raises StoreError.

    The owner becomes the longest-standing member with MANAGE_WORKSPACE, or else member. A workspace without other
    members is deleted.
    """
    for joined in await app.store.user_workspaces.list_joined(renaming.user):
        await app.voice.end(joined.workspace, renaming.user, VoiceConditions())
        await _leave_workspace(app, renaming, joined.workspace)


async def _leave_workspace(app: Confab, renaming: Renaming, workspace: WorkspaceId) -> None:
    user = renaming.user

    async def hand_over(policy: Policy) -> ProposedPolicyChange | None:
        if policy.owner != user:
            return None
        successor = await _find_successor(app, policy)
        if successor is None:
            info = await app.store.workspaces.find(workspace)
            if info is None:
                return None
            fields, writes = app.store.workspaces.deletion_writes(info)
            return ProposedPolicyChange(policy, workspace=fields, writes=writes, deletes=True)
        note = AuditNote(
            renaming.pseudonym, ACTION, workspace, successor, {"owner": renaming.pseudonym}, {"owner": successor}
        )
        return ProposedPolicyChange(replace(policy, owner=successor), audit=[note])

    async def leave(policy: Policy) -> ProposedPolicyChange | None:
        facts = await app.store.policies.find_member(workspace, user, policy.version)
        if facts is None or policy.owner == user:
            return None
        return await end_memberships(app, policy, [facts], keeps_timeouts=False)

    if await app.store.policy_changes.change(workspace, hand_over) is not None:
        await app.store.policy_changes.change(workspace, leave)


async def _find_successor(app: Confab, policy: Policy) -> UserId | None:
    users = [user for user in await app.store.memberships.list_oldest(policy.workspace) if user != policy.owner]
    facts = await app.store.policies.find_members(policy.workspace, users, policy.version)
    now_ms = app.store.clock.now_ms()
    for user in users:
        if user in facts and Permission.MANAGE_WORKSPACE in rights_in_workspace(policy, facts[user], now_ms):
            return user
    return next((user for user in users if user in facts), None)
