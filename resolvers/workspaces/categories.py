"""Categories of channels."""

from __future__ import annotations

from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.errors import LimitReached
from resolvers.workspaces.audit_values import category_values
from resolvers.workspaces.changes import change_as_member, require
from resolvers.workspaces.channel_decisions import (
    accept_channel_name,
    check_position,
    no_category,
    workspace_of_category,
)
from store.audit.audit_note import AuditNote, notes_if_changed
from store.base.ids import UserId
from store.base.workspace_ids import CategoryId, category_id
from store.channels.positions import place_category, remove_category
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelCategory, MemberFacts, Policy

MAX_CATEGORIES = 50


async def create_category(
    app: Confab, actor: UserId, workspace: str, name: str, position: int | None
) -> tuple[Policy, ChannelCategory]:
    """Create a category. Returns the policy after it too. Raises InvalidInput, NotFound, Forbidden, LimitReached."""
    accepted = accept_channel_name(name)
    check_position(position)
    made: list[CategoryId] = []

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        require(app, policy, facts, Permission.MANAGE_CHANNELS)
        if len(policy.categories) >= MAX_CATEGORIES:
            raise LimitReached(f"a workspace has at most {MAX_CATEGORIES} categories")
        category = ChannelCategory(category_id(policy.workspace, app.store.ids.next()), accepted, 0)
        made.append(category.id)
        categories = place_category(policy.categories, category, position)
        values = category_values(categories[category.id])
        note = AuditNote(actor, "createCategory", policy.workspace, category.id, after=values)
        return ProposedPolicyChange(replace(policy, categories=categories), audit=[note])

    after = await change_as_member(app, actor, workspace, decide)
    return after, after.categories[made[-1]]


async def update_category(
    app: Confab, actor: UserId, category: str, name: str | None, position: int | None
) -> tuple[Policy, ChannelCategory]:
    """Rename or move a category. Returns the policy after it too. Raises InvalidInput, NotFound, Forbidden."""
    accepted = accept_channel_name(name) if name is not None else None
    check_position(position)
    wanted = CategoryId(category)

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        before = _find(app, policy, facts, wanted)
        renamed = replace(before, name=accepted if accepted is not None else before.name)
        categories = {**policy.categories, wanted: renamed}
        if position is not None:
            categories = place_category(policy.categories, renamed, position)
        values = category_values(before), category_values(categories[wanted])
        notes = notes_if_changed(actor, "updateCategory", policy.workspace, wanted, *values)
        return ProposedPolicyChange(replace(policy, categories=categories), audit=notes)

    after = await change_as_member(app, actor, workspace_of_category(category), decide, "categoryId")
    return after, after.categories[wanted]


async def delete_category(app: Confab, actor: UserId, category: str) -> bool:
    """Delete a category. Its channels stay, with the permissions that applied. Raises NotFound, Forbidden."""
    wanted = CategoryId(category)

    async def decide(policy: Policy, facts: MemberFacts) -> ProposedPolicyChange:
        gone = _find(app, policy, facts, wanted)
        categories = {id: each for id, each in policy.categories.items() if id != wanted}
        channels = remove_category(policy.channels, gone)
        note = AuditNote(actor, "deleteCategory", policy.workspace, wanted, before=category_values(gone))
        return ProposedPolicyChange(replace(policy, categories=categories, channels=channels), audit=[note])

    await change_as_member(app, actor, workspace_of_category(category), decide, "categoryId")
    return True


def _find(app: Confab, policy: Policy, actor: MemberFacts, category: CategoryId) -> ChannelCategory:
    """Return a category that the actor may change."""
    if category not in policy.categories:
        raise no_category()
    require(app, policy, actor, Permission.MANAGE_CHANNELS)
    return policy.categories[category]
