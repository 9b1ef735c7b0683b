"""Beginnings of memberships of workspaces. Ends raise the policy version: they are in `policy_changes` (ADR 56)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from store.base.errors import Refused, Superseded
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.channel_follows import ChangedFollow, ChannelFollows
from store.channels.channel_memberships import leave_writes
from store.channels.follow_rows import (
    ChannelPlace,
    find_changes,
    find_rows,
    follow_row,
    follow_session,
    note_change,
)
from store.conversations.conversation import Member
from store.moderation.ban_store import BanStore
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    AUDIT,
    CHANNELS,
    INVITES,
    MEMBERS,
    SESSIONS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
    rows_of_workspace,
    workspace_row_id,
)
from store.mongo.writes import is_duplicate
from store.sessions.user_locks import UserLock, UserLocks
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.copies.membership_stamps import MembershipStamps
from store.workspaces.documents import member_document
from store.workspaces.invite_store import InviteCode, usable_filter, use_update
from store.workspaces.member_search import search_fields_of
from store.workspaces.policy import ChannelKind, MemberFacts, Policy
from store.workspaces.user_workspaces import AlreadyMember, UserWorkspaces, user_row_removals
from store.workspaces.workspace_fields import ChannelField, WorkspaceField, WorkspaceMemberField
from store.workspaces.workspace_store import existing

USERS_AT_ONCE = 50
"""Users that one transaction adds."""


class NotOpen(Refused):
    """The workspace does not exist any more, or may not be joined without an invitation."""


class UsersAreBanned(Refused):
    """Users are banned from the workspace."""

    def __init__(self, users: Sequence[UserId]) -> None:
        super().__init__()
        self.users = users


class UnusableInvite(Refused):
    """The invitation was revoked, has expired, or was used as often as allowed."""


class NewMember(NamedTuple):
    """A user who joins, with the user's name at the moment."""

    user: UserId
    name: str | None


class ChannelsOfMembers(NamedTuple):
    """Present memberships of some users in channels.

    `changes`: how often each of them had followed or unfollowed a channel before; None: never.
    """

    memberships: list[tuple[ConversationId, Member]]
    changes: Mapping[UserId, int | None]


class MembershipStore:
    """Adds members to workspaces."""

    def __init__(
        self,
        mongo: Mongo,
        workspaces_of: UserWorkspaces,
        locks: UserLocks,
        follows: ChannelFollows,
        stamps: MembershipStamps,
        bans: BanStore,
    ) -> None:
        self._mongo = mongo
        self._stamps = stamps
        self._bans = bans
        self._locks = locks
        self._follows = follows
        self._user_workspaces = workspaces_of
        self._joining: WeakValueDictionary[WorkspaceId, asyncio.Lock] = WeakValueDictionary()
        """Transactions of this process on one workspace run one after the other: at once they would only repeat."""

    async def list_present(self, workspace: WorkspaceId, users: Sequence[UserId]) -> set[UserId]:
        """Return those of some users who are members. One round trip."""
        ids = [workspace_row_id(workspace, user) for user in users]
        rows = await self._mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": ids}}, projection={"_id": 1})
        return {UserId(row["_id"].partition(" ")[2]) for row in rows}

    async def list_oldest(self, workspace: WorkspaceId, limit: int = 100) -> list[UserId]:
        """Return members, the one who joined first first. Reads all rows of the workspace: for rare work."""
        query, fields = rows_of_workspace(workspace), {WorkspaceMemberField.JOINED_AT: 1}
        order = ((WorkspaceMemberField.JOINED_AT, 1), ("_id", 1))
        rows = await self._mongo.find(WORKSPACE_MEMBERS, query, projection=fields, sort=order, limit=limit)
        return [UserId(row["_id"].partition(" ")[2]) for row in rows]

    async def find_channels(self, policy: Policy, users: Sequence[UserId]) -> ChannelsOfMembers:
        """Return the present memberships of users in channels: of PRIVATE ones, and as followers. Two round trips."""
        # Read first: if one of the users follows a channel after this, or stops, the guards do not match.
        changes = await find_changes(self._mongo, policy.workspace, users)
        rows = await find_rows(self._mongo, policy.channels, users)
        return ChannelsOfMembers([(c, member) for (c, _), member in rows.items() if member.is_current], changes)

    async def add(
        self,
        workspace: WorkspaceId,
        members: Sequence[NewMember],
        at_ms: int,
        most: int,
        *,
        entry: Callable[[ConversationId], str],
        invite: InviteCode | None = None,
        needs_open: bool = False,
        follows: Sequence[ChannelPlace] = (),
        audit: Sequence[Document] = (),
    ) -> dict[UserId, list[ChangedFollow]]:
        """Add up to USERS_AT_ONCE members, all or nothing. One awaited transaction.

        A time-out that has not ended since an earlier membership goes on.

        Joining raises no policy version, because no process keeps that a user is not a member. If the users follow
        channels, their locks are held, so that no cached state lacks the new sessions.

        Args:
            workspace: The workspace.
            members: The users.
            at_ms: The time of joining.
            most: Largest number of workspaces of a user.
            entry: Returns the entry in the user's log for a channel that they follow.
            invite: The invitation that is used once.
            needs_open: Refuse if the workspace may not be joined without an invitation.
            follows: Default channels, which the users follow from now on.
            audit: Rows of the audit log.

        Returns the changes of the users' sessions.

        Raises AlreadyMember, TooManyWorkspaces, UsersAreBanned, UnusableInvite and NotOpen. Superseded:
        a channel has stopped being a default channel. Nothing was stored then.
        """
        searches = [search_fields_of(workspace, member.user, member.name, None) for member in members]
        users = [(member.user, search.name_version) for member, search in zip(members, searches, strict=True)]
        joinable = existing(workspace) | ({WorkspaceField.IS_OPEN: True} if needs_open else {})

        async def work(session: Any, locks: Mapping[UserId, UserLock]) -> None:
            # A ban also writes the workspace's document. If it is stored after this read, one of the two transactions
            # is repeated.
            known = await self._bans.find_for_joining(workspace, [member.user for member in members], at_ms, session)
            if known.banned:
                raise UsersAreBanned(known.banned)
            timed_out = known.timed_out_until_ms
            rows = [
                member_document(
                    workspace,
                    MemberFacts(member.user, 0, joined_at_ms=at_ms, timed_out_until_ms=timed_out.get(member.user, 0)),
                    search.sort_name,
                )
                | search.fields
                for member, search in zip(members, searches, strict=True)
            ]
            await self._bans.forget_timeouts(workspace, timed_out, session)
            await self._user_workspaces.insert(users, workspace, at_ms, most, session)
            try:
                await self._mongo.insert_many(WORKSPACE_MEMBERS, rows, session=session)
            except BulkWriteError as error:
                raise (AlreadyMember() if is_duplicate(error) else error) from error
            if locks:
                await self._follow(follows, locks, session)
            if invite is not None:
                used = await self._mongo.find_one_and_update(
                    INVITES, usable_filter(invite, at_ms), use_update(), session=session
                )
                if used is None:
                    raise UnusableInvite
            if audit:
                await self._mongo.insert_many(AUDIT, audit, session=session)
            # Last, because everybody who joins writes this document, and waits while this transaction locks it.
            count = {"$inc": {WorkspaceField.MEMBER_COUNT: len(members)}}
            if await self._mongo.find_one_and_update(WORKSPACES, joinable, count, session=session) is None:
                raise NotOpen

        lock = self._joining.setdefault(workspace, asyncio.Lock())
        async with lock, self._stamps.changing([member.user for member in members], [workspace]):
            if not follows:
                await self._mongo.transaction(partial(work, locks={}))
                return {}
            async with self._locks.hold_all([member.user for member in members]) as locks:
                channels = [place.id for place in follows]
                return await self._follows.commit(locks, channels, partial(work, locks=locks), entry)

    async def _follow(self, places: Sequence[ChannelPlace], locks: Mapping[UserId, UserLock], session: Any) -> None:
        """Make new members follow channels. Raises Superseded if one of these is not a default channel."""
        rows = await find_rows(self._mongo, [place.id for place in places], list(locks), session)
        members, sessions, counts = list[Any](), list[UpdateOne](), list[UpdateOne]()
        for place in places:
            former = {user: rows.get((place.id, user)) for user in locks}
            new = [user for user, member in former.items() if member is None or not member.is_current]
            members += [follow_row(user, place, locks[user].at, former[user]) for user in new]
            sessions += [follow_session(user, place, locks[user].at) for user in new]
            document = {
                "_id": workspace_row_id(workspace_of_channel(place.id), place.id),
                ChannelField.KIND: ChannelKind.PUBLIC.value,
                ChannelField.IS_DEFAULT: True,
                ChannelField.IS_ARCHIVED: None,
            }
            counts.append(UpdateOne(document, {"$inc": {ChannelField.MEMBER_COUNT: len(new)}}))
        if members:
            await self._mongo.bulk_write(MEMBERS, members, session=session)
            await self._mongo.bulk_write(SESSIONS, sessions, session=session)
        if await self._mongo.bulk_write(CHANNELS, counts, session=session) < len(counts):
            raise Superseded("the default channels have changed")


def no_membership(workspace: WorkspaceId, user: UserId) -> tuple[str, str]:
    """Return the document that must be absent where a change depends on a user not being a member."""
    return WORKSPACE_MEMBERS, workspace_row_id(workspace, user)


def membership_end_writes(
    policy: Policy, users: Iterable[UserId], places: Iterable[tuple[ConversationId, Member, int]], at_ms: int
) -> list[tuple[str, list[Operation]]]:
    """Return what the transaction that ends memberships of a workspace writes, besides the members' documents.

    places: Present memberships of channels, each with the newest seq there, the last that the member may read.
    """
    in_workspaces = [write for user in users for write in user_row_removals(user, policy.workspace)]
    return [(WORKSPACES_OF, in_workspaces), *leave_writes(policy, places, at_ms)]


def membership_end_guards(
    policy: Policy, users: Iterable[UserId], found: ChannelsOfMembers
) -> list[tuple[str, list[UpdateOne]]]:
    """Return the guards of the transaction that ends memberships: the users follow exactly the channels found."""
    return [(WORKSPACE_MEMBERS, [note_change(policy.workspace, user, found.changes) for user in users])]
