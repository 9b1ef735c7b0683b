"""Copies of thread replies in the parent conversation. What can change belongs to the reply; the copy follows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from store.base.ids import ConversationId, MessageId, parse_thread, thread_id
from store.messages.broadcasts import BroadcastOf
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.messages.message_store import MessageStore
from store.messages.revision_store import RevisionStore
from store.mongo.client import Mongo
from store.mongo.collections import MESSAGES, at_place
from store.previews.embed_updates import EMBEDS_VERSION


def make_copy(reply: Message) -> Message:
    """Return the copy of a reply, without its place."""
    copy, thread = reply.copy_id, parse_thread(reply.conversation)
    assert copy is not None and thread is not None
    shown = BroadcastOf(reply.id, thread.seq, reply.mentions, reply.mentions_all, reply.mentioned_roles)
    return Message(
        id=copy,
        conversation=thread.parent,
        sender=reply.sender,
        kind=reply.kind,
        text=reply.text,
        metadata=reply.metadata,
        system_event=reply.system_event,
        broadcast_of=shown,
        embeds=reply.embeds.for_copy(),
        attachments=reply.attachments,
        is_silent=reply.is_silent,
    )


def with_reactions_row(message: Message) -> Message:
    """Return the message that has the rows of a message's reactions: of a copy, the id and thread of its reply."""
    shown = message.broadcast_of
    if shown is None:
        return message
    return message._replace(id=shown.reply, conversation=thread_id(message.conversation, shown.parent_seq))


class CopyStore:
    """Finds copies and their replies, and lets copies follow their replies."""

    def __init__(self, mongo: Mongo, messages: MessageStore, revisions: RevisionStore) -> None:
        self._mongo = mongo
        self._messages = messages
        self._revisions = revisions

    async def find(self, reply: Message) -> Message | None:
        """Return the copy of a reply; None if it has none, or none that is stored."""
        copy, thread = reply.copy_id, parse_thread(reply.conversation)
        if copy is None or thread is None:
            return None
        return await self._messages.find_in_conversation(thread.parent, copy)

    async def find_replies(
        self, replies: Sequence[tuple[ConversationId, MessageId]]
    ) -> dict[tuple[ConversationId, MessageId], Message]:
        """Return the replies that are stored, by thread and id. One round trip."""
        by_id = [
            {MessageField.CONVERSATION: thread, MessageField.ID: int(reply)} for thread, reply in dict.fromkeys(replies)
        ]
        rows = await self._mongo.find(MESSAGES, {"$or": by_id}) if by_id else []
        return {(m.conversation, m.id): m for m in map(message_from, rows)}

    async def update(self, reply: Message) -> Message | None:
        """Let the copy follow a reply that was read after its last change. Return the copy; None if there is none.

        It may be repeated, and called in any order: the copy never goes back to an earlier state of the reply. All that
        can change in a reply is listed here, and only here.
        """
        copy = await self.find(reply)
        if copy is None:
            return None
        if reply.is_recalled:
            assert reply.recalled_at_ms is not None
            return await self._recall(copy, reply)
        if reply.edits > copy.edits:
            content = {
                MessageField.TEXT: reply.text,
                MessageField.EDITS: reply.edits,
                MessageField.EDITED_AT: reply.edited_at_ms,
                MessageField.EMBEDS: reply.embeds.for_copy().to_stored(),
            }
            copy = await self._set(copy, MessageField.EDITS, reply.edits, {"$set": content})
        if reply.embeds.version > copy.embeds.version:
            stored_embeds = {MessageField.EMBEDS: reply.embeds.for_copy().to_stored()}
            copy = await self._set(copy, EMBEDS_VERSION, reply.embeds.version, {"$set": stored_embeds})
        if reply.reactions_version > copy.reactions_version:
            version = {MessageField.REACTIONS_VERSION: reply.reactions_version}
            update: dict[str, Any] = {"$set": version, "$unset": {MessageField.REACTIONS: ""}}
            if reply.reactions:
                stored = [summary.to_stored() for summary in reply.reactions]
                update = {"$set": version | {MessageField.REACTIONS: stored}}
            copy = await self._set(copy, MessageField.REACTIONS_VERSION, reply.reactions_version, update)
        return copy

    async def _set(self, copy: Message, version_field: str, version: int, update: dict[str, Any]) -> Message:
        """Update a copy that is not recalled, if its version is lower. Return the copy after that."""
        place = {MessageField.ID: int(copy.id), **at_place(copy.conversation, copy.seq)}
        is_older = {
            MessageField.RECALLED_AT: {"$exists": False},
            "$or": [{version_field: {"$exists": False}}, {version_field: {"$lt": version}}],
        }
        row = await self._mongo.find_one_and_update(MESSAGES, place | is_older, update, after=True)
        row = row or await self._mongo.find_one(MESSAGES, place)
        return message_from(row) if row is not None else copy

    async def _recall(self, copy: Message, reply: Message) -> Message:
        if copy.is_recalled or reply.recalled_at_ms is None:
            return copy
        # The recaller of a stored message is not known only if a version that stores no copies recalled it.
        recalled = await self._revisions.recall(copy, reply.recalled_by or reply.sender, reply.recalled_at_ms)
        return recalled or await self.find(reply) or copy
