"""Changes of the sample workspace's policy, and what is stored about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.base.workspace_ids import role_id
from store.conversations.conversation_fields import ConversationField, HeadField
from store.mongo.collections import WORKSPACES
from store.redis.cache import Call
from store.store import Store
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import Permission
from store.workspaces.policy import MemberFacts, PendingChange, Policy, Role
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    BOB,
    CAROL,
    CHANNEL_IDS,
    GENERAL,
    GUIDE,
    W,
    insert_workspace,
    sample_policy,
)

MEMBERS = (
    MemberFacts(ALICE, 1),
    MemberFacts(BOB, 1, frozenset({ADMIN})),
    MemberFacts(CAROL, 1, frozenset({GUIDE, role_id(W, 99)})),
)


async def open_workspace(store: Store) -> list[tuple[int, PendingChange]]:
    """Store the sample workspace. Return the list of what is published: policy version and change."""
    policy = sample_policy()
    counted = {id: replace(role, member_count=int(id in (ADMIN, GUIDE))) for id, role in policy.roles.items()}
    await insert_workspace(store, replace(policy, roles=counted), *MEMBERS)
    for channel in CHANNEL_IDS:
        await cache_head(store, channel)
    published = list[tuple[int, PendingChange]]()

    async def announce(policy: Policy, change: PendingChange) -> None:
        # A later change may have been made meanwhile.
        for version in await head_versions(store, *change.heads):
            assert version >= policy.version
        version = await store.policies.current_version(W)
        assert version is not None and version >= policy.version
        published.append((policy.version, change))

    store.policy_changes.completions.announce = announce
    return published


async def cache_head(store: Store, channel: ConversationId, version: int = 1) -> None:
    fields = (ConversationField.SEQ, 0, ConversationField.KIND, "C", HeadField.POLICY_VERSION, version)
    await store.cache.one(Call("HSET", (store.keys.head(channel),), fields))


async def head_versions(store: Store, *channels: ConversationId) -> list[int]:
    """Return the different versions of cached heads."""
    calls = [Call("HGET", (store.keys.head(channel),), (HeadField.POLICY_VERSION,)) for channel in channels]
    return sorted({int(version) for version in await store.cache.run(calls) if version is not None})


async def pending_changes(store: Store) -> Any:
    row = await store.mongo.find_one(WORKSPACES, {"_id": W})
    assert row is not None
    return row.get("pn") or None


def with_role(policy: Policy, role: Role) -> dict[Any, Role]:
    return dict(policy.roles) | {role.id: role}


async def strip_everyone(policy: Policy) -> ProposedPolicyChange:
    """Take a permission from the role of everyone, a different one at each version."""
    permissions = policy.everyone.permissions & ~Permission(1 << policy.version)
    return ProposedPolicyChange(
        replace(policy, roles=with_role(policy, replace(policy.everyone, permissions=permissions)))
    )


async def archive(policy: Policy) -> ProposedPolicyChange:
    channels = dict(policy.channels) | {GENERAL: replace(policy.channels[GENERAL], is_archived=True)}
    return ProposedPolicyChange(replace(policy, channels=channels))


async def rename_workspace(policy: Policy) -> ProposedPolicyChange:
    return ProposedPolicyChange(policy, workspace={"$set": {"name": f"climbers {policy.version}"}})


async def fail(*_args: Any, **_options: Any) -> None:
    raise Unreachable("Redis does not answer")
