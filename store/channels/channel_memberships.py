"""Writes that begin and end memberships of PRIVATE channels. They are part of changes of rights (ADR 56)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pymongo import UpdateOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.channels.channel_follows import follow_session, unfollow_session
from store.conversations.conversation import Member
from store.mongo.collections import CHANNELS, MEMBERS, SESSIONS, member_row_id, workspace_row_id
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.workspace_fields import ChannelField

Writes = list[tuple[str, list[Operation]]]
"""Collections and operations."""


def join_writes(
    workspace: WorkspaceId,
    channel: ConversationId,
    members: Sequence[Member],
    place: tuple[int, int],
    at_ms: int,
) -> Writes:
    """Return the writes of users who become members. members: their memberships from now on.

    place: seq and n up to which everything is read.
    """
    rows: list[Operation] = [
        UpdateOne({"_id": member_row_id(channel, member.user)}, {"$set": member.to_fields()}, upsert=True)
        for member in members
    ]
    sessions: list[Operation] = [follow_session(member.user, channel, place, at_ms) for member in members]
    return [(MEMBERS, rows), (SESSIONS, sessions), (CHANNELS, [_count(workspace, channel, len(members))])]


def leave_writes(
    workspace: WorkspaceId, channel: ConversationId, members: Sequence[Member], last_seq: int, at_ms: int
) -> Writes:
    """Return the writes of members who leave. last_seq: the last one that they could read."""
    rows: list[Operation] = [
        UpdateOne({"_id": member_row_id(channel, member.user)}, {"$set": member.ended_at(last_seq).to_fields()})
        for member in members
    ]
    sessions: list[Operation] = [unfollow_session(member.user, channel, at_ms) for member in members]
    return [(MEMBERS, rows), (SESSIONS, sessions), (CHANNELS, [_count(workspace, channel, -len(members))])]


def end_sessions(places: Iterable[tuple[ConversationId, UserId]], at_ms: int) -> Writes:
    """Return the writes of sessions of users who no longer follow channels."""
    return [(SESSIONS, [unfollow_session(user, channel, at_ms) for channel, user in places])]


def _count(workspace: WorkspaceId, channel: ConversationId, change: int) -> UpdateOne:
    return UpdateOne({"_id": workspace_row_id(workspace, channel)}, {"$inc": {ChannelField.MEMBER_COUNT: change}})
