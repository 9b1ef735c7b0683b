"""Work that remains after a change of a channel: SYSTEM messages that announce it, and sessions of followers.

It is noted in the channel's document with the change and removed when it is done, so it is not lost if a server dies. A
message always has the same id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pymongo import UpdateOne

from store.base.ids import ConversationId, MessageId, UserId
from store.base.workspace_ids import WorkspaceId
from store.messages.message import Message, MessageKind
from store.messages.system_events import SystemEvent, event_from
from store.mongo.client import Document, Mongo
from store.mongo.collections import CHANNELS, workspace_row_id
from store.workspaces.workspace_fields import ChannelField


class Announcement(NamedTuple):
    """A SYSTEM message that announces a change of a channel. `text`: for clients that show no system events."""

    message: MessageId
    actor: UserId
    event: SystemEvent
    text: str

    def operation(self, workspace: WorkspaceId, channel: ConversationId) -> UpdateOne:
        """Return the write of the note."""
        note = [str(self.message), self.actor, self.text, *self.event.to_stored()]
        return UpdateOne({"_id": workspace_row_id(workspace, channel)}, {"$push": {ChannelField.ANNOUNCEMENTS: note}})


class NewFollowers(NamedTuple):
    """Users who follow a new channel. Their rows are stored with it; their cached states may lack the session.

    `at_ms`: the time in the rows.
    """

    users: Sequence[UserId]
    at_ms: int

    def operation(self, workspace: WorkspaceId, channel: ConversationId) -> UpdateOne:
        """Return the write of the note."""
        note = {ChannelField.NEW_FOLLOWERS: [self.at_ms, *self.users]}
        return UpdateOne({"_id": workspace_row_id(workspace, channel)}, {"$set": note})


class ChannelNotes(NamedTuple):
    """The notes in a channel's document, messages oldest first."""

    channel: ConversationId
    messages: Sequence[Message]
    followers: NewFollowers | None


class ChannelAnnouncements:
    """The notes in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_waiting(self, workspace: WorkspaceId, channels: Iterable[ConversationId]) -> list[ChannelNotes]:
        """Return the notes of some channels."""
        ids = [workspace_row_id(workspace, channel) for channel in channels]
        if not ids:
            return []
        fields = (ChannelField.ANNOUNCEMENTS, ChannelField.NEW_FOLLOWERS)
        query = {"_id": {"$in": ids}, "$or": [{name: {"$exists": True}} for name in fields]}
        return [
            _notes_from(row) for row in await self._mongo.find(CHANNELS, query, projection=dict.fromkeys(fields, 1))
        ]

    async def remove(self, workspace: WorkspaceId, message: Message) -> None:
        """Remove the note of a message that is stored."""
        channel = {"_id": workspace_row_id(workspace, message.conversation)}
        noted = ChannelField.ANNOUNCEMENTS
        await self._mongo.update_one(CHANNELS, channel, {"$pull": {noted: {"$elemMatch": {"$eq": str(message.id)}}}})
        await self._mongo.update_one(CHANNELS, channel | {noted: {"$size": 0}}, {"$unset": {noted: ""}})

    async def remove_followers(self, workspace: WorkspaceId, channel: ConversationId) -> None:
        """Remove the note of new followers whose cached states have the session."""
        row = {"_id": workspace_row_id(workspace, channel)}
        await self._mongo.update_one(CHANNELS, row, {"$unset": {ChannelField.NEW_FOLLOWERS: ""}})


def _notes_from(row: Document) -> ChannelNotes:
    channel = ConversationId(row["_id"].partition(" ")[2])
    messages = [
        Message(
            id=MessageId(int(message)),
            conversation=channel,
            sender=UserId(actor),
            kind=MessageKind.SYSTEM,
            text=text,
            system_event=event_from(event),
        )
        for message, actor, text, *event in row.get(ChannelField.ANNOUNCEMENTS, ())
    ]
    noted = row.get(ChannelField.NEW_FOLLOWERS)
    return ChannelNotes(channel, messages, NewFollowers(noted[1:], int(noted[0])) if noted else None)
