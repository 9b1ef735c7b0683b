"""SYSTEM messages that announce changes of channels. Noted with the change, so that none is lost with a server.

A note stays in the channel's document until its message is stored. Its message always has the same id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pymongo import UpdateOne

from store.base.ids import ConversationId, MessageId, UserId
from store.base.workspace_ids import WorkspaceId
from store.messages.message import Message, MessageKind
from store.messages.system_events import SystemEvent, event_from
from store.mongo.client import Mongo
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


class ChannelAnnouncements:
    """The notes in MongoDB."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_waiting(self, workspace: WorkspaceId, channels: Iterable[ConversationId]) -> list[Message]:
        """Return the messages of the notes of some channels, oldest first."""
        ids = [workspace_row_id(workspace, channel) for channel in channels]
        if not ids:
            return []
        query = {"_id": {"$in": ids}, ChannelField.ANNOUNCEMENTS: {"$exists": True}}
        rows = await self._mongo.find(CHANNELS, query, projection={ChannelField.ANNOUNCEMENTS: 1})
        return [
            Message(
                id=MessageId(int(message)),
                conversation=ConversationId(row["_id"].partition(" ")[2]),
                sender=UserId(actor),
                kind=MessageKind.SYSTEM,
                text=text,
                system_event=event_from(event),
            )
            for row in rows
            for message, actor, text, *event in row[ChannelField.ANNOUNCEMENTS]
        ]

    async def remove(self, workspace: WorkspaceId, message: Message) -> None:
        """Remove the note of a message that is stored."""
        channel = {"_id": workspace_row_id(workspace, message.conversation)}
        noted = ChannelField.ANNOUNCEMENTS
        await self._mongo.update_one(CHANNELS, channel, {"$pull": {noted: {"$elemMatch": {"$eq": str(message.id)}}}})
        await self._mongo.update_one(CHANNELS, channel | {noted: {"$size": 0}}, {"$unset": {noted: ""}})
