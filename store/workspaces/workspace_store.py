"""Workspaces in MongoDB: creating, reading and listing them. Changes of what decides rights are in `policy_changes`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pymongo import DeleteOne, UpdateOne
from pymongo.errors import DuplicateKeyError

from store.base.errors import Refused
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, everyone_id
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, CLAIMS, WORKSPACE_MEMBERS, WORKSPACES
from store.mongo.index_fields import BY_OPEN_SIZE, BY_OPEN_SIZE_AND_KEY
from store.mongo.paced_reads import read_in_steps
from store.users.search_text import SearchQuery
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.copies.membership_stamps import MembershipStamps
from store.workspaces.documents import member_document, policy_fields
from store.workspaces.member_search import search_fields_of
from store.workspaces.permissions import OF_EVERYONE
from store.workspaces.policy import MemberFacts, Policy, Role
from store.workspaces.user_workspaces import UserWorkspaces
from store.workspaces.workspace_fields import WorkspaceField
from store.workspaces.workspace_info import OPEN_FIELDS, WorkspaceInfo, info_fields, info_from, open_fields

CLAIM_SECONDS = 24 * 3600
"""Time for which a creator's idempotency key returns the first workspace."""

FIRST_POLICY_VERSION = 1

EVERYONE = "everyone"
"""Name of the role that all members have."""

_OPEN = {WorkspaceField.IS_OPEN: True}
_ROWS_PER_STEP = 1_000


class DomainTaken(Refused):
    """Another workspace of the deployment has the domain."""


class KeyTaken(Refused):
    """The creator has used the idempotency key."""


class OpenPosition(NamedTuple):
    """A position in the list of open workspaces: by member count, largest first, then by id."""

    member_count: int
    workspace: WorkspaceId


class WorkspaceStore:
    """Workspaces in MongoDB."""

    def __init__(self, mongo: Mongo, user_workspaces: UserWorkspaces, stamps: MembershipStamps) -> None:
        self._stamps = stamps
        self._mongo = mongo
        self._user_workspaces = user_workspaces

    async def find_claim(self, creator: UserId, key: str) -> WorkspaceId | None:
        """Return the workspace that was created with a creator's idempotency key."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _key_claim(creator, key)})
        return WorkspaceId(row["c"]) if row else None

    async def insert(
        self,
        info: WorkspaceInfo,
        owner_name: str | None,
        key: str | None,
        most: int,
        audit: Sequence[Document] = (),
    ) -> None:
        """Create a workspace with its owner, all or nothing. One awaited transaction.

        Args:
            info: The new workspace.
            owner_name: The owner's name.
            key: An idempotency key of the owner.
            most: Largest number of workspaces of a user.
            audit: Rows of the audit log.

        Raises DomainTaken, KeyTaken and TooManyWorkspaces.
        """
        at, owner = info.created_at_ms, info.owner
        everyone = everyone_id(info.id)
        role = Role(everyone, EVERYONE, 0, OF_EVERYONE)
        policy = Policy(info.id, info.version, owner, {everyone: role}, {}, {})
        document = {"_id": info.id} | info_fields(info) | policy_fields(policy)
        search = search_fields_of(info.id, owner, owner_name, None)
        facts = MemberFacts(owner, info.version, joined_at_ms=at)
        member = member_document(info.id, facts, search.sort_name) | search.fields

        async def work(session: Any) -> None:
            if key is not None:
                until = datetime.fromtimestamp(at / 1000 + CLAIM_SECONDS, UTC)
                row = {"_id": _key_claim(owner, key), "c": info.id, "until": until}
                await self._claim(row, KeyTaken(), session)
            if info.domain is not None:
                await self._claim({"_id": _domain_claim(info.domain), "c": info.id}, DomainTaken(), session)
            await self._user_workspaces.insert([(owner, search.name_version)], info.id, at, most, session)
            await self._mongo.insert_one(WORKSPACE_MEMBERS, member, session=session)
            await self._mongo.insert_one(WORKSPACES, document, session=session)
            if audit:
                await self._mongo.insert_many(AUDIT, audit, session=session)

        async with self._stamps.changing([owner]):
            await self._mongo.transaction(work)

    async def _claim(self, row: Document, failure: Exception, session: Any) -> None:
        try:
            await self._mongo.insert_one(CLAIMS, row, session=session)
        except DuplicateKeyError as error:
            raise failure from error

    def deletion_writes(self, info: WorkspaceInfo) -> tuple[dict[str, Document], list[tuple[str, list[Operation]]]]:
        """Return what the transaction that deletes a workspace writes: the update of its document, and other writes.

        It is in no index of open workspaces then, and another workspace may have its domain.
        """
        update: dict[str, Document] = {"$unset": dict.fromkeys(OPEN_FIELDS, "")}
        if info.domain is None:
            return update, []
        return update, [(CLAIMS, [DeleteOne({"_id": _domain_claim(info.domain), "c": info.id})])]

    async def find_many(self, workspaces: Iterable[WorkspaceId]) -> dict[WorkspaceId, WorkspaceInfo]:
        """Return the workspaces that exist. One round trip."""
        wanted = list(workspaces)
        if not wanted:
            return {}
        query = {"_id": {"$in": wanted}, WorkspaceField.DELETED_AT: None}
        found = map(info_from, await self._mongo.find(WORKSPACES, query))
        return {info.id: info for info in found}

    async def list_existing(self, workspaces: Iterable[WorkspaceId]) -> list[WorkspaceId]:
        """Return those of some workspaces that exist. One round trip."""
        wanted = list(workspaces)
        if not wanted:
            return []
        query = {"_id": {"$in": wanted}, WorkspaceField.DELETED_AT: None}
        return [WorkspaceId(row["_id"]) for row in await self._mongo.find(WORKSPACES, query, projection={"_id": 1})]

    async def find(self, workspace: WorkspaceId) -> WorkspaceInfo | None:
        """Return a workspace; None if it does not exist. One round trip."""
        row = await self._mongo.find_one(WORKSPACES, existing(workspace))
        return info_from(row) if row is not None else None

    async def list_open(self, query: SearchQuery | None, after: OpenPosition | None, size: int) -> list[WorkspaceInfo]:
        """Return open workspaces after a position, largest first. One round trip.

        The indexes contain open workspaces only and return them in order, so the cost depends on the size of the page.
        """
        wanted = open_filter(query, after)
        order = (BY_OPEN_SIZE if query is None else BY_OPEN_SIZE_AND_KEY)[-2:]
        hint = BY_OPEN_SIZE if query is None else BY_OPEN_SIZE_AND_KEY
        return [info_from(row) for row in await self._mongo.find(WORKSPACES, wanted, sort=order, limit=size, hint=hint)]

    async def refresh_search_fields(self) -> int:
        """Make the search fields of open workspaces that do not belong to their names: older servers made others.

        Reads all open workspaces. Returns how many were changed.
        """
        changed = 0
        names = {WorkspaceField.NAME: 1, WorkspaceField.SEARCH_NAME: 1}
        async for rows in read_in_steps(self._mongo, WORKSPACES, _OPEN, projection=names, size=_ROWS_PER_STEP):
            updates = [
                # If the name has changed since it was read, that change has updated the fields.
                UpdateOne({"_id": row["_id"], WorkspaceField.NAME: row[WorkspaceField.NAME], **_OPEN}, {"$set": fields})
                for row in rows
                if (fields := open_fields(row[WorkspaceField.NAME]))[WorkspaceField.SEARCH_NAME]
                != row.get(WorkspaceField.SEARCH_NAME)
            ]
            changed += await self._mongo.bulk_write(WORKSPACES, updates) if updates else 0
        return changed


def existing(workspace: WorkspaceId) -> dict[str, Any]:
    """Return the query for a workspace that was not deleted."""
    return {"_id": workspace, WorkspaceField.DELETED_AT: None}


def open_filter(query: SearchQuery | None, after: OpenPosition | None) -> dict[str, Any]:
    """Return the query for open workspaces after a position. `query`: at the beginning of a word of the name."""
    conditions: list[dict[str, Any]] = []
    if after is not None:
        count, later = WorkspaceField.MEMBER_COUNT, {"_id": {"$gt": after.workspace}}
        conditions.append({"$or": [{count: {"$lt": after.member_count}}, {count: after.member_count} | later]})
    wanted: dict[str, Any] = dict(_OPEN)
    if query is not None:
        wanted[WorkspaceField.SEARCH_KEYS] = query.keys[0]
        if not query.has_exact_keys:
            conditions.append({WorkspaceField.SEARCH_NAME: {"$regex": query.name_pattern}})
    return wanted | {"$and": conditions} if conditions else wanted


def _key_claim(creator: UserId, key: str) -> str:
    return f"workspace {creator} {key}"


def _domain_claim(domain: str) -> str:
    return f"domain {domain}"
