"""A workspace with channels, and a user in every relation to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import RoleId, WorkspaceId, everyone_id, role_id, workspace_id
from store.base.workspace_ids import channel_id as make_channel_id
from store.conversations.conversation import Member
from store.conversations.conversation_fields import ConversationField, HeadField
from store.mongo.collections import (
    CHANNELS,
    CONVERSATIONS,
    MEMBERS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    member_row_id,
    workspace_row_id,
)
from store.redis.cache import Call
from store.store import Store
from store.workspaces.documents import channel_document, member_document, policy_fields
from store.workspaces.member_search import search_fields_of
from store.workspaces.permissions import OF_EVERYONE, Permission
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Overwrite, Overwrites, Policy, Role
from tests.api.client import Api

NAMES = ("owner", "admin", "moderator", "member", "other", "outsider")
"""Relations to the workspace. The admin and the moderator have roles; `member` and `other` have none."""


@dataclass
class SampleChannels:
    """A workspace, written to MongoDB as its owner would have made it.

    `member` and the moderator are in the PRIVATE channel `staff`; the owner and `other` are not.
    """

    store: Store
    policy: Policy
    users: Mapping[str, str]
    general: ConversationId
    staff: ConversationId
    old: ConversationId
    admin_role: RoleId
    moderator_role: RoleId
    guide_role: RoleId

    def __getattr__(self, name: str) -> str:
        try:
            return self.users[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def id(self) -> WorkspaceId:
        return self.policy.workspace

    @property
    def everyone(self) -> RoleId:
        return everyone_id(self.id)

    async def change(self, policy: Policy, *changed_members: str) -> None:
        """Store another policy with the next version, and raise the versions in Redis as a change of rights does."""
        version = self.policy.version + 1
        changes = dict(self.policy.member_changes) | {UserId(user): version for user in changed_members}
        self.policy = replace(policy, version=version, member_changes=changes)
        mongo = self.store.mongo
        await mongo.update_one(WORKSPACES, {"_id": self.id}, {"$set": policy_fields(self.policy)})
        for channel in self.policy.channels.values():
            row = channel_document(self.id, channel)
            await mongo.update_one(CHANNELS, {"_id": row["_id"]}, [{"$replaceWith": {"$literal": row}}])
        await raise_versions(self.store, self.policy)
        await self.store.cache.one(self.store.policies.versions.raise_call(self.id, version))

    async def change_channel(self, channel: ConversationId, **fields: object) -> None:
        """Store other settings of a channel."""
        changed = replace(self.policy.channels[channel], **fields)  # type: ignore[arg-type]
        await self.change(replace(self.policy, channels={**self.policy.channels, channel: changed}))

    async def overwrite(self, channel: ConversationId, user: str, deny: Permission) -> None:
        """Deny a member permissions in a channel."""
        await self.change_channel(channel, overwrites=Overwrites({}, {UserId(user): Overwrite(deny=deny)}))

    async def give(self, role: RoleId, permissions: Permission) -> None:
        """Store other permissions of a role."""
        changed = replace(self.policy.roles[role], permissions=permissions)
        await self.change(replace(self.policy, roles={**self.policy.roles, role: changed}))

    async def remove_from_staff(self, user: str) -> None:
        """End a membership of the PRIVATE channel."""
        head = await self.store.conversations.find(self.staff)
        assert head is not None
        member = Member(UserId(user), "", ((1, head.seq),), 1)
        await self.store.mongo.update_one(
            MEMBERS, {"_id": member_row_id(self.staff, UserId(user))}, {"$set": member.to_fields()}
        )
        await self.change(self.policy, user)

    async def remove(self, user: str) -> None:
        """End a membership of the workspace."""
        await self.store.mongo.delete_one(WORKSPACE_MEMBERS, {"_id": workspace_row_id(self.id, user)})
        await self.change(self.policy, user)

    async def set_facts(self, user: str, **facts: object) -> None:
        """Store other facts about a member."""
        facts = {"joined_at_ms": 1} | facts
        row = _member_row(self.id, MemberFacts(UserId(user), 0, **facts))  # type: ignore[arg-type]
        await self.store.mongo.update_one(WORKSPACE_MEMBERS, {"_id": row["_id"]}, [{"$replaceWith": {"$literal": row}}])
        await self.change(self.policy, user)


def _member_row(workspace: WorkspaceId, facts: MemberFacts) -> dict[str, object]:
    """Return the document of a member with the fields that members are listed by."""
    search = search_fields_of(workspace, facts.user, facts.user, facts.nickname)
    return member_document(workspace, facts, search.sort_name) | search.fields


async def raise_versions(store: Store, policy: Policy) -> None:
    """Raise the policy versions of cached heads, as a change of rights does."""
    for channel in policy.channels:
        head = store.keys.head(channel)
        if await store.cache.one(Call("EXISTS", (head,))):
            await store.cache.one(Call("HSET", (head,), (HeadField.POLICY_VERSION, policy.version)))


async def create_sample_channels(api: Api, **members: MemberFacts) -> SampleChannels:
    """Create the workspace with all its users."""
    store = api.services.app.store
    users = dict(zip(NAMES, await api.create_users(*NAMES), strict=True))
    workspace, now = workspace_id(store.ids.next()), store.clock.now_ms()
    everyone, admin, moderator, guide = everyone_id(workspace), *(role_id(workspace, n) for n in (1, 2, 3))
    roles = (
        Role(everyone, "everyone", 0, OF_EVERYONE),
        Role(guide, "guide", 1, Permission(0), is_mentionable=True),
        Role(moderator, "moderator", 2, Permission.MANAGE_MESSAGES | Permission.MENTION_EVERYONE),
        Role(admin, "admin", 3, Permission.ADMINISTRATOR),
    )
    general, staff, old = (make_channel_id(workspace, n) for n in (4, 5, 6))
    channels = (
        Channel(general, "general", ChannelKind.PUBLIC, 0, now),
        Channel(staff, "staff", ChannelKind.PRIVATE, 1, now),
        Channel(old, "old", ChannelKind.PUBLIC, 2, now, is_archived=True),
    )
    policy = Policy(workspace, 1, UserId(users["owner"]), {r.id: r for r in roles}, {}, {c.id: c for c in channels})
    own_roles = {"admin": admin, "moderator": moderator}
    facts = [
        MemberFacts(UserId(user), 1, frozenset({own_roles[name]} if name in own_roles else ()), joined_at_ms=now)
        for name, user in users.items()
        if name != "outsider"
    ]
    document = {"_id": workspace, "name": "hikers", "ct": now, "mc": len(facts), "by": users["owner"]}
    await store.mongo.insert_one(WORKSPACES, document | policy_fields(policy))
    await store.mongo.insert_many(CHANNELS, [channel_document(workspace, channel) for channel in channels])
    await store.mongo.insert_many(WORKSPACE_MEMBERS, [_member_row(workspace, each) for each in facts])
    heads = [
        {
            "_id": channel.id,
            ConversationField.KIND: "C",
            ConversationField.SEQ: 0,
            ConversationField.N: 0,
            ConversationField.MOVED_AT: now,
            ConversationField.WRITTEN_AT: 0,
        }
        for channel in channels
    ]
    await store.mongo.insert_many(CONVERSATIONS, heads)
    rows = [
        {"_id": member_row_id(staff, UserId(users[name]))}
        | Member(UserId(users[name]), "", ((1, None),), now).to_fields()
        for name in ("member", "moderator")
    ]
    await store.mongo.insert_many(MEMBERS, rows)
    return SampleChannels(store, policy, users, general, staff, old, admin, moderator, guide)
