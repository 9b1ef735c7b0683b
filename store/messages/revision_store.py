"""Revisions: edits and recalls of stored messages, and changes of their reactions and embeds.

A revision is announced in the outbox of its conversation's partition before it is written, and cleared when it is
delivered. So another server can finish it if this one dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from store.base.ids import ConversationId, MessageId, UserId, parse_thread, without_thread
from store.conversations.conversation_fields import ConversationField, HeadField
from store.files.file_claims import FileClaims
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.messages.outbox.outbox_entries import OutboxField, entry_values
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, CONVERSATIONS, MESSAGES, at_place
from store.pins.pin_store import NOT_PINNED, PinStore
from store.previews.embed_updates import NewText, edit_stages
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.reports.flag_reports import FlagReports


class RevisionKind(StrEnum):
    """Kinds of revisions, with their values in logs and frames."""

    EDIT = "u"
    RECALL = "x"
    REACTIONS = "r"
    """A change of a message's reactions. In no log: see ADR 71. In outboxes it is stored with EDIT."""
    EMBEDS = "e"
    """A change of a message's embeds that is no edit (ADR 78). In logs and outboxes it is stored with EDIT."""


_VERSION_FIELDS = {RevisionKind.REACTIONS: OutboxField.REACTIONS, RevisionKind.EMBEDS: OutboxField.EMBEDS}
"""Kinds of revisions that are stored with EDIT in outboxes, with the field that tells them from edits."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision in the outbox: not written yet, or not delivered to all users yet.

    `edits`: edits of the message after it. `version_before`: of REACTIONS and EMBEDS the version of the reactions or
    embeds before. `age_ms`: by Redis's clock.
    """

    conversation: ConversationId
    message: MessageId
    seq: int
    kind: RevisionKind
    edits: int
    entry: str
    age_ms: int = 0
    version_before: int = 0

    def is_applied_to(self, message: Message) -> bool:
        """Return whether the present state of the message includes the revision."""
        match self.kind:
            case RevisionKind.RECALL:
                return message.is_recalled
            case RevisionKind.REACTIONS:
                return message.reactions_version > self.version_before
            case RevisionKind.EMBEDS:
                return message.embeds.version > self.version_before
            case RevisionKind.EDIT:
                return message.edits >= self.edits


def revision_from(entry: str, fields: Any, now_ms: int = 0) -> Revision | None:
    """Return the revision of an outbox entry; None if the entry is a message with a place."""
    values = entry_values(fields)
    revision = values.get(OutboxField.REVISION.encode())
    if revision is None:
        return None
    message, seq, kind, edits = orjson.loads(revision)
    begun_ms = int(entry.partition("-")[0] or now_ms)
    conversation = ConversationId(values[OutboxField.CONVERSATION.encode()].decode())
    kind, version = RevisionKind(kind), 0
    for versioned, field in _VERSION_FIELDS.items():
        if (stored := values.get(field.encode())) is not None:
            kind, version = versioned, int(stored)
    return Revision(conversation, MessageId(int(message)), seq, kind, edits, entry, now_ms - begun_ms, version)


def announced(message: Message, kind: RevisionKind, entry: bytes) -> Revision:
    """Return the revision of a message that was put into the outbox."""
    edits, version = _edits_after(message, kind), _version_before(message, kind)
    return Revision(message.conversation, message.id, message.seq, kind, edits, entry.decode(), 0, version)


def _edits_after(message: Message, kind: RevisionKind) -> int:
    return message.edits + (kind is RevisionKind.EDIT)


def _version_before(message: Message, kind: RevisionKind) -> int:
    match kind:
        case RevisionKind.REACTIONS:
            return message.reactions_version
        case RevisionKind.EMBEDS:
            return message.embeds.version
        case _:
            return 0


def entry_fields(message: Message, kind: RevisionKind) -> list[str | int | bytes]:
    """Return names and values of the fields of a revision's outbox entry."""
    stored_kind = kind if kind not in _VERSION_FIELDS else RevisionKind.EDIT
    revision = orjson.dumps([str(message.id), message.seq, stored_kind.value, _edits_after(message, kind)])
    fields: dict[str, str | int | bytes] = {
        OutboxField.SEQ: 0,
        OutboxField.N: 0,
        OutboxField.CONVERSATION: message.conversation,
        OutboxField.MESSAGE: "{}",
        OutboxField.REVISION: revision,
    }
    if kind in _VERSION_FIELDS:
        fields[_VERSION_FIELDS[kind]] = _version_before(message, kind)
    return [part for pair in fields.items() for part in pair]


COUNT_RECALLED = {
    "$set": {ConversationField.RECALLED: {"$add": [{"$ifNull": [f"${ConversationField.RECALLED}", 0]}, 1]}}
}
"""Stage of the update of a thread, one of whose replies is recalled."""


def is_counted_reply(message: Message) -> bool:
    """Return whether a message counts as a reply of its thread until it is recalled."""
    return message.kind.countable and parse_thread(message.conversation) is not None


class RevisionStore:
    """Changes messages in MongoDB, which orders the changes: each is one step on one document."""

    def __init__(
        self,
        mongo: Mongo,
        cache: Cache,
        keys: Keys,
        pins: PinStore,
        files: FileClaims,
        flag_reports: FlagReports,
    ) -> None:
        self._flag_reports = flag_reports
        self._mongo = mongo
        self._files = files
        self._pins = pins
        self._cache = cache
        self._keys = keys

    async def announce(self, message: Message, kind: RevisionKind) -> Revision:
        """Put a revision into the outbox, before it is written."""
        outbox = self._keys.conversation(message.conversation)[2]
        entry = await self._cache.one(Call("XADD", (outbox,), ("*", *entry_fields(message, kind))))
        return announced(message, kind, entry)

    async def announce_in_channel(self, message: Message, kind: RevisionKind, judged_version: int) -> Revision | None:
        """Like `announce`, in a channel or a thread there. None if rights have changed since they were judged."""
        head, _, outbox, _ = self._keys.conversation(without_thread(message.conversation))
        args = (HeadField.POLICY_VERSION, judged_version, *entry_fields(message, kind))
        entry = await self._cache.one(Call("announce_revision", (head, outbox), args))
        return announced(message, kind, entry) if entry is not None else None

    def clear_call(self, revision: Revision) -> Call:
        """Return the call that deletes a revision from the outbox."""
        return Call("XDEL", (self._keys.conversation(revision.conversation)[2],), (revision.entry,))

    async def edit(self, message: Message, new: NewText, sender: UserId, at_ms: int) -> Message | None:
        """Change the text of a message of the sender, and remove the previews of links that are gone.

        Returns the message after the change. None if the text is the same, or if the message was recalled before. One
        round trip; a transaction if the new text is flagged.
        """
        # Servers' clocks differ: the time of the last edit must not go back.
        fields = {
            MessageField.TEXT: {"$literal": new.text},
            MessageField.EDITED_AT: {"$max": [f"${MessageField.EDITED_AT}", at_ms]},
            MessageField.EDITS: {"$add": [{"$ifNull": [f"${MessageField.EDITS}", 0]}, 1]},
        }
        update = edit_stages(fields, new)
        condition = {MessageField.SENDER: sender, MessageField.TEXT: {"$ne": new.text}}
        if new.flag is None:
            return await self._revise(message, condition, update)
        edited: Message | None = None

        async def work(session: Any) -> None:
            nonlocal edited
            edited = await self._revise(message, condition, update, session)
            if edited is not None:
                await self._flag_reports.insert(edited._replace(flag=new.flag), session)

        await self._mongo.transaction(work)
        return edited

    async def recall(self, message: Message, by: UserId, at_ms: int, audit: Sequence[Document] = ()) -> Message | None:
        """Withhold a message's content, and unpin it. Return the message after the change.

        None if it was recalled before. In the same transaction its files are marked as removed, the recalled replies of
        its thread are counted, and rows of the audit log are stored. One round trip, or more for a reply, a pinned
        message, one with files, or with rows of the audit log.
        """
        fields = {MessageField.RECALLED_AT: at_ms, MessageField.RECALLED_BY: by}
        while True:
            recalled = await self._recall_not_pinned(message, fields, audit, at_ms)
            if recalled is None:
                counted = [COUNT_RECALLED] if is_counted_reply(message) else []
                recalled = await self._pins.recall_pinned(message, fields, at_ms, counted, audit)
            if recalled is not None or not await self._is_recallable(message):
                return recalled

    async def _recall_not_pinned(
        self, message: Message, fields: dict[str, Any], audit: Sequence[Document], at_ms: int
    ) -> Message | None:
        update = {"$set": fields}
        if not is_counted_reply(message) and not message.own_files and not audit:
            return await self._revise(message, NOT_PINNED, update)
        recalled: Message | None = None

        async def work(session: Any) -> None:
            nonlocal recalled
            recalled = await self._revise(message, NOT_PINNED, update, session)
            if recalled is None:
                return
            await self._files.remove(recalled.recalled_files, recalled.id, at_ms, session)
            if audit:
                await self._mongo.insert_many(AUDIT, audit, session=session)
            if is_counted_reply(message):
                thread = {"_id": message.conversation}
                await self._mongo.find_one_and_update(CONVERSATIONS, thread, [COUNT_RECALLED], session=session)

        await self._mongo.transaction(work)
        return recalled

    async def _is_recallable(self, message: Message) -> bool:
        """Return whether a message is there and not recalled: it may have been pinned or unpinned meanwhile."""
        query = {MessageField.ID: int(message.id), **at_place(message.conversation, message.seq)}
        row = await self._mongo.find_one(MESSAGES, query)
        return row is not None and MessageField.RECALLED_AT not in row

    async def count_recalled(self, thread: ConversationId) -> int:
        """Return the number of recalled replies in a thread."""
        row = await self._mongo.find_one(CONVERSATIONS, {"_id": thread})
        return row.get(ConversationField.RECALLED, 0) if row is not None else 0

    async def _revise(
        self,
        message: Message,
        condition: dict[str, Any],
        update: dict[str, Any] | list[dict[str, Any]],
        session: Any = None,
    ) -> Message | None:
        query = {
            MessageField.ID: int(message.id),
            **at_place(message.conversation, message.seq),
            MessageField.RECALLED_AT: {"$exists": False},
            **condition,
        }
        row = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True, session=session)
        return message_from(row) if row else None

    async def move_head(self, message: Message, at_ms: int) -> bool:
        """Move the head's time if this is its newest message. Return whether it is.

        Sessions that are loaded from MongoDB after that have this time as their `active_ts` or a later one.
        """
        newest = {"_id": message.conversation, ConversationField.SEQ: message.seq}
        update = {"$max": {ConversationField.MOVED_AT: at_ms}}
        return bool(await self._mongo.update_one(CONVERSATIONS, newest, update))

    def newest_message_call(self, message: Message, at_ms: int, recalled_count: int = 0) -> Call:
        """Return the call that replaces the head's newest message by the revised one, if it is the same message.

        recalled_count: Of a thread whose reply was recalled, the number of recalled replies.
        """
        args = (message.seq, message.to_json(), at_ms, recalled_count)
        return Call("revise_newest_message", self._keys.conversation(message.conversation), args)
