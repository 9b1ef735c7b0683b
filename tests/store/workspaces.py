"""A workspace for tests of the store."""

from __future__ import annotations

from dataclasses import replace

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, category_id, channel_id, everyone_id, role_id, workspace_id
from store.mongo.collections import CHANNELS, WORKSPACE_MEMBERS, WORKSPACES
from store.store import Store
from store.workspaces.documents import channel_document, member_document, policy_fields
from store.workspaces.permissions import OF_EVERYONE, Permission
from store.workspaces.policy import (
    Channel,
    ChannelCategory,
    ChannelKind,
    MemberFacts,
    Overwrite,
    Overwrites,
    Policy,
    Role,
)

ALICE, BOB, CAROL, DAVE = (UserId(name) for name in ("alice", "bob", "carol", "dave"))
W = workspace_id(7)
EVERYONE, ADMIN, GUIDE = everyone_id(W), role_id(W, 1), role_id(W, 2)
TRAILS = category_id(W, 3)
GENERAL, STAFF, OLD = (channel_id(W, number) for number in (4, 5, 6))
CHANNEL_IDS = (GENERAL, STAFF, OLD)
AT = 1_795_000_000_000


def make_channel(id: ConversationId, name: str, kind: ChannelKind = ChannelKind.PUBLIC, position: int = 0) -> Channel:
    return Channel(id, name, kind, position, AT)


def sample_policy() -> Policy:
    """Alice owns it. Bob is to be an administrator, Carol a guide."""
    roles = (
        Role(EVERYONE, "everyone", 0, OF_EVERYONE),
        Role(GUIDE, "guide", 1, Permission.PIN_MESSAGES, "#00ff00", is_mentionable=True),
        Role(ADMIN, "admin", 2, Permission.ADMINISTRATOR, is_hoisted=True),
    )
    trails = ChannelCategory(
        TRAILS,
        "trails",
        1,
        Overwrites({EVERYONE: Overwrite(deny=Permission.SEND_MESSAGES)}, {DAVE: Overwrite(Permission.SEND_MESSAGES)}),
    )
    channels = (
        replace(make_channel(GENERAL, "general"), is_default=True, topic="everything", metadata='{"a":1}'),
        replace(make_channel(STAFF, "staff", ChannelKind.PRIVATE, 1), full_history=False, slow_mode_seconds=5),
        replace(make_channel(OLD, "old", position=2), category=TRAILS, is_archived=True),
    )
    return Policy(W, 1, ALICE, {r.id: r for r in roles}, {TRAILS: trails}, {c.id: c for c in channels})


async def insert_workspace(store: Store, policy: Policy, *members: MemberFacts) -> WorkspaceId:
    """Store a workspace with its channels and members."""
    document = {"_id": policy.workspace, "name": "hikers", "ct": AT, "mc": len(members)} | policy_fields(policy)
    await store.mongo.insert_one(WORKSPACES, document)
    if policy.channels:
        rows = [channel_document(policy.workspace, channel) for channel in policy.channels.values()]
        await store.mongo.insert_many(CHANNELS, rows)
    if members:
        await store.mongo.insert_many(
            WORKSPACE_MEMBERS, [member_document(policy.workspace, facts, facts.user) for facts in members]
        )
    return policy.workspace
