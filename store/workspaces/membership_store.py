"""Beginnings of memberships of workspaces. Ends raise the policy version: they are in `policy_changes` (ADR 56)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pymongo import DeleteOne, UpdateOne
from pymongo.errors import BulkWriteError

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.channels.default_channels import DefaultChannel, following_writes
from store.conversations.conversation import Member, member_from
from store.mongo.client import Mongo
from store.mongo.collections import (
    CHANNELS,
    INVITES,
    MEMBERS,
    SESSIONS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
    member_row_id,
    session_row_id,
    workspace_row_id,
)
from store.mongo.writes import is_duplicate
from store.sessions.session import Session
from store.workspaces import user_workspaces
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.documents import member_document
from store.workspaces.invite_store import InviteCode, usable_filter, use_update
from store.workspaces.member_search import search_fields_of
from store.workspaces.policy import ChannelKind, MemberFacts, Policy
from store.workspaces.user_workspaces import AlreadyMember, UserWorkspaces
from store.workspaces.workspace_fields import ChannelField, WorkspaceField
from store.workspaces.workspace_store import existing

USERS_AT_ONCE = 50
"""Users that one transaction adds."""


class NotOpen(Exception):
    """The workspace does not exist any more, or may not be joined without an invitation."""


class UnusableInvite(Exception):
    """The invitation was revoked, has expired, or was used as often as allowed."""


class NewMember(NamedTuple):
    """A user who joins, with the user's name at the moment."""

    user: UserId
    name: str | None


class MembershipStore:
    """Adds members to workspaces."""

    def __init__(self, mongo: Mongo, workspaces_of: UserWorkspaces) -> None:
        self._mongo = mongo
        self._user_workspaces = workspaces_of
        self._joining: WeakValueDictionary[WorkspaceId, asyncio.Lock] = WeakValueDictionary()
        """Transactions of this process on one workspace run one after the other: at once they would only repeat."""

    async def list_present(self, workspace: WorkspaceId, users: Sequence[UserId]) -> set[UserId]:
        """Return those of some users who are members. One round trip."""
        ids = [workspace_row_id(workspace, user) for user in users]
        rows = await self._mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": ids}}, projection={"_id": 1})
        return {UserId(row["_id"].partition(" ")[2]) for row in rows}

    async def list_channels(self, policy: Policy, users: Sequence[UserId]) -> list[tuple[ConversationId, Member]]:
        """Return the present memberships of users in channels: of PRIVATE ones, and as followers. One round trip."""
        ids = [member_row_id(channel, user) for channel in policy.channels for user in users]
        rows = await self._mongo.find(MEMBERS, {"_id": {"$in": ids}}) if ids else []
        found = []
        for row in rows:
            channel, _, user = row["_id"].partition(" ")
            member = member_from(UserId(user), row)
            if member.is_current:
                found.append((ConversationId(channel), member))
        return found

    async def add(
        self,
        workspace: WorkspaceId,
        members: Sequence[NewMember],
        at_ms: int,
        most: int,
        *,
        invite: InviteCode | None = None,
        needs_open: bool = False,
        follows: Sequence[DefaultChannel] = (),
    ) -> None:
        """Add up to USERS_AT_ONCE members, all or nothing. One awaited transaction.

        Joining raises no policy version: nobody keeps that a user is not a member.

        Args:
            workspace: The workspace.
            members: The users.
            at_ms: The time of joining.
            most: Largest number of workspaces of a user.
            invite: The invitation that is used once.
            needs_open: Refuse if the workspace may not be joined without an invitation.
            follows: Channels that the users follow from now on.

        Raises AlreadyMember, TooManyWorkspaces, UnusableInvite and NotOpen.
        """
        searches = [search_fields_of(workspace, member.user, member.name, None) for member in members]
        rows = [
            member_document(workspace, MemberFacts(member.user, 0, joined_at_ms=at_ms), search.sort_name)
            | search.fields
            for member, search in zip(members, searches, strict=True)
        ]
        users = [(member.user, search.name_version) for member, search in zip(members, searches, strict=True)]
        following = following_writes(follows, [member.user for member in members], at_ms)
        joinable = existing(workspace) | ({WorkspaceField.IS_OPEN: True} if needs_open else {})

        async def work(session: Any) -> None:
            await self._user_workspaces.insert(users, workspace, at_ms, most, session)
            try:
                await self._mongo.insert_many(WORKSPACE_MEMBERS, rows, session=session)
            except BulkWriteError as error:
                raise (AlreadyMember() if is_duplicate(error) else error) from error
            for collection, operations in following:
                await self._mongo.bulk_write(collection, operations, session=session)
            if invite is not None:
                used = await self._mongo.find_one_and_update(
                    INVITES, usable_filter(invite, at_ms), use_update(), session=session
                )
                if used is None:
                    raise UnusableInvite
            # Last, because everybody who joins writes this document, and waits while this transaction locks it.
            count = {"$inc": {WorkspaceField.MEMBER_COUNT: len(members)}}
            if await self._mongo.find_one_and_update(WORKSPACES, joinable, count, session=session) is None:
                raise NotOpen

        lock = self._joining.setdefault(workspace, asyncio.Lock())
        async with lock:
            await self._mongo.transaction(work)


def membership_end_writes(
    policy: Policy, users: Iterable[UserId], in_channels: Iterable[tuple[ConversationId, Member, int]]
) -> list[tuple[str, list[Operation]]]:
    """Return what the transaction that ends memberships of a workspace writes, besides the members' documents.

    in_channels: present memberships of channels, each with the newest seq there, the last that the member may read.
    Followers of PUBLIC channels have no intervals to keep, so their rows are removed.
    """
    rows, sessions, counts = list[Operation](), list[Operation](), Counter[ConversationId]()
    for channel, member, seq in in_channels:
        row = {"_id": member_row_id(channel, member.user)}
        ended = member.ended_at(seq) if policy.channels[channel].kind is ChannelKind.PRIVATE else None
        rows.append(UpdateOne(row, {"$set": ended.to_fields()}) if ended is not None else DeleteOne(row))
        sessions.append(
            UpdateOne({"_id": session_row_id(member.user, channel)}, {"$unset": {Session.follows.stored: ""}})
        )
        counts[channel] += 1
    in_workspaces = [write for user in users for write in user_workspaces.user_row_removals(user, policy.workspace)]
    channels: list[Operation] = [
        UpdateOne({"_id": workspace_row_id(policy.workspace, channel)}, {"$inc": {ChannelField.MEMBER_COUNT: -count}})
        for channel, count in counts.items()
    ]
    return [(WORKSPACES_OF, in_workspaces), (MEMBERS, rows), (SESSIONS, sessions), (CHANNELS, channels)]
