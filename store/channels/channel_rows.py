"""Rows of channels besides their settings: heads, memberships, and the claims of idempotency keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pymongo import InsertOne, UpdateOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.channels.announcements import NewFollowers
from store.conversations.conversation import Member
from store.conversations.conversation_fields import ConversationField
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    CHANNELS,
    CLAIMS,
    CONVERSATIONS,
    MEMBERS,
    REMOVALS,
    SESSIONS,
    member_row_id,
    session_row_id,
)
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.workspaces.changing.proposed_change import Operation

CLAIM_SECONDS = 24 * 3600
"""Time for which a creator's idempotency key returns the first channel."""

Writes = list[tuple[str, list[Operation]]]
"""Collections and operations."""


def creation_writes(
    channel: ConversationId, creator: UserId, members: Iterable[UserId], key: str | None, at_ms: int
) -> Writes:
    """Return the writes that make a conversation of a new channel.

    members: Its members if it is PRIVATE, else its followers, from the first message on.
    """
    head = {
        "_id": channel,
        ConversationField.KIND: "C",
        ConversationField.SEQ: 0,
        ConversationField.N: 0,
        ConversationField.MOVED_AT: at_ms,
        ConversationField.WRITTEN_AT: 0,
        ConversationField.CREATED_BY: creator,
        ConversationField.CREATED_AT: at_ms,
    }
    writes: Writes = []
    if key is not None:
        until = datetime.fromtimestamp(at_ms / 1000 + CLAIM_SECONDS, UTC)
        claim = {"_id": _claim_id(creator, workspace_of_channel(channel), key)}
        # Creations in one workspace come one after the other, and each looks for its key before.
        writes.append((CLAIMS, [UpdateOne(claim, {"$set": {"c": channel, "until": until}}, upsert=True)]))
    users = list(members)
    follow = follow_change(channel).row_updates(at_ms)[channel]
    note = NewFollowers(users, at_ms).operation(workspace_of_channel(channel), channel)
    return [
        *writes,
        (CONVERSATIONS, [InsertOne(head)]),
        (MEMBERS, [InsertOne(_member_row(channel, user, at_ms)) for user in users]),
        (SESSIONS, [UpdateOne({"_id": session_row_id(user, channel)}, follow, upsert=True) for user in users]),
        (CHANNELS, [note]),
    ]


def follow_change(channel: ConversationId) -> ChannelChange:
    """Return the change of the session of a user who follows a new channel."""
    return ChannelChange(channel, (0, 0), values={Session.follows: True})


def removal_writes(channels: Iterable[ConversationId], at_ms: int) -> Writes:
    """Return the writes that have the contents of deleted channels removed."""
    return [(REMOVALS, [InsertOne({"_id": channel, "at": at_ms}) for channel in channels])]


def _member_row(channel: ConversationId, user: UserId, at_ms: int) -> Document:
    return {"_id": member_row_id(channel, user)} | Member(user, "", ((1, None),), at_ms).to_fields()


def _claim_id(creator: UserId, workspace: WorkspaceId, key: str) -> str:
    return f"channel {workspace} {creator} {key}"


class ChannelClaims:
    """The idempotency keys with which channels were created."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find(self, creator: UserId, workspace: WorkspaceId, key: str) -> ConversationId | None:
        """Return the channel that was created in a workspace with a creator's idempotency key."""
        row = await self._mongo.find_one(CLAIMS, {"_id": _claim_id(creator, workspace, key)})
        return ConversationId(row["c"]) if row is not None else None
