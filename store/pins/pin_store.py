"""Pins in MongoDB: a mark in the message, and the list in the conversation, always written together (ADR 73)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from store.base.errors import Superseded
from store.base.ids import ConversationId
from store.conversations.conversation_fields import ConversationField, PinField, PinNoteField
from store.files.file_claims import FileClaims
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, CONVERSATIONS, MESSAGES, WORKSPACES, at_place
from store.mongo.index_fields import PIN_NOTED_AT
from store.pins.pins import MOST_PINS, PinGuard, PinNote, Pins, notes_from, pins_from
from store.redis.cache import Call
from store.redis.keys import Keys
from store.workspaces.workspace_fields import WorkspaceField
from store.workspaces.workspace_store import existing

_CONVERSATIONS_AT_ONCE = 100

_IS_PINNED = {MessageField.PIN_CHANGES: {"$mod": [2, 1]}}
NOT_PINNED = {MessageField.PIN_CHANGES: {"$not": {"$mod": [2, 1]}}}
"""Conditions on the document of a message that is not recalled."""

_PIN_LIST = {"$ifNull": [f"${ConversationField.PINS}", []]}
_VERSION = f"${ConversationField.PIN_VERSION}"


class TooManyPins(Exception):
    """The conversation has as many pinned messages as allowed."""


class _Unchanged(Exception):
    """Raised in a transaction if the message has the wanted state already, or is recalled."""


class _Refused(Exception):
    """Raised in a transaction if the list is full, or the rights have to be judged again."""


class PinStore:
    """Reads and changes pins."""

    def __init__(self, mongo: Mongo, keys: Keys, files: FileClaims) -> None:
        self._mongo = mongo
        self._files = files
        self._keys = keys

    async def pin(self, message: Message, note: PinNote, guard: PinGuard) -> tuple[Message, PinNote] | None:
        """Pin a message. One awaited transaction.

        Args:
            message: The message.
            note: The change, without a number.
            guard: The rights that it was judged under.

        Returns:
            The message and the note after the change. None: it is pinned already, or recalled.

        Raises:
            TooManyPins: Nothing was stored.
            Superseded: Rights have changed since they were judged. Nothing was stored.
        """
        pins = {"$concatArrays": [_PIN_LIST, [{PinField.SEQ: message.seq, PinField.NUMBER: _VERSION}]]}
        has_room = {f"{ConversationField.PINS}.{MOST_PINS - 1}": {"$exists": False}}
        return await self._change(
            message, {"$inc": {MessageField.PIN_CHANGES: 1}}, NOT_PINNED, pins, note, guard, has_room
        )

    async def unpin(self, message: Message, note: PinNote, guard: PinGuard) -> tuple[Message, PinNote] | None:
        """Unpin a message. None: it is not pinned. Guarantees and errors are those of `pin`."""
        counted = {"$inc": {MessageField.PIN_CHANGES: 1}}
        return await self._change(message, counted, _IS_PINNED, _without(message.seq), note, guard)

    async def recall_pinned(
        self,
        message: Message,
        fields: Mapping[str, Any],
        at_ms: int,
        stages: Sequence[Mapping[str, Any]] = (),
        audit: Sequence[Document] = (),
    ) -> Message | None:
        """Recall a pinned message and unpin it, in one awaited transaction. None: it is not pinned, or recalled.

        Args:
            message: The message.
            fields: The fields that the recall sets in the message.
            at_ms: The time of the recall.
            stages: Further stages of the update of the conversation.
            audit: Rows of the audit log.
        """
        update = {"$set": dict(fields), "$inc": {MessageField.PIN_CHANGES: 1}}
        note = PinNote(0, message.seq, at_ms)
        changed = await self._change(
            message, update, _IS_PINNED, _without(message.seq), note, PinGuard(), stages=stages, audit=audit
        )
        return changed[0] if changed is not None else None

    async def _change(
        self,
        message: Message,
        update: Mapping[str, Any],
        condition: Mapping[str, Any],
        pins: Mapping[str, Any],
        note: PinNote,
        guard: PinGuard,
        conversation_condition: Mapping[str, Any] | None = None,
        stages: Sequence[Mapping[str, Any]] = (),
        audit: Sequence[Document] = (),
    ) -> tuple[Message, PinNote] | None:
        place = {MessageField.ID: int(message.id), **at_place(message.conversation, message.seq)}
        query = {**place, MessageField.RECALLED_AT: {"$exists": False}, **condition}
        conversation = {"_id": message.conversation, **(conversation_condition or {})}
        rows: list[Mapping[str, Any]] = []

        async def work(session: Any) -> None:
            rows.clear()
            row = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True, session=session)
            if row is None:
                raise _Unchanged
            files = message_from(row).recalled_files
            await self._files.remove(files, message.id, note.at_ms, session)
            await self._write_guard(guard, session)
            if audit:
                await self._mongo.insert_many(AUDIT, audit, session=session)
            # Last, because every message in the conversation writes this row too, and waits while it is locked.
            list_update = [*_list_update(pins, note), *stages]
            found = await self._mongo.find_one_and_update(
                CONVERSATIONS, conversation, list_update, after=True, session=session
            )
            if found is None:
                raise _Refused
            rows.extend((row, found))

        try:
            await self._mongo.transaction(work)
        except _Unchanged:
            return None
        except _Refused:
            if len((await self.find(message.conversation)).items) >= MOST_PINS:
                raise TooManyPins from None
            raise Superseded("the pins of the conversation have changed") from None
        row, found = rows
        return message_from(dict(row)), note._replace(number=found[ConversationField.PIN_VERSION])

    async def _write_guard(self, guard: PinGuard, session: Any) -> None:
        """Write what a change of the rights writes too, so that only one of the two can be stored.

        Raises Superseded if the rights have changed since they were judged.
        """
        if guard.workspace is not None:
            query = existing(guard.workspace) | {WorkspaceField.POLICY_VERSION: guard.version}
            collection, counted = WORKSPACES, {"$inc": {WorkspaceField.GUARDED_PINS: 1}}
        elif guard.group is not None:
            version = guard.version or {"$in": [0, None]}
            query = {"_id": guard.group, ConversationField.GROUP_VERSION: version}
            collection, counted = CONVERSATIONS, {"$inc": {ConversationField.GUARDED_PINS: 1}}
        else:
            return
        if await self._mongo.find_one_and_update(collection, query, counted, session=session) is None:
            raise Superseded("the rights may have changed")

    async def find(self, conversation: ConversationId) -> Pins:
        """Return the pins of a conversation. One round trip."""
        return (await self.find_many([conversation]))[conversation]

    async def find_many(self, conversations: Sequence[ConversationId]) -> dict[ConversationId, Pins]:
        """Return the pins of each conversation. One round trip."""
        fields = dict.fromkeys((ConversationField.PINS, ConversationField.PIN_VERSION), 1)
        rows = await self._mongo.find(CONVERSATIONS, {"_id": {"$in": list(conversations)}}, projection=fields)
        found = {row["_id"]: pins_from(row) for row in rows}
        return {conversation: found.get(conversation, Pins(0, ())) for conversation in conversations}

    def count_call(self, channel: ConversationId, pins: Pins) -> Call:
        """Return the call that sets the number of pins in the head of a channel, if it has no later one."""
        return Call("set_pin_count", self._keys.conversation(channel), (pins.version, len(pins.items)))

    async def list_notes(self, conversation: ConversationId, seq: int) -> list[PinNote]:
        """Return the changes of a message's pin that are not announced yet, oldest first."""
        rows = await self._mongo.find(CONVERSATIONS, {"_id": conversation}, projection={ConversationField.PIN_NOTES: 1})
        return [note for row in rows for note in notes_from(row) if note.seq == seq]

    async def remove_note(self, conversation: ConversationId, note: PinNote) -> None:
        """Remove the note of a change that is announced."""
        notes = ConversationField.PIN_NOTES
        row = {"_id": conversation}
        await self._mongo.update_one(CONVERSATIONS, row, {"$pull": {notes: {PinNoteField.NUMBER: note.number}}})
        await self._mongo.update_one(CONVERSATIONS, row | {notes: {"$size": 0}}, {"$unset": {notes: ""}})

    async def list_abandoned(self, before_ms: int) -> list[tuple[ConversationId, PinNote]]:
        """Return changes that were made up to a time and are not announced, at most those of 100 conversations.

        On a sharded cluster this query goes to every shard.
        """
        rows = await self._mongo.find(
            CONVERSATIONS,
            {PIN_NOTED_AT: {"$lte": before_ms}},
            projection={ConversationField.PIN_NOTES: 1},
            limit=_CONVERSATIONS_AT_ONCE,
        )
        notes = [(ConversationId(row["_id"]), note) for row in rows for note in notes_from(row)]
        return [(conversation, note) for conversation, note in notes if note.at_ms <= before_ms]


def _without(seq: int) -> dict[str, Any]:
    """Return the list of pins without that of a message, as an expression."""
    return {"$filter": {"input": _PIN_LIST, "cond": {"$ne": [f"$$this.{PinField.SEQ}", seq]}}}


def _list_update(pins: Mapping[str, Any], note: PinNote) -> list[dict[str, Any]]:
    """Return the update of a conversation whose pins change. Its stages see the number that the first one gives."""
    noted = {"$mergeObjects": [{"$literal": note.to_stored()}, {PinNoteField.NUMBER: _VERSION}]}
    notes = {"$concatArrays": [{"$ifNull": [f"${ConversationField.PIN_NOTES}", []]}, [noted]]}
    return [
        {"$set": {ConversationField.PIN_VERSION: {"$add": [{"$ifNull": [_VERSION, 0]}, 1]}}},
        {"$set": {ConversationField.PINS: pins, ConversationField.PIN_NOTES: notes}},
    ]
