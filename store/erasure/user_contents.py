"""Removes what a user made: reactions, files, and the content of messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pymongo import UpdateOne

from store.base.clock import Clock
from store.base.ids import ConversationId, MessageId, UserId
from store.conversations.conversation_store import ConversationStore
from store.erasure.renaming import Renaming
from store.files.blobs.base import BlobStore
from store.files.file import FileField, FileState, file_from
from store.files.file_removals import FileRemovals
from store.files.file_store import WRITE_MARGIN_MS
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.messages.message_store import MessageStore
from store.messages.revision_store import RevisionStore
from store.mongo.client import Document, Mongo
from store.mongo.collections import FILES, MESSAGES, REACTIONS, REPORTS
from store.reactions.reaction_draft import ReactionChange, ReactionChangeKind
from store.reactions.reaction_store import ReactionStore
from store.redis.cache import Cache
from store.reports.report import ReportField, without_user_contents
from store.search.search_index import SearchIndex
from store.sessions.changes import INVALIDATE
from store.sessions.session_store import SessionStore


class UserContents:
    """Removes contents. Every method may be repeated. All raise Unreachable."""

    def __init__(
        self,
        mongo: Mongo,
        cache: Cache,
        clock: Clock,
        *,
        messages: MessageStore,
        revisions: RevisionStore,
        reactions: ReactionStore,
        removals: FileRemovals,
        blobs: BlobStore,
        index: SearchIndex | None,
        conversations: ConversationStore,
        sessions: SessionStore,
    ) -> None:
        self._mongo = mongo
        self._cache = cache
        self._clock = clock
        self._messages = messages
        self._revisions = revisions
        self._reactions = reactions
        self._removals = removals
        self._blobs = blobs
        self._index = index
        self._conversations = conversations
        self._sessions = sessions

    async def remove_reaction(self, row: Document) -> bool:
        """Remove a reaction, with the count in the message. Return whether there was one."""
        conversation, message, emoji, user = row["_id"].split(" ")
        found = await self._messages.find_in_conversation(ConversationId(conversation), MessageId(int(message)))
        if found is not None and not found.is_recalled:
            change = ReactionChange(ReactionChangeKind.REMOVE, UserId(user), emoji)
            outcome = await self._reactions.change(found, [change], self._clock.now_ms())
            await self._conversations.drop(found.conversation)
            return outcome.is_changed
        # The message is gone, or recalled: its reactions are not counted any more.
        return bool(await self._mongo.delete_one(REACTIONS, {"_id": row["_id"]}))

    async def recall_messages(
        self, rows: Sequence[Document], renaming: Renaming, *, removes_messages: bool
    ) -> Sequence[Document]:
        """Recall messages of the user that will have no content. Return the rows as they are afterwards.

        Messages that the user had recalled before lose their words in the index, as they lose their content.

        removes_messages: All messages but SYSTEM ones are recalled. Otherwise those without text, which had only files.
        """
        own = [message for message in map(message_from, rows) if message.sender == renaming.user]
        recalled = []
        for message in own:
            is_empty = bool(message.attachments) and not message.text
            if message.is_recalled or not message.kind.countable:
                continue
            if removes_messages or is_empty:
                await self._revisions.recall(message, renaming.pseudonym, self._clock.now_ms())
                recalled.append(message)
        await self._forget_words([*recalled, *(message for message in own if message.is_recalled)])
        if not recalled:
            return rows
        mentioned = {user for message in recalled for user in message.shown_mentions}
        await self._cache.run([self._sessions.apply_call(user, INVALIDATE) for user in mentioned])
        query = {"$or": [_place_of(row) for row in rows]}
        return await self._mongo.find(MESSAGES, query)

    async def _forget_words(self, messages: Sequence[Message]) -> None:
        """Remove messages from the index."""
        by_conversation: dict[ConversationId, list[MessageId]] = {}
        for message in messages:
            by_conversation.setdefault(message.conversation, []).append(message.id)
        for conversation, ids in by_conversation.items():
            if self._index is not None:
                await self._index.forget_messages(conversation, ids)

    async def remove_files(self, rows: Sequence[Document], renaming: Renaming) -> None:
        """Remove the bytes of the user's files. The sweeper removes what is still being written."""
        now_ms = self._clock.now_ms()
        own = [row for row in rows if row.get(FileField.OWNER) == renaming.user]
        change = {"$set": {FileField.STATE: FileState.REMOVED.value, FileField.REMOVE_AT: now_ms}}
        if own:
            await self._mongo.bulk_write(FILES, [UpdateOne({"_id": row["_id"]}, change) for row in own])
        for row in await self._mongo.find(FILES, {"_id": {"$in": [row["_id"] for row in own]}}) if own else []:
            begun = await self._removals.begin_removal(file_from(row), now_ms)
            if begun is not None:
                await self._blobs.delete(begun.blobs)
            if begun is not None and begun.writing_until_ms <= now_ms - WRITE_MARGIN_MS:
                await self._removals.end_removal(begun)

    async def withhold_reports(
        self, rows: Sequence[Document], renaming: Renaming, *, removes_messages: bool
    ) -> Sequence[Document]:
        """Remove the names of the user's files from reports. Return the rows as they are then.

        removes_messages: The texts of the user's messages are removed too.
        """
        changed, updates = [], []
        for row in rows:
            new = without_user_contents(row, renaming.user, keeps_texts=not removes_messages)
            changed.append(new)
            gone = {name: "" for name in row if name not in new}
            values = {name: value for name, value in new.items() if row[name] != value}
            update = {"$set": values} if values else {}
            if gone:
                update["$unset"] = gone
            if update:
                updates.append(UpdateOne({ReportField.ID: row[ReportField.ID]}, update))
        if updates:
            await self._mongo.bulk_write(REPORTS, updates)
        return changed

    async def drop_heads(self, rows: Collection[Document]) -> None:
        """Drop the heads of the conversations of changed messages, so that servers read them again."""
        for conversation in {row[MessageField.CONVERSATION] for row in rows}:
            await self._conversations.drop(ConversationId(conversation))


def _place_of(row: Document) -> Document:
    return {
        name: row[name] for name in (MessageField.ID, MessageField.CONVERSATION, MessageField.BUCKET, MessageField.SEQ)
    }
