"""Rows of followers of channels that are not PRIVATE: as a member, and in the user's session.

A follower has a current interval, as a member of a PRIVATE channel does. Unfollowing removes it. Earlier intervals are
those of a time at which the channel was PRIVATE: they are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pymongo import DeleteOne, InsertOne, UpdateOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.conversations.conversation import Head, Member, member_from
from store.mongo.client import Document, Mongo
from store.mongo.collections import MEMBERS, WORKSPACE_MEMBERS, member_row_id, session_row_id, workspace_row_id
from store.sessions.fields import CHANNEL
from store.sessions.session import Session
from store.workspaces.workspace_fields import WorkspaceMemberField

Row = tuple[ConversationId, UserId]
"""A user in a channel."""

FOLLOWS = Session.follows.stored
_ACTIVE_TS, _MENTIONS = Session.active_ts.stored, Session.mentions.stored
_READ_SEQ, _READ_N = Session.acknowledged_seq.stored, Session.read_n.stored
_DELIVERED_SEQ = Session.received_seq.stored


class ChannelPlace(NamedTuple):
    """A channel, with the seq and n of its newest message: a user who begins to follow it has read up to there."""

    id: ConversationId
    seq: int
    n: int

    @classmethod
    def of(cls, head: Head) -> ChannelPlace:
        """Return the place of the newest message that a head knows."""
        return cls(head.conversation, head.seq, head.newest_n)


def follow_session(user: UserId, place: ChannelPlace, at: int) -> UpdateOne:
    """Return the update of the session of a user who follows a channel, with everything so far read."""
    positions = {_READ_SEQ: place.seq, _READ_N: place.n, _DELIVERED_SEQ: place.seq, _ACTIVE_TS: at}
    change = {"$set": {FOLLOWS: 1, CHANNEL: place.id}, "$max": positions, "$pull": {_MENTIONS: {"$lte": place.seq}}}
    return UpdateOne({"_id": session_row_id(user, place.id)}, change, upsert=True)


def unfollow_session(user: UserId, channel: ConversationId, at: int) -> UpdateOne:
    """Return the update of the session of a user who no longer follows a channel. The read position stays."""
    return UpdateOne({"_id": session_row_id(user, channel)}, {"$unset": {FOLLOWS: ""}, "$max": {_ACTIVE_TS: at}})


def follow_row(user: UserId, place: ChannelPlace, at: int, former: Member | None) -> InsertOne[Document] | UpdateOne:
    """Return the write of a new follower's row. former: the user's row so far."""
    row, begun = {"_id": member_row_id(place.id, user)}, (place.seq + 1, None)
    if former is None:
        return InsertOne(row | Member(user, "", (begun,), at).to_fields())
    member = replace(former, intervals=(*former.intervals, begun), joined_at_ms=at)
    return UpdateOne(row, {"$set": member.to_fields()})


def unfollow_row(channel: ConversationId, member: Member) -> DeleteOne | UpdateOne:
    """Return the write that ends the following in a follower's row. Intervals of earlier memberships stay."""
    row = {"_id": member_row_id(channel, member.user)}
    kept = replace(member, intervals=tuple(each for each in member.intervals if each[1] is not None))
    return UpdateOne(row, {"$set": kept.to_fields()}) if kept.intervals else DeleteOne(row)


def note_change(workspace: WorkspaceId, user: UserId, seen: Mapping[UserId, int | None] | None = None) -> UpdateOne:
    """Return the write that makes a change of what a member follows conflict with the end of the membership.

    seen: Match only if the member follows the same channels as when `find_changes` returned these numbers.
    """
    query: Document = {"_id": workspace_row_id(workspace, user)}
    if seen is not None:
        query[WorkspaceMemberField.FOLLOW_CHANGES] = seen.get(user)
    return UpdateOne(query, {"$inc": {WorkspaceMemberField.FOLLOW_CHANGES: 1}})


async def find_changes(mongo: Mongo, workspace: WorkspaceId, users: Iterable[UserId]) -> dict[UserId, int | None]:
    """Return how often each member has followed or unfollowed a channel; None: never. One round trip to MongoDB."""
    ids = [workspace_row_id(workspace, user) for user in users]
    field = WorkspaceMemberField.FOLLOW_CHANGES
    rows = await mongo.find(WORKSPACE_MEMBERS, {"_id": {"$in": ids}}, projection={field: 1})
    return {UserId(row["_id"].partition(" ")[2]): row.get(field) for row in rows}


async def find_rows(
    mongo: Mongo, channels: Collection[ConversationId], users: Sequence[UserId], session: Any = None
) -> dict[Row, Member]:
    """Return the rows of users in channels, present and former ones. One round trip to MongoDB."""
    rows = {member_row_id(channel, user): (channel, user) for channel in channels for user in users}
    found = await mongo.find(MEMBERS, {"_id": {"$in": list(rows)}}, session=session) if rows else []
    return {rows[row["_id"]]: member_from(rows[row["_id"]][1], row) for row in found}
