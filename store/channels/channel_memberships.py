"""Writes that begin and end memberships of PRIVATE channels. They are part of changes of rights (ADR 56)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pymongo import UpdateOne

from store.base.ids import ConversationId
from store.base.workspace_ids import WorkspaceId
from store.channels.follow_rows import ChannelPlace, follow_session, unfollow_row, unfollow_session
from store.conversations.conversation import Member
from store.mongo.collections import CHANNELS, MEMBERS, SESSIONS, member_row_id, workspace_row_id
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.policy import ChannelKind, Policy
from store.workspaces.workspace_fields import ChannelField

Writes = list[tuple[str, list[Operation]]]
"""Collections and operations."""


def join_writes(workspace: WorkspaceId, place: ChannelPlace, members: Sequence[Member], at_ms: int) -> Writes:
    """Return the writes of users who become members, with everything so far read.

    members: their memberships from now on.
    """
    rows: list[Operation] = [
        UpdateOne({"_id": member_row_id(place.id, member.user)}, {"$set": member.to_fields()}, upsert=True)
        for member in members
    ]
    sessions: list[Operation] = [follow_session(member.user, place, at_ms) for member in members]
    return [(MEMBERS, rows), (SESSIONS, sessions), (CHANNELS, [_count(workspace, place.id, len(members))])]


def leave_writes(policy: Policy, places: Iterable[tuple[ConversationId, Member, int]], at_ms: int) -> Writes:
    """Return the writes of users who leave channels: members of PRIVATE ones, and followers of others.

    places: Present memberships, each with the newest seq there, the last that the member may read.
    """
    rows, sessions, counts = list[Operation](), list[Operation](), Counter[ConversationId]()
    for channel, member, seq in places:
        if policy.channels[channel].kind is ChannelKind.PRIVATE:
            row = {"_id": member_row_id(channel, member.user)}
            rows.append(UpdateOne(row, {"$set": member.ended_at(seq).to_fields()}))
        else:
            rows.append(unfollow_row(channel, member))
        sessions.append(unfollow_session(member.user, channel, at_ms))
        counts[channel] += 1
    left: list[Operation] = [_count(policy.workspace, channel, -count) for channel, count in counts.items()]
    return [(MEMBERS, rows), (SESSIONS, sessions), (CHANNELS, left)]


def _count(workspace: WorkspaceId, channel: ConversationId, change: int) -> UpdateOne:
    return UpdateOne({"_id": workspace_row_id(workspace, channel)}, {"$inc": {ChannelField.MEMBER_COUNT: change}})
