"""Rows of webhooks in MongoDB (ADR 90)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne

from store.base.ids import ConversationId, UserId
from store.base.known_values import known_value
from store.base.workspace_ids import WorkspaceId
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, WEBHOOK_COUNTS, WEBHOOKS
from store.webhooks.webhook import (
    OLD_SECRET_MS,
    Webhook,
    WebhookEventType,
    WebhookId,
    WebhookKind,
    WebhookState,
)


class WebhookField:
    """Stored names of the fields of `webhooks`."""

    ID = "_id"
    KIND = "k"
    CREATOR = "u"
    CREATED = "ct"
    """When it was created (ms)."""
    SECRET = "s"
    WORKSPACE = "w"
    """Absent: the whole deployment."""
    OWNER = "o"
    """`Webhook.owner`: whose number of webhooks is limited."""
    CHANNELS = "c"
    NAME = "n"
    AVATAR = "a"
    URL = "l"
    EVENTS = "e"
    OLD_SECRET = "os"
    OLD_SECRET_UNTIL = "ou"
    STATE = "st"
    """Absent: ACTIVE."""
    FAILING_SINCE = "f"
    FAILED = "lf"
    """When the last attempt failed (ms)."""
    DELETED = "d"
    """When it was deleted (ms). Its events are being removed; it is not found any more."""
    LEASE_OWNER = "lo"
    """Process that delivers its events."""
    LEASE_UNTIL = "lu"
    """Until when, by MongoDB's clock (ms)."""
    HELD_UNTIL = "h"
    """Until when nothing is sent: the endpoint asked for a pause, or fails for several conversations (ms)."""
    FAILURES = "cf"
    """Failed attempts since the last success."""
    RESUMED = "rs"
    """Time from which all lines of events are due (ms). Absent once every line has it as its own time."""


_F = WebhookField

_COUNT = "n"
_VERSION_ROW: Document = {"_id": "version"}
"""Its count changes whenever an outgoing webhook is created or deleted."""
_EXISTING: Document = {_F.DELETED: {"$exists": False}}


class TooManyWebhooks(Exception):
    """There are as many webhooks of this kind in the channel, workspace or deployment as allowed."""


class WebhookStore:
    """Reads and changes webhooks. All methods raise Unreachable. Deleted ones are not found."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def insert(self, webhook: Webhook, most: int, audit: Sequence[Document] = ()) -> None:
        """Store a new webhook, unless its owner has `most` of its kind. One transaction.

        audit: rows of the audit log. Raises TooManyWebhooks: nothing was stored.
        """

        async def work(session: Any) -> None:
            await self._mongo.insert_one(WEBHOOKS, row_of(webhook), session=session)
            key, counted = {"_id": _count_id(webhook)}, {"$inc": {_COUNT: 1}}
            before = await self._mongo.find_one_and_update(WEBHOOK_COUNTS, key, counted, upsert=True, session=session)
            if before is not None and before[_COUNT] >= most:
                raise TooManyWebhooks
            await self._raise_version(webhook, session)
            await self._insert_audit(audit, session)

        await self._mongo.transaction(work)

    async def _insert_audit(self, rows: Sequence[Document], session: Any) -> None:
        if rows:
            await self._mongo.insert_many(AUDIT, rows, session=session)

    async def _raise_version(self, webhook: Webhook, session: Any) -> None:
        if webhook.kind is WebhookKind.OUTGOING:
            counted = {"$inc": {_COUNT: 1}}
            await self._mongo.find_one_and_update(WEBHOOK_COUNTS, _VERSION_ROW, counted, upsert=True, session=session)

    async def find_version(self) -> int:
        """Return a number that changes whenever an outgoing webhook is created or deleted. One round trip."""
        row = await self._mongo.find_one(WEBHOOK_COUNTS, _VERSION_ROW)
        return int(row[_COUNT]) if row is not None else 0

    async def list_outgoing(self) -> list[Webhook]:
        """Return all outgoing webhooks, the oldest first. One round trip."""
        return _ordered(await self._mongo.find(WEBHOOKS, {_F.KIND: WebhookKind.OUTGOING.value} | _EXISTING))

    async def find(self, id: WebhookId) -> Webhook | None:
        """Return a webhook. One round trip."""
        row = await self._mongo.find_one(WEBHOOKS, {_F.ID: id} | _EXISTING)
        return webhook_from(row) if row is not None else None

    async def list_of_workspace(self, workspace: WorkspaceId | None) -> list[Webhook]:
        """Return the webhooks of a workspace, of both kinds; None: those of the deployment. The oldest first."""
        query: Document = {_F.WORKSPACE: workspace if workspace is not None else {"$exists": False}}
        return _ordered(await self._mongo.find(WEBHOOKS, query | _EXISTING))

    async def list_of_channel(self, channel: ConversationId) -> list[Webhook]:
        """Return the incoming webhooks of a channel, the oldest first. One round trip."""
        query: Document = {_F.OWNER: channel, _F.KIND: WebhookKind.INCOMING.value}
        return _ordered(await self._mongo.find(WEBHOOKS, query | _EXISTING))

    async def rotate(self, id: WebhookId, secret: str, now_ms: int, audit: Sequence[Document] = ()) -> Webhook | None:
        """Replace the secret, and return the webhook; None: there is none. The old secret stays valid for a time.

        audit: rows of the audit log. One transaction.
        """
        change = [
            {
                "$set": {
                    _F.OLD_SECRET: f"${_F.SECRET}",
                    _F.OLD_SECRET_UNTIL: now_ms + OLD_SECRET_MS,
                    _F.SECRET: secret,
                }
            }
        ]
        row: Document | None = None

        async def work(session: Any) -> None:
            nonlocal row
            existing = {_F.ID: id} | _EXISTING
            row = await self._mongo.find_one_and_update(WEBHOOKS, existing, change, after=True, session=session)
            if row is not None:
                await self._insert_audit(audit, session)

        await self._mongo.transaction(work)
        return webhook_from(row) if row is not None else None

    async def delete(self, webhook: Webhook, now_ms: int, audit: Sequence[Document] = ()) -> bool:
        """Delete a webhook. Return whether it was there. One transaction. audit: rows of the audit log.

        The row of an outgoing one stays as a mark until its events are removed; see `remove`.
        """
        deleted = False

        async def work(session: Any) -> None:
            nonlocal deleted
            key = {_F.ID: webhook.id} | _EXISTING
            if webhook.kind is WebhookKind.INCOMING:
                deleted = await self._mongo.delete_each(WEBHOOKS, [key], session) > 0
            else:
                mark = {"$set": {_F.DELETED: now_ms}}
                deleted = await self._mongo.find_one_and_update(WEBHOOKS, key, mark, session=session) is not None
            if deleted:
                counted = {"$inc": {_COUNT: -1}}
                await self._mongo.find_one_and_update(
                    WEBHOOK_COUNTS, {"_id": _count_id(webhook)}, counted, session=session
                )
                await self._raise_version(webhook, session)
                await self._insert_audit(audit, session)

        await self._mongo.transaction(work)
        return deleted

    async def delete_of_workspace(self, workspace: WorkspaceId, now_ms: int) -> None:
        """Delete all webhooks of a workspace."""
        for webhook in await self.list_of_workspace(workspace):
            await self.delete(webhook, now_ms)

    async def delete_of_channel(self, channel: ConversationId, now_ms: int) -> None:
        """Delete the incoming webhooks of a channel."""
        for webhook in await self.list_of_channel(channel):
            await self.delete(webhook, now_ms)

    async def list_deleted(self, limit: int) -> list[WebhookId]:
        """Return deleted webhooks whose events may still be there."""
        rows = await self._mongo.find(WEBHOOKS, {_F.DELETED: {"$exists": True}}, projection={_F.ID: 1}, limit=limit)
        return [WebhookId(row[_F.ID]) for row in rows]

    async def remove(self, id: WebhookId) -> None:
        """Remove the row of a deleted webhook: none of its events is left."""
        await self._mongo.delete_one(WEBHOOKS, {_F.ID: id, _F.DELETED: {"$exists": True}})


def row_of(webhook: Webhook) -> Document:
    """Return the row of a webhook. Absent fields have their default."""
    row: Document = {
        _F.ID: webhook.id,
        _F.KIND: webhook.kind.value,
        _F.CREATOR: webhook.creator,
        _F.CREATED: webhook.created_at_ms,
        _F.SECRET: webhook.secret,
        _F.OWNER: webhook.owner,
        _F.WORKSPACE: webhook.workspace,
        _F.CHANNELS: list(webhook.channels) or None,
        _F.NAME: webhook.name,
        _F.AVATAR: webhook.avatar_url,
        _F.URL: webhook.url,
        _F.EVENTS: [kind.value for kind in webhook.events] or None,
    }
    return {name: value for name, value in row.items() if value is not None}


def webhook_from(row: Document) -> Webhook:
    """Return the webhook of a row, without types of events that only later versions know."""
    types = (known_value(WebhookEventType, each, None) for each in row.get(_F.EVENTS, ()))
    workspace = row.get(_F.WORKSPACE)
    return Webhook(
        WebhookId(row[_F.ID]),
        WebhookKind(row[_F.KIND]),
        UserId(row[_F.CREATOR]),
        row[_F.CREATED],
        row[_F.SECRET],
        WorkspaceId(workspace) if workspace is not None else None,
        tuple(map(ConversationId, row.get(_F.CHANNELS, ()))),
        row.get(_F.NAME),
        row.get(_F.AVATAR),
        row.get(_F.URL),
        tuple(type for type in types if type is not None),
        row.get(_F.OLD_SECRET),
        row.get(_F.OLD_SECRET_UNTIL, 0),
        known_value(WebhookState, row.get(_F.STATE), WebhookState.ACTIVE),
        row.get(_F.FAILING_SINCE),
    )


def count_update(webhook: Webhook, change: int) -> UpdateOne:
    """Return the write that counts a new webhook (1), or one that is deleted (-1)."""
    return UpdateOne({"_id": _count_id(webhook)}, {"$inc": {_COUNT: change}}, upsert=True)


def _count_id(webhook: Webhook) -> str:
    return f"{webhook.kind.value} {webhook.owner}"


def _ordered(rows: Sequence[Document]) -> list[Webhook]:
    return sorted(map(webhook_from, rows), key=lambda webhook: int(webhook.id[2:]))
