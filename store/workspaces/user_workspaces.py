"""The workspaces of each user (collection WORKSPACES_OF), and the limit on their number.

Rows `<user> <workspace>`:
    j   when the user joined, in ms
    nl  the notification level that the user set for the workspace (a `NotificationLevel`); absent: ALL
    se  mentions of everybody there do not notify (bool); absent: they do
The row ends with the membership. One more row for each user, `<user> ` with nothing behind
the space, is the user's summary. Every change of the user's memberships writes it in the same transaction:
    n   number of workspaces
    sv  version of the name from which the search fields of the user's memberships were made (`member_search`)
    rf  number of times that these fields were made again
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pymongo import DeleteOne, UpdateOne
from pymongo.errors import BulkWriteError

from store.base.errors import Refused
from store.base.ids import UserId
from store.base.known_values import known_value
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import WORKSPACES_OF, workspace_of_user_row_id
from store.mongo.index_fields import BY_ID
from store.mongo.writes import Update, Write, is_duplicate
from store.sessions.fields import NotificationLevel
from store.workspaces.changing.proposed_change import Operation, set_or_remove

UNKNOWN_VERSION = 0
"""`sv` of a user whose memberships may have search fields of different names."""


class JoinedWorkspace(NamedTuple):
    """A workspace that a user is a member of, and when the user joined (ms)."""

    workspace: WorkspaceId
    joined_at_ms: int


class WorkspaceNotifications(NamedTuple):
    """A user's settings for notifications of a workspace. None: not set."""

    level: NotificationLevel | None = None
    suppresses_everyone: bool | None = None


class TooManyWorkspaces(Refused):
    """A user is in as many workspaces as allowed."""


class AlreadyMember(Refused):
    """A user has joined meanwhile."""


class UserWorkspaces:
    """Reads and writes the rows of users."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_joined(self, user: UserId, session: Any = None) -> list[JoinedWorkspace]:
        """Return the workspaces of a user in the order in which the user joined them. One round trip."""
        bounds = {"_id": {"$gt": summary_id(user), "$lt": f"{user}!"}}
        rows = await self._mongo.find(WORKSPACES_OF, bounds, session=session)
        found = (JoinedWorkspace(WorkspaceId(row["_id"].rpartition(" ")[2]), row["j"]) for row in rows)
        return sorted(found, key=lambda joined: (joined.joined_at_ms, joined.workspace))

    async def find_members(self, places: Iterable[tuple[UserId, WorkspaceId]]) -> set[UserId]:
        """Return the users of those pairs of a user and a workspace in which the user is a member.

        One round trip, which reads only an index.
        """
        ids = [workspace_of_user_row_id(user, workspace) for user, workspace in places]
        rows = await self._mongo.find(WORKSPACES_OF, {"_id": {"$in": ids}}, projection={"_id": 1}, hint=BY_ID)
        return {UserId(row["_id"].partition(" ")[0]) for row in rows}

    async def list_of_many(self, users: Sequence[UserId]) -> dict[UserId, list[WorkspaceId]]:
        """Return the workspaces of each of some users: one round trip. Users without any may be left out."""
        bounds = [{"_id": {"$gt": summary_id(user), "$lt": f"{user}!"}} for user in users]
        found: dict[UserId, list[WorkspaceId]] = {}
        for row in await self._mongo.find(WORKSPACES_OF, {"$or": bounds}, projection={"_id": 1}) if bounds else ():
            user, _, workspace = row["_id"].rpartition(" ")
            found.setdefault(UserId(user), []).append(WorkspaceId(workspace))
        return found

    async def find_notifications(
        self, user: UserId, workspaces: Iterable[WorkspaceId]
    ) -> dict[WorkspaceId, WorkspaceNotifications]:
        """Return what a user set in those workspaces that the user is a member of. One round trip."""
        rows = {workspace_of_user_row_id(user, workspace): workspace for workspace in workspaces}
        found = await self._mongo.find(WORKSPACES_OF, {"_id": {"$in": list(rows)}})
        return {rows[row["_id"]]: _notifications_from(row) for row in found}

    async def find_notifications_of(
        self, users: Iterable[UserId], workspace: WorkspaceId
    ) -> dict[UserId, WorkspaceNotifications]:
        """Return what each of some users set in a workspace, of those who are members of it. One round trip."""
        rows = {workspace_of_user_row_id(user, workspace): user for user in users}
        found = await self._mongo.find(WORKSPACES_OF, {"_id": {"$in": list(rows)}})
        return {rows[row["_id"]]: _notifications_from(row) for row in found}

    async def list_at_limit(self, users: Sequence[UserId], most: int) -> list[UserId]:
        """Return those of some users who are in `most` workspaces. One round trip."""
        ids = [summary_id(user) for user in users]
        rows = await self._mongo.find(WORKSPACES_OF, {"_id": {"$in": ids}, "n": {"$gte": most}})
        return [UserId(row["_id"][:-1]) for row in rows]

    async def insert(
        self, users: Sequence[tuple[UserId, int]], workspace: WorkspaceId, at_ms: int, most: int, session: Any
    ) -> None:
        """Add a workspace to users, within a transaction, which must end if this raises.

        Args:
            users: The users, each with the version of the name from which the membership's search fields were made.
            workspace: The workspace.
            at_ms: The time of joining.
            most: Largest number of workspaces of a user.
            session: The transaction.

        Raises TooManyWorkspaces and AlreadyMember.
        """
        # A user with too many workspaces is not found by the query, and the upsert collides with the row that exists.
        summaries = [
            UpdateOne({"_id": summary_id(user), "n": {"$not": {"$gte": most}}}, _update_for_join(version), upsert=True)
            for user, version in users
        ]
        rows = [{"_id": workspace_of_user_row_id(user, workspace), "j": at_ms} for user, _ in users]
        try:
            await self._mongo.bulk_write(WORKSPACES_OF, summaries, session=session)
        except BulkWriteError as error:
            raise (TooManyWorkspaces() if is_duplicate(error) else error) from error
        try:
            await self._mongo.insert_many(WORKSPACES_OF, rows, session=session)
        except BulkWriteError as error:
            raise (AlreadyMember() if is_duplicate(error) else error) from error


def _notifications_from(row: Document) -> WorkspaceNotifications:
    level = known_value(NotificationLevel, row.get("nl"), None)
    return WorkspaceNotifications(level, row.get("se"))


def notifications_write(user: UserId, workspace: WorkspaceId, wanted: WorkspaceNotifications) -> Write:
    """Return the write of what a user sets for notifications of a workspace. It may be repeated."""
    level = wanted.level.value if wanted.level is not None else None
    update = set_or_remove({"nl": level, "se": wanted.suppresses_everyone})
    return Write.updates(WORKSPACES_OF, [Update({"_id": workspace_of_user_row_id(user, workspace)}, update)])


def summary_id(user: UserId) -> str:
    """Return the `_id` of a user's summary row."""
    return f"{user} "


def user_row_removals(user: UserId, workspace: WorkspaceId) -> list[Operation]:
    """Return the writes of the transaction in which a user's membership ends."""
    return [
        DeleteOne({"_id": workspace_of_user_row_id(user, workspace)}),
        UpdateOne({"_id": summary_id(user)}, {"$inc": {"n": -1}}),
    ]


def update_of_summary(user: UserId, version: int) -> UpdateOne:
    """Return the update of a summary when search fields of one membership are made from a version of the name."""
    return UpdateOne({"_id": summary_id(user)}, [{"$set": {"sv": _common_version(version)}}])


def _update_for_join(version: int) -> list[dict[str, Any]]:
    """Return the update of a summary for a membership whose search fields were made from a version of the name."""
    count = {"$add": [{"$ifNull": ["$n", 0]}, 1]}
    return [{"$set": {"n": count, "sv": _common_version(version)}}]


def _common_version(version: int) -> dict[str, Any]:
    is_same = {"$eq": [{"$ifNull": ["$sv", version]}, version]}
    return {"$cond": [is_same, version, UNKNOWN_VERSION]}
