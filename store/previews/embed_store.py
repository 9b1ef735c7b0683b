"""Changes of the embeds of stored messages, and the messages whose links are pending (ADR 78)."""

from __future__ import annotations

from collections.abc import Sequence

from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import MESSAGES, at_place
from store.mongo.index_fields import BY_LINKS_DUE, LINKS_DUE
from store.previews.embed import Embed
from store.previews.embed_updates import (
    HAS_PENDING_LINKS,
    NOT_SUPPRESSED,
    has_text_of,
    previews_update,
    suppression_stages,
)

_NOT_RECALLED = {MessageField.RECALLED_AT: {"$exists": False}}


class EmbedStore:
    """Changes embeds in MongoDB. Each change is one step on one document."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def set_previews(self, message: Message, embeds: Sequence[Embed]) -> Message | None:
        """Store the embeds of a message whose links were fetched. Return the message after the change.

        None if it is no longer as it was read: edited, recalled or suppressed, or another server has fetched its links.
        """
        query = _place(message) | _NOT_RECALLED | has_text_of(message.edits) | HAS_PENDING_LINKS | NOT_SUPPRESSED
        update = previews_update([embed.to_stored() for embed in embeds])
        row = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True)
        return message_from(row) if row is not None else None

    async def suppress(self, message: Message) -> Message | None:
        """Remove the previews of a message, and never add others. Return the message after the change.

        None if readers see no change: it had no previews, was suppressed before, or is recalled.
        """
        query = _place(message) | _NOT_RECALLED | NOT_SUPPRESSED
        row = await self._mongo.find_one_and_update(MESSAGES, query, suppression_stages(), after=False)
        if row is None:
            return None
        before = message_from(row)
        if not before.embeds.previews:
            return None
        changed = before.embeds._replace(
            items=before.embeds.given, version=before.embeds.version + 1, links_due_ms=None, is_suppressed=True
        )
        return before._replace(embeds=changed)

    async def clear_pending(self, message: Message) -> bool:
        """Note that nothing is left to fetch for a message. False if its text has changed, or nothing was pending."""
        query = _place(message) | has_text_of(message.edits) | HAS_PENDING_LINKS
        return bool(await self._mongo.update_one(MESSAGES, query, {"$unset": {LINKS_DUE: ""}}))

    async def take_due(self, now_ms: int, until_ms: int, limit: int) -> list[Message]:
        """Return messages whose links any server may fetch. Until a time no other server takes them.

        On a sharded cluster this query goes to every shard. Raises Unreachable until its index is built.
        """
        # Without the hint, MongoDB would read all messages while it builds the index.
        due = {LINKS_DUE: {"$lte": now_ms}}
        rows = await self._mongo.find(MESSAGES, due, sort=BY_LINKS_DUE, limit=limit, hint=BY_LINKS_DUE)
        taken: list[Message] = []
        for row in rows:
            query = _place(message_from(row)) | {LINKS_DUE: {"$lte": now_ms}}
            update: Document = {"$set": {LINKS_DUE: until_ms}}
            found = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True)
            if found is not None:
                taken.append(message_from(found))
        return taken


def _place(message: Message) -> Document:
    return {MessageField.ID: int(message.id), **at_place(message.conversation, message.seq)}
