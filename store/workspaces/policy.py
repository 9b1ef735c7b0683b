"""The policy of a workspace: everything that decides rights, as records. Never changed; a change makes a new one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import CategoryId, RoleId, WorkspaceId, everyone_id
from store.workspaces.permissions import NOTHING, Permission

Target = RoleId | UserId

OverwritePlace = str
"""The id of a channel or category that has overwrites, or NO_PLACE."""

NO_PLACE: OverwritePlace = ""


class ChannelKind(StrEnum):
    """Kind of a channel, with stored values."""

    PUBLIC = "U"
    PRIVATE = "P"
    VOICE = "V"


@dataclass(frozen=True, slots=True)
class Role:
    """A role. `position`: higher ranks higher; the role of everyone has 0."""

    id: RoleId
    name: str
    position: int
    permissions: Permission
    color: str | None = None
    is_mentionable: bool = False
    is_hoisted: bool = False
    member_count: int = 0
    """Members with this role; 0 for the role of everyone, which all members have."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Permissions that a channel or category allows and denies to a role or a member."""

    allow: Permission = NOTHING
    deny: Permission = NOTHING


@dataclass(frozen=True, slots=True)
class Overwrites:
    """All overwrites of one channel or category."""

    roles: Mapping[RoleId, Overwrite] = field(default_factory=dict)
    users: Mapping[UserId, Overwrite] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of overwrites."""
        return len(self.roles) + len(self.users)


@dataclass(frozen=True, slots=True)
class ChannelCategory:
    """A category of channels."""

    id: CategoryId
    name: str
    position: int
    overwrites: Overwrites = field(default_factory=Overwrites)


_MAX_MEMBERSHIP_CHANGES = 20
"""Changes of single memberships that a channel names. With more, all memberships of the channel are read again."""


@dataclass(frozen=True, slots=True)
class MembershipChanges:
    """Policy versions of the newest changes of a PRIVATE channel's memberships.

    Attributes:
        since: Memberships that were read under an earlier version are outdated.
        of_users: Versions of changes of single users, oldest first.
    """

    since: int = 0
    of_users: Mapping[UserId, int] = field(default_factory=dict)

    @property
    def newest(self) -> int:
        """The version of the newest change."""
        return max(self.since, *self.of_users.values()) if self.of_users else self.since

    def accepts(self, user: UserId, version: int) -> bool:
        """Return whether a membership that was read under a version is valid."""
        return version >= max(self.since, self.of_users.get(user, 0))

    def after(self, users: Collection[UserId], version: int) -> MembershipChanges:
        """Return the changes after those of some users."""
        if len(users) > _MAX_MEMBERSHIP_CHANGES:
            return MembershipChanges(version)
        changes = {user: at for user, at in self.of_users.items() if user not in users}
        changes |= dict.fromkeys(sorted(users), version)
        since = self.since
        while len(changes) > _MAX_MEMBERSHIP_CHANGES:
            since = max(since, changes.pop(next(iter(changes))))
        return MembershipChanges(since, changes)


NO_MEMBERSHIP_CHANGES = MembershipChanges()


@dataclass(frozen=True, slots=True)
class Channel:
    """The settings of a channel. Times are in ms. `metadata` is JSON text."""

    id: ConversationId
    name: str
    kind: ChannelKind
    position: int
    created_at_ms: int
    topic: str | None = None
    category: CategoryId | None = None
    is_default: bool = False
    is_archived: bool = False
    inherits_permissions: bool = True
    """The category's overwrites apply, because it has none of its own."""
    overwrites: Overwrites = field(default_factory=Overwrites)
    full_history: bool = True
    slow_mode_seconds: int = 0
    member_count: int = 0
    """PRIVATE: members. PUBLIC: followers. As of the read of the policy."""
    metadata: str | None = None
    membership_changes: MembershipChanges = field(default=NO_MEMBERSHIP_CHANGES, compare=False)


class Follow(NamedTuple):
    """A user begins to follow a channel, or stops."""

    user: UserId
    channel: ConversationId
    follows: bool


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change that is durable, and not complete: some server may still use what was before.

    Attributes:
        id: Unique in its workspace.
        since_ms: When a server began to complete it.
        heads: Channels whose heads may have an earlier policy version.
        is_changed: The workspace's profile, owner, roles or categories have changed.
        changes_rights: Channels may have become visible to a member, or hidden.
        channels: Channels that are new, or whose settings have changed.
        members: Members who have changed, or whose membership of a PRIVATE channel has.
        renamed: Members with another nickname, and no other change. It has no part in rights.
        follows: Users who follow a channel from now on (True), or no longer.
    """

    id: str
    since_ms: int
    heads: frozenset[ConversationId] = frozenset()
    is_changed: bool = False
    changes_rights: bool = False
    channels: frozenset[ConversationId] = frozenset()
    members: frozenset[UserId] = frozenset()
    renamed: frozenset[UserId] = frozenset()
    follows: frozenset[Follow] = frozenset()

    @property
    def only_renames(self) -> bool:
        """True if it raised no policy version."""
        return self == PendingChange(self.id, self.since_ms, renamed=self.renamed)

    def after(self, *earlier: PendingChange) -> PendingChange:
        """Return this change together with earlier ones, oldest first."""
        changes = (*earlier, self)
        newest_follows = {follow[:2]: follow for change in changes for follow in change.follows}
        return PendingChange(
            self.id,
            self.since_ms,
            heads=frozenset().union(*(change.heads for change in changes)),
            is_changed=any(change.is_changed for change in changes),
            changes_rights=any(change.changes_rights for change in changes),
            channels=frozenset().union(*(change.channels for change in changes)),
            members=frozenset().union(*(change.members for change in changes)),
            renamed=frozenset().union(*(change.renamed for change in changes)),
            follows=frozenset(newest_follows.values()),
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that decides rights in a workspace, at one policy version."""

    workspace: WorkspaceId
    version: int
    owner: UserId
    roles: Mapping[RoleId, Role]
    """Includes the role of everyone."""
    categories: Mapping[CategoryId, ChannelCategory]
    channels: Mapping[ConversationId, Channel]
    member_changes: Mapping[UserId, int] = field(default_factory=dict)
    """Policy versions of the newest changes of what single members may do, oldest first."""
    members_since: int = 0
    """Facts about members of an earlier policy version are outdated."""
    pending: tuple[PendingChange, ...] = ()
    """Changes that are not complete, as of the read of the policy. Oldest first."""
    is_deleted: bool = False
    """True if the workspace was deleted."""
    rules_version: int = 0
    """The policy version that set the content rules; 0: there are none."""

    rights_of_roles: dict[tuple[frozenset[RoleId], OverwritePlace], Permission] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    """Computed rights of sets of roles in channels with the same overwrites (`rights.py`)."""

    def accepts(self, facts: MemberFacts) -> bool:
        """Return whether facts about a member are as new as this policy."""
        return facts.version >= max(self.members_since, self.member_changes.get(facts.user, 0))

    def accepts_membership(self, channel: ConversationId, user: UserId, version: int) -> bool:
        """Return whether a membership of a channel that was read under a version is as new as this policy."""
        settings = self.channels.get(channel)
        return (
            settings is not None
            and settings.membership_changes.accepts(user, version)
            and self.accepts(MemberFacts(user, version))
        )

    @property
    def everyone(self) -> Role:
        """The role of everyone."""
        return self.roles[everyone_id(self.workspace)]

    def overwrites_of(self, channel: Channel) -> Overwrites:
        """Return the overwrites that apply in a channel: its own, or those of its category."""
        category = self._category_followed_by(channel)
        return category.overwrites if category is not None else channel.overwrites

    def overwrite_place(self, channel: Channel) -> OverwritePlace:
        """Return the channel or category whose overwrites apply in a channel; NO_PLACE if it has none.

        Roles have the same rights in all channels with the same place.
        """
        category = self._category_followed_by(channel)
        place: Channel | ChannelCategory = category if category is not None else channel
        return place.id if len(place.overwrites) else NO_PLACE

    def _category_followed_by(self, channel: Channel) -> ChannelCategory | None:
        if channel.inherits_permissions and channel.category is not None:
            return self.categories.get(channel.category)
        return None


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Facts about one member that decide their rights together with the policy.

    `version`: the policy version under which it was read. `roles`: without the role of everyone; ids of deleted roles
    may be among them, and have no effect.
    """

    user: UserId
    version: int
    roles: frozenset[RoleId] = frozenset()
    nickname: str | None = None
    joined_at_ms: int = 0
    timed_out_until_ms: int = 0
    """0: not timed out. The time-out ends by itself."""
    workspace: WorkspaceId = field(default=WorkspaceId(""), compare=False)
    """Set in all facts that were read."""
