"""A proposed change of what decides rights in a workspace, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pymongo import DeleteOne, InsertOne, UpdateOne

from store.audit.audit_note import AuditNote
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import RoleId, WorkspaceId
from store.mongo.client import Document
from store.mongo.collections import workspace_row_id
from store.workspaces.changing.concerned_channels import channels_concerned, channels_of_member, hides_or_shows
from store.workspaces.documents import CHANNEL_SETTINGS, channel_document, channel_settings
from store.workspaces.policy import Channel, Follow, MemberFacts, MembershipChanges, PendingChange, Policy, Role
from store.workspaces.workspace_fields import WorkspaceMemberField

Operation = InsertOne[Document] | UpdateOne | DeleteOne

_MAX_MEMBER_CHANGES = 100
"""Changes of single members that a policy names. With more, the facts about all members are read again."""

_MAX_PENDING = 20
"""Incomplete changes that a workspace's document names one by one. While Redis is away, none is completed."""


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A change of one member.

    Attributes:
        before: Facts that the policy accepts.
        after: The facts after the change; None: the membership ends.
        fields: Further fields of the member's document; None removes one.
        private_channels: PRIVATE channels that the member is in; None: not known, so it may be all.
    """

    before: MemberFacts
    after: MemberFacts | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    private_channels: frozenset[ConversationId] | None = None

    @property
    def changes_rights(self) -> bool:
        """True if the member may have other rights, or none. A nickname gives no rights."""
        before, after = self.before, self.after
        return after is None or (before.roles, before.timed_out_until_ms) != (after.roles, after.timed_out_until_ms)


@dataclass(frozen=True, slots=True)
class ProposedPolicyChange:
    """A change that was decided on a policy.

    What has to be done with it follows from the policies before and after, and from the members: which documents are
    written, where rights have to be judged again, and what subscribers are sent.

    Attributes:
        policy: The policy after the change. Versions, member counts of roles and what is pending are computed.
        members: Members that change.
        channel_members: Users whose membership of a PRIVATE channel begins or ends.
        workspace: Update operators for other fields of the workspace's document.
        writes: Further writes of the same transaction: collection and operations.
        deletes: The workspace is deleted.
        follows: Users who follow a channel from now on, or no longer. `writes` has the writes of their rows.
        guards: Updates that each have to match a document. If one does not, the change is decided again.
        absent: Documents that must not exist, each with its collection and `_id`. If one does, the change is decided
            again.
        fenced: Further channels where rights have to be judged again, though the policy stays as it is.
        audit: Entries of the audit log, stored in the same transaction.
    """

    policy: Policy
    members: Sequence[MemberChange] = ()
    channel_members: frozenset[tuple[ConversationId, UserId]] = frozenset()
    workspace: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    writes: Sequence[tuple[str, Sequence[Operation]]] = ()
    deletes: bool = False
    follows: frozenset[Follow] = frozenset()
    guards: Sequence[tuple[str, Sequence[UpdateOne]]] = ()
    absent: Sequence[tuple[str, str]] = ()
    fenced: frozenset[ConversationId] = frozenset()
    audit: Sequence[AuditNote] = ()

    def changes(self, before: Policy) -> bool:
        """Return whether anything is different from before."""
        return (
            self.policy != before
            or any(change.after != change.before or change.fields for change in self.members)
            or bool(self.channel_members or self.workspace or self.writes or self.deletes)
        )

    def only_renames(self, before: Policy) -> bool:
        """Return whether nothing but nicknames changes, so that all policies and rights stay valid."""
        return (
            self.policy == before
            and bool(self.members)
            and not any(change.changes_rights for change in self.members)
            and not (self.channel_members or self.workspace or self.deletes or self.follows)
        )

    def result(self, before: Policy, id: str, now_ms: int) -> Policy:
        """Return the policy after the change, with its version and what is pending.

        The last pending change is this one. If many were pending, it includes them.
        """
        pending = self._pending(before, id, now_ms)
        earlier = before.pending
        entries = (*earlier, pending) if len(earlier) < _MAX_PENDING else (pending.after(*earlier),)
        if self.only_renames(before):
            return replace(before, pending=entries)
        version = before.version + 1
        users = sorted({change.before.user for change in self.members})
        member_changes, members_since = _member_changes(before, version, users)
        return replace(
            self.policy,
            workspace=before.workspace,
            version=version,
            roles=_counted(self.policy.roles, self.members),
            channels=self._channels_after(before, version),
            member_changes=member_changes,
            members_since=members_since,
            pending=entries,
            is_deleted=before.is_deleted or self.deletes,
        )

    def _channels_after(self, before: Policy, version: int) -> Mapping[ConversationId, Channel]:
        """Return the channels with the changes of their memberships."""
        users: dict[ConversationId, set[UserId]] = {}
        for name, user in self.channel_members:
            users.setdefault(name, set()).add(user)
        changed = {}
        for id, channel in self.policy.channels.items():
            earlier = before.channels.get(id)
            if earlier is not None and earlier.kind is not channel.kind:
                # Followers become members, or the reverse.
                changed[id] = replace(channel, membership_changes=MembershipChanges(version))
            elif id in users:
                changes = channel.membership_changes.after(users[id], version)
                changed[id] = replace(channel, membership_changes=changes)
        return {**self.policy.channels, **changed}

    def _pending(self, before: Policy, id: str, now_ms: int) -> PendingChange:
        if self.only_renames(before):
            return PendingChange(id, now_ms, renamed=frozenset(change.before.user for change in self.members))
        after = self.policy
        heads = channels_concerned(before, after) | {channel for channel, _ in self.channel_members} | self.fenced
        for change in self.members:
            heads |= channels_of_member(before, after, change.before, change.after, change.private_channels)
        profiles = (before.owner, before.roles, before.categories), (after.owner, after.roles, after.categories)
        return PendingChange(
            id,
            now_ms,
            heads=frozenset(before.channels) if self.deletes else heads,
            is_changed=profiles[0] != profiles[1] or bool(self.workspace),
            changes_rights=self.deletes or hides_or_shows(before, after),
            channels=frozenset(id for id, channel in after.channels.items() if channel != before.channels.get(id)),
            members=frozenset(change.before.user for change in self.members)
            | {user for _, user in self.channel_members},
            follows=self.follows,
        )


def member_operations(workspace: WorkspaceId, members: Iterable[MemberChange]) -> list[Operation]:
    """Return the writes of the members' documents."""
    operations = list[Operation]()
    for change in members:
        query = {"_id": workspace_row_id(workspace, change.before.user)}
        if change.after is None:
            operations.append(DeleteOne(query))
            continue
        before, after = _stored_facts(change.before), _stored_facts(change.after)
        # Only what is different: the facts before may lack another change of the nickname.
        changed = {name: value for name, value in after.items() if value != before[name]}
        update = set_or_remove(changed | dict(change.fields))
        if update:
            operations.append(UpdateOne(query, update))
    return operations


def _stored_facts(facts: MemberFacts) -> Document:
    return {
        WorkspaceMemberField.ROLES: sorted(facts.roles) or None,
        WorkspaceMemberField.NICKNAME: facts.nickname,
        WorkspaceMemberField.TIMED_OUT_UNTIL: facts.timed_out_until_ms or None,
    }


def channel_operations(before: Policy, after: Policy) -> list[Operation]:
    """Return the writes of the documents of channels that are new, changed or gone."""
    operations = list[Operation]()
    for id, channel in after.channels.items():
        if id not in before.channels:
            operations.append(InsertOne(channel_document(after.workspace, channel)))
        elif (settings := channel_settings(channel)) != channel_settings(before.channels[id]):
            query = {"_id": workspace_row_id(after.workspace, id)}
            operations.append(UpdateOne(query, set_or_remove(dict.fromkeys(CHANNEL_SETTINGS) | settings)))
    gone = before.channels.keys() - after.channels.keys()
    return operations + [DeleteOne({"_id": workspace_row_id(after.workspace, id)}) for id in sorted(gone)]


def set_or_remove(fields: Mapping[str, Any]) -> Document:
    """Return the update that sets fields, and removes those that are None."""
    update: Document = {}
    for name, value in fields.items():
        update.setdefault("$unset" if value is None else "$set", {})[name] = "" if value is None else value
    return update


def _member_changes(before: Policy, version: int, users: Sequence[UserId]) -> tuple[dict[UserId, int], int]:
    if len(users) > _MAX_MEMBER_CHANGES:
        return {}, version
    changes = {user: at for user, at in before.member_changes.items() if user not in users}
    changes |= dict.fromkeys(users, version)
    since = before.members_since
    while len(changes) > _MAX_MEMBER_CHANGES:
        oldest = next(iter(changes))
        since = max(since, changes.pop(oldest))
    return changes, since


def _counted(roles: Mapping[RoleId, Role], members: Iterable[MemberChange]) -> dict[RoleId, Role]:
    """Return roles with the member counts that they have after changes of members."""
    counts = {id: role.member_count for id, role in roles.items()}
    for change in members:
        for id in change.before.roles & counts.keys():
            counts[id] -= 1
        for id in (change.after.roles if change.after is not None else frozenset()) & counts.keys():
            counts[id] += 1
    return {id: replace(role, member_count=counts[id]) for id, role in roles.items()}
