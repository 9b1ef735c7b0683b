"""Replies to a message, from their place on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.base.ids import ConversationId, MessageId, UserId, thread_id
from store.conversations.conversation import Head
from store.conversations.group_change import ProposedChange
from store.messages.message import Message, MessageKind, ReservedMessage
from store.mongo.collections import session_row_id
from store.store import Store
from tests.api.client import Api


class ThreadOfMessage:
    """The thread under a message. `sent`: what the API has answered about the message."""

    def __init__(self, sent: dict[str, Any]) -> None:
        message = sent["message"]
        self.parent_id = MessageId(int(message["id"][2:]))
        self.id = thread_id(ConversationId(message["conversationId"]), message["seq"])

    async def reserve(self, api: Api, sender: str, mentions: Sequence[str] = ()) -> ReservedMessage:
        """Give a reply its place."""
        store = api.services.app.store
        parent = (await store.messages.find_by_ids([self.parent_id]))[self.parent_id]
        message = Message(
            MessageId(store.ids.next()),
            self.id,
            UserId(sender),
            MessageKind.TEXT,
            "me too",
            mentions=tuple(UserId(user) for user in mentions),
        )
        place = await store.reply_places.reserve(message, parent)
        assert isinstance(place, ReservedMessage), place
        return place

    async def reply(self, api: Api, sender: str, mentions: Sequence[str] = ()) -> Message:
        """Send a reply."""
        place = await self.reserve(api, sender, mentions)
        return (await api.services.app.delivery.send(place)).message

    async def unfollow(self, api: Api, user: str) -> None:
        """Let a user stop following."""
        app = api.services.app
        snapshot = await app.store.conversations.find_group_snapshot(self.id, [UserId(user)])
        assert snapshot is not None
        message = Message(MessageId(app.store.ids.next()), self.id, UserId(user), MessageKind.SYSTEM, "")
        change = ProposedChange(leaving=(UserId(user),))
        reserved = await app.store.outbox.reserve_change(message, snapshot.version, change, announced=False)
        assert isinstance(reserved, ReservedMessage), reserved
        await app.delivery.send(reserved)

    async def head(self, api: Api) -> Head:
        """Return the thread as its readers see it."""
        head = await api.services.app.store.conversations.find(self.id)
        assert head is not None and head.thread is not None
        return head

    async def followers(self, api: Api) -> list[str]:
        """Return the present followers."""
        members = await api.services.app.store.conversations.list_members(self.id)
        return [member.user for member in members if member.is_current]

    def row(self, api: Api, user: str) -> dict[str, Any] | None:
        """Return the stored session of a user."""
        found: dict[str, Any] | None = api.database["sessions"].find_one({"_id": session_row_id(UserId(user), self.id)})
        return found


async def unread(store: Store, user: str, thread: ConversationId) -> int | None:
    """Return the unread replies of a user's session; None if there is no session."""
    found = await store.sessions.find(UserId(user), thread)
    return found.unread_count if found is not None else None
