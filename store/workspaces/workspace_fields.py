"""Stored names of the fields of workspaces, their channels and their members, in MongoDB and Redis (ADR 56)."""

from __future__ import annotations


class WorkspaceField:
    """Fields of a document in `workspaces` (`_id`: the workspace). Times are in ms."""

    NAME = "name"
    DOMAIN = "dom"
    ICON = "ic"
    PLAN = "pl"
    METADATA = "md"
    """Application data, as JSON text."""
    IS_OPEN = "op"
    """True, or absent."""
    OWNER = "own"
    MEMBER_COUNT = "mc"
    SEARCH_NAME = "sn"
    """Normalized name; open workspaces only."""
    SEARCH_KEYS = "k"
    """Beginnings of SEARCH_NAME; open workspaces only."""
    INVITE_COUNT = "iv"
    """Number of rows in `invites`."""
    GUARDED_PINS = "pg"
    """Number of changes of pins. Each writes it under the policy version that its rights were judged under."""
    RETENTION_DAYS = "rt"
    """Messages expire after this time. Absent: never."""
    RETENTION_DUE = "rd"
    """When the next message may expire (ms). Only with RETENTION_DAYS."""
    CREATED_BY = "by"
    CREATED_AT = "ct"
    DELETED_AT = "del"
    """Absent while the workspace exists."""
    REMOVED_UNTIL = "rl"
    """Until then one process removes the rows of the deleted workspace, and others do not."""

    # The policy, except for the channels.
    POLICY_VERSION = "pv"
    """Number of changes of rights so far; raised in the transaction of each change."""
    ROLES = "ro"
    """List of documents with the fields of `RoleField`."""
    CATEGORIES = "ca"
    """List of documents with the fields of `CategoryField`."""
    MEMBER_CHANGES = "mch"
    """[[user, policy version], …]: newest changes of what single members may do, each user once, oldest first."""
    MEMBERS_SINCE = "ms"
    """Facts about members of an earlier policy version are outdated."""
    RULES_VERSION = "crv"
    """Policy version that set the content rules. Absent or 0: there are none."""
    PENDING = "pn"
    """List of documents with the fields of `PendingField`. Absent or empty: every change is complete."""


class PendingField:
    """Fields of an entry of `WorkspaceField.PENDING`: see `PendingChange`. Absent: false, or none."""

    ID = "i"
    SINCE = "a"
    HEADS = "h"
    """List of channels."""
    IS_CHANGED = "w"
    CHANGES_RIGHTS = "r"
    CHANNELS = "c"
    MEMBERS = "u"
    RENAMED = "n"
    FOLLOWS = "f"
    """List of [user, channel, follows]."""


class RoleField:
    """Fields of a role in `WorkspaceField.ROLES`."""

    ID = "i"
    NAME = "n"
    POSITION = "p"
    PERMISSIONS = "b"
    """Bits of `Permission`."""
    COLOR = "c"
    IS_MENTIONABLE = "m"
    """True, or absent."""
    IS_HOISTED = "h"
    """True, or absent."""
    MEMBER_COUNT = "mc"
    """Members with this role. Absent for the role of everyone: it is the member count of the workspace."""


class CategoryField:
    """Fields of a channel category in `WorkspaceField.CATEGORIES`."""

    ID = "i"
    NAME = "n"
    POSITION = "p"
    OVERWRITES = "ow"
    """List of documents with the fields of `OverwriteField`."""


class OverwriteField:
    """Fields of an overwrite. It has ROLE or USER."""

    ROLE = "r"
    USER = "u"
    ALLOW = "a"
    """Bits of `Permission`."""
    DENY = "d"
    """Bits of `Permission`."""


class ChannelField:
    """Fields of a document in `channels` (`_id`: "<workspace> <channel>"). Times are in ms."""

    NAME = "name"
    KIND = "k"
    """A `ChannelKind`."""
    POSITION = "p"
    CREATED_AT = "ct"
    TOPIC = "to"
    CATEGORY = "ca"
    IS_DEFAULT = "df"
    """True, or absent."""
    IS_ARCHIVED = "ar"
    """True, or absent."""
    HAS_OWN_PERMISSIONS = "own"
    """True, or absent: it inherits those of its category."""
    OVERWRITES = "ow"
    """List of documents with the fields of `OverwriteField`."""
    SINCE_JOINED = "sj"
    """True: members see the history from their joining on. Absent: all of it."""
    SLOW_MODE_SECONDS = "sm"
    MEMBER_COUNT = "mc"
    """PRIVATE: members. PUBLIC: followers."""
    NEW_FOLLOWERS = "nf"
    """[time (ms), user…]: followers of a new channel whose cached states may lack the session. Absent: none."""
    ANNOUNCEMENTS = "an"
    """[[message id, actor, text, stored system event…], …]: SYSTEM messages that are not stored yet. Absent: none."""
    METADATA = "md"
    """Application data, as JSON text."""
    MEMBERSHIP_CHANGES = "mch"
    """[[user, policy version], …]: newest changes of memberships, each user once, oldest first. PRIVATE only."""
    MEMBERSHIPS_SINCE = "ms"
    """Memberships that were read under an earlier policy version are outdated. Absent: 0."""


class WorkspaceMemberField:
    """Fields of a document in `workspace_members` (`_id`: "<workspace> <user>"). Times are in ms."""

    ROLES = "r"
    """Roles, without the role of everyone."""
    NICKNAME = "nn"
    JOINED_AT = "j"
    TIMED_OUT_UNTIL = "to"
    FOLLOW_CHANGES = "fc"
    """Number of changes of the PUBLIC channels that the member follows. Absent: none since joining."""

    # Made from the name, the id and the nickname (`member_search`).
    WORKSPACE = "w"
    """The workspace, for indexes."""
    SORT_NAME = "sn"
    """Normalized nickname, or name without one, a tab, and the user: members are listed in this order."""
    SEARCH_KEYS = "k"
    """Beginnings of the name, the nickname and the id."""
    SEARCH_NAMES = "t"
    """Normalized nickname and name."""
    SEARCH_ID = "i"
    """Normalized id."""
    USER_SORT_NAME = "us"
    """SORT_NAME that the member would have without a nickname; only members with one."""


class WorkspaceMetaField:
    """Fields of the hash `meta` of a workspace in Redis."""

    POLICY_VERSION = "pv"
    """It only grows. Absent: not cached."""


def workspace_literals() -> dict[str, str]:
    """Return Lua literals by the names that the scripts on workspaces use for them."""
    return {"META_POLICY_VERSION": f"'{WorkspaceMetaField.POLICY_VERSION}'"}
