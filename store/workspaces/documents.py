"""Documents of workspaces, channels and members in MongoDB, and the records that they are read as."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from store.base.ids import ConversationId, UserId
from store.base.known_values import known_value
from store.base.workspace_ids import CategoryId, RoleId, WorkspaceId
from store.mongo.client import Document
from store.mongo.collections import workspace_row_id
from store.workspaces.permissions import Permission
from store.workspaces.policy import (
    NO_MEMBERSHIP_CHANGES,
    Channel,
    ChannelCategory,
    ChannelKind,
    Follow,
    MemberFacts,
    MembershipChanges,
    Overwrite,
    Overwrites,
    PendingChange,
    Policy,
    Role,
)
from store.workspaces.workspace_fields import (
    CategoryField,
    ChannelField,
    OverwriteField,
    PendingField,
    RoleField,
    WorkspaceField,
    WorkspaceMemberField,
)


def policy_from(workspace: Document, channels: Iterable[Document]) -> Policy:
    """Return the policy that the documents of a workspace and of its channels have."""
    roles = [_role_from(row) for row in workspace[WorkspaceField.ROLES]]
    categories = [_category_from(row) for row in workspace.get(WorkspaceField.CATEGORIES, ())]
    return Policy(
        WorkspaceId(workspace["_id"]),
        int(workspace[WorkspaceField.POLICY_VERSION]),
        UserId(workspace[WorkspaceField.OWNER]),
        {role.id: role for role in roles},
        {category.id: category for category in categories},
        {channel.id: channel for channel in map(channel_from, channels) if channel is not None},
        {UserId(user): int(version) for user, version in workspace.get(WorkspaceField.MEMBER_CHANGES, ())},
        int(workspace.get(WorkspaceField.MEMBERS_SINCE, 0)),
        tuple(map(_pending_from, workspace.get(WorkspaceField.PENDING, ()))),
        WorkspaceField.DELETED_AT in workspace,
        int(workspace.get(WorkspaceField.RULES_VERSION, 0)),
    )


def policy_fields(policy: Policy) -> Document:
    """Return the fields of a workspace's document that have its policy, without the channels and what is pending."""
    return {
        WorkspaceField.POLICY_VERSION: policy.version,
        WorkspaceField.OWNER: policy.owner,
        WorkspaceField.ROLES: [_role_fields(role) for role in policy.roles.values()],
        WorkspaceField.CATEGORIES: [_category_fields(category) for category in policy.categories.values()],
        WorkspaceField.MEMBER_CHANGES: [[user, version] for user, version in policy.member_changes.items()],
        WorkspaceField.MEMBERS_SINCE: policy.members_since,
        WorkspaceField.RULES_VERSION: policy.rules_version,
    }


def pending_fields(pending: PendingChange) -> Document:
    """Return the document of a change that is not complete. Absent fields: false, or none."""
    fields: Document = {
        PendingField.HEADS: sorted(pending.heads),
        PendingField.IS_CHANGED: pending.is_changed,
        PendingField.CHANGES_RIGHTS: pending.changes_rights,
        PendingField.CHANNELS: sorted(pending.channels),
        PendingField.MEMBERS: sorted(pending.members),
        PendingField.RENAMED: sorted(pending.renamed),
        PendingField.FOLLOWS: sorted(map(list, pending.follows)),
    }
    present = {name: value for name, value in fields.items() if value}
    return {PendingField.ID: pending.id, PendingField.SINCE: pending.since_ms} | present


def channel_from(row: Document) -> Channel | None:
    """Return the channel of a document; None if only later versions know its kind."""
    kind = known_value(ChannelKind, row[ChannelField.KIND], None)
    if kind is None:
        return None
    category = row.get(ChannelField.CATEGORY)
    return Channel(
        id=ConversationId(row["_id"].partition(" ")[2]),
        name=row[ChannelField.NAME],
        kind=kind,
        position=int(row[ChannelField.POSITION]),
        created_at_ms=int(row[ChannelField.CREATED_AT]),
        topic=row.get(ChannelField.TOPIC),
        category=CategoryId(category) if category else None,
        is_default=row.get(ChannelField.IS_DEFAULT, False),
        is_archived=row.get(ChannelField.IS_ARCHIVED, False),
        inherits_permissions=not row.get(ChannelField.HAS_OWN_PERMISSIONS, False),
        overwrites=_overwrites_from(row.get(ChannelField.OVERWRITES, ())),
        full_history=not row.get(ChannelField.SINCE_JOINED, False),
        slow_mode_seconds=int(row.get(ChannelField.SLOW_MODE_SECONDS, 0)),
        member_count=int(row.get(ChannelField.MEMBER_COUNT, 0)),
        metadata=row.get(ChannelField.METADATA),
        membership_changes=_membership_changes_from(row),
    )


def channel_document(workspace: WorkspaceId, channel: Channel) -> Document:
    """Return the document of a new channel."""
    return {
        "_id": workspace_row_id(workspace, channel.id),
        ChannelField.CREATED_AT: channel.created_at_ms,
        ChannelField.MEMBER_COUNT: channel.member_count,
    } | channel_settings(channel)


def channel_settings(channel: Channel) -> Document:
    """Return the fields of a channel's document that may change, except its member count. Absent ones are not set."""
    fields = {
        ChannelField.NAME: channel.name,
        ChannelField.KIND: channel.kind.value,
        ChannelField.POSITION: channel.position,
        ChannelField.TOPIC: channel.topic,
        ChannelField.CATEGORY: channel.category,
        ChannelField.IS_DEFAULT: channel.is_default or None,
        ChannelField.IS_ARCHIVED: channel.is_archived or None,
        ChannelField.HAS_OWN_PERMISSIONS: not channel.inherits_permissions or None,
        ChannelField.OVERWRITES: _overwrite_list(channel.overwrites) or None,
        ChannelField.SINCE_JOINED: not channel.full_history or None,
        ChannelField.SLOW_MODE_SECONDS: channel.slow_mode_seconds or None,
        ChannelField.METADATA: channel.metadata,
        ChannelField.MEMBERSHIPS_SINCE: channel.membership_changes.since or None,
        ChannelField.MEMBERSHIP_CHANGES: [list(each) for each in channel.membership_changes.of_users.items()] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


CHANNEL_SETTINGS = (
    ChannelField.NAME,
    ChannelField.KIND,
    ChannelField.POSITION,
    ChannelField.TOPIC,
    ChannelField.CATEGORY,
    ChannelField.IS_DEFAULT,
    ChannelField.IS_ARCHIVED,
    ChannelField.HAS_OWN_PERMISSIONS,
    ChannelField.OVERWRITES,
    ChannelField.SINCE_JOINED,
    ChannelField.SLOW_MODE_SECONDS,
    ChannelField.METADATA,
    ChannelField.MEMBERSHIPS_SINCE,
    ChannelField.MEMBERSHIP_CHANGES,
)
"""All fields that `channel_settings` may return."""


def facts_from(row: Document, version: int) -> MemberFacts:
    """Return the facts that a member's document has. version: the policy version under which it was read."""
    workspace, _, user = row["_id"].partition(" ")
    return MemberFacts(
        user=UserId(user),
        version=version,
        roles=frozenset(RoleId(role) for role in row.get(WorkspaceMemberField.ROLES, ())),
        nickname=row.get(WorkspaceMemberField.NICKNAME),
        joined_at_ms=int(row.get(WorkspaceMemberField.JOINED_AT, 0)),
        timed_out_until_ms=int(row.get(WorkspaceMemberField.TIMED_OUT_UNTIL, 0)),
        workspace=WorkspaceId(workspace),
    )


def member_document(workspace: WorkspaceId, facts: MemberFacts, sort_name: str) -> Document:
    """Return the document of a new member."""
    fields: Document = {
        "_id": workspace_row_id(workspace, facts.user),
        WorkspaceMemberField.JOINED_AT: facts.joined_at_ms,
        WorkspaceMemberField.SORT_NAME: sort_name,
    }
    if facts.roles:
        fields[WorkspaceMemberField.ROLES] = sorted(facts.roles)
    if facts.nickname is not None:
        fields[WorkspaceMemberField.NICKNAME] = facts.nickname
    if facts.timed_out_until_ms:
        fields[WorkspaceMemberField.TIMED_OUT_UNTIL] = facts.timed_out_until_ms
    return fields


def _pending_from(row: Mapping[str, Any]) -> PendingChange:
    return PendingChange(
        row[PendingField.ID],
        int(row[PendingField.SINCE]),
        frozenset(map(ConversationId, row.get(PendingField.HEADS, ()))),
        row.get(PendingField.IS_CHANGED, False),
        row.get(PendingField.CHANGES_RIGHTS, False),
        frozenset(map(ConversationId, row.get(PendingField.CHANNELS, ()))),
        frozenset(map(UserId, row.get(PendingField.MEMBERS, ()))),
        frozenset(map(UserId, row.get(PendingField.RENAMED, ()))),
        frozenset(Follow(*each) for each in row.get(PendingField.FOLLOWS, ())),
    )


def _role_from(row: Mapping[str, Any]) -> Role:
    return Role(
        RoleId(row[RoleField.ID]),
        row[RoleField.NAME],
        int(row[RoleField.POSITION]),
        Permission(row[RoleField.PERMISSIONS]),
        row.get(RoleField.COLOR),
        row.get(RoleField.IS_MENTIONABLE, False),
        row.get(RoleField.IS_HOISTED, False),
        int(row.get(RoleField.MEMBER_COUNT, 0)),
    )


def _role_fields(role: Role) -> Document:
    fields = {
        RoleField.ID: role.id,
        RoleField.NAME: role.name,
        RoleField.POSITION: role.position,
        RoleField.PERMISSIONS: int(role.permissions),
        RoleField.COLOR: role.color,
        RoleField.IS_MENTIONABLE: role.is_mentionable or None,
        RoleField.IS_HOISTED: role.is_hoisted or None,
        RoleField.MEMBER_COUNT: role.member_count or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _membership_changes_from(row: Document) -> MembershipChanges:
    since, changes = int(row.get(ChannelField.MEMBERSHIPS_SINCE, 0)), row.get(ChannelField.MEMBERSHIP_CHANGES, ())
    if not since and not changes:
        return NO_MEMBERSHIP_CHANGES
    return MembershipChanges(since, {UserId(user): int(version) for user, version in changes})


def _category_from(row: Mapping[str, Any]) -> ChannelCategory:
    return ChannelCategory(
        CategoryId(row[CategoryField.ID]),
        row[CategoryField.NAME],
        int(row[CategoryField.POSITION]),
        _overwrites_from(row.get(CategoryField.OVERWRITES, ())),
    )


def _category_fields(category: ChannelCategory) -> Document:
    fields: Document = {
        CategoryField.ID: category.id,
        CategoryField.NAME: category.name,
        CategoryField.POSITION: category.position,
    }
    overwrites = _overwrite_list(category.overwrites)
    return fields | {CategoryField.OVERWRITES: overwrites} if overwrites else fields


def _overwrites_from(rows: Iterable[Mapping[str, Any]]) -> Overwrites:
    roles, users = dict[RoleId, Overwrite](), dict[UserId, Overwrite]()
    for row in rows:
        overwrite = Overwrite(Permission(row.get(OverwriteField.ALLOW, 0)), Permission(row.get(OverwriteField.DENY, 0)))
        if OverwriteField.ROLE in row:
            roles[RoleId(row[OverwriteField.ROLE])] = overwrite
        else:
            users[UserId(row[OverwriteField.USER])] = overwrite
    return Overwrites(roles, users)


def _overwrite_list(overwrites: Overwrites) -> list[Document]:
    of_roles: list[Document] = [_overwrite_fields(o) | {OverwriteField.ROLE: id} for id, o in overwrites.roles.items()]
    return of_roles + [_overwrite_fields(o) | {OverwriteField.USER: user} for user, o in overwrites.users.items()]


def _overwrite_fields(overwrite: Overwrite) -> Document:
    return {OverwriteField.ALLOW: int(overwrite.allow), OverwriteField.DENY: int(overwrite.deny)}
