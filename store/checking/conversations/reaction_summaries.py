"""Check of the summaries of reactions in messages against the rows of reactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import groupby
from typing import Any, ClassVar

from store.base.ids import ConversationId, MessageId, UserId, message_id, parse_message_id
from store.checking.check import Difference, Objects, Scope
from store.checking.conversations.stored_messages import message_pages
from store.messages.message_fields import MessageField
from store.mongo.client import Document
from store.mongo.collections import MESSAGES, REACTIONS, at_place, reactions_of
from store.mongo.index_fields import BY_ID
from store.reactions.reaction_draft import ReactionDraft
from store.reactions.reaction_store import ReactionField
from store.reactions.reaction_summary import MOST_NAMED, ReactionSummary, join_keys, summaries_from
from store.store import Store

_M, _R = MessageField, ReactionField
_FIELD = "reactions to "
_ROWS = 2_000
_FIELDS = (_M.CONVERSATION, _M.SEQ, _M.REACTIONS, _M.REACTIONS_VERSION)


class ReactionSummaries:
    """Each message has a summary for each emoji of its reactions: their number, and the users in order.

    When an emoji was first used is a record of its own, because the user who did so may take the reaction back.
    """

    name: ClassVar[str] = "reactions"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some conversations: those of messages with rows, and of messages without."""
        found = []
        for conversation in map(ConversationId, ids):
            async for rows in self._rows_by_message(conversation):
                found += await self._compare_rows(conversation, rows)
            # The rows of a copy are those of its reply.
            condition = {_M.REACTIONS: {"$exists": True}, _M.BROADCAST_OF: {"$exists": False}}
            async for page in message_pages(self._store.mongo, conversation, _FIELDS, condition):
                found += await self._find_without_rows(conversation, page)
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Make the summaries again, in transactions that conflict with changes of reactions. Drop the cached head.

        Without the head, no server uses messages that it keeps in memory.
        """
        conversation = ConversationId(object_id)
        for difference in differences:
            message = parse_message_id(difference.field.removeprefix(_FIELD))
            if message is not None:
                await self._repair(conversation, message)
                await self._repair_copy(conversation, message)
        await self._store.conversations.drop(conversation)

    async def _repair(self, conversation: ConversationId, message: MessageId) -> None:
        async def work(session: Any) -> None:
            found = await self._find_messages(conversation, [message], session)
            if not found:
                return
            rows = await self._store.mongo.find(REACTIONS, reactions_of(conversation, message), session=session)
            stored = summaries_from(found[message].get(_M.REACTIONS, ()))
            summaries = _make_again(stored, _expected(rows))
            place = {_M.ID: int(message), **at_place(conversation, found[message][_M.SEQ])}
            update: Document = {"$inc": {_M.REACTIONS_VERSION: 1}, "$unset": {_M.REACTIONS: ""}}
            if summaries:
                kept = [summary.to_stored() for summary in summaries]
                update = {"$inc": {_M.REACTIONS_VERSION: 1}, "$set": {_M.REACTIONS: kept}}
            await self._store.mongo.find_one_and_update(MESSAGES, place, update, session=session)

        await self._store.mongo.transaction(work)

    async def _repair_copy(self, conversation: ConversationId, message: MessageId) -> None:
        """Let the copy of a reply follow the repaired summaries."""
        reply = await self._store.messages.find_in_conversation(conversation, message)
        copy = await self._store.copies.update(reply) if reply is not None and reply.is_broadcast else None
        if copy is not None:
            await self._store.conversations.drop(copy.conversation)

    async def _rows_by_message(self, conversation: ConversationId) -> AsyncIterator[dict[MessageId, list[Document]]]:
        """Yield the rows of some messages at once, with all rows of each."""
        query, rows = reactions_of(conversation), list[Document]()
        while True:
            page = await self._store.mongo.find(REACTIONS, query, sort=BY_ID, limit=_ROWS)
            rows += page
            messages = {
                message: list(group) for message, group in groupby(rows, lambda row: MessageId(row[_R.MESSAGE]))
            }
            if len(page) < _ROWS:
                yield messages
                return
            # The last message may have more rows.
            _, rows = messages.popitem()
            yield messages
            query = {"_id": {"$gt": page[-1]["_id"], "$lt": f"{conversation}!"}}

    async def _compare_rows(
        self, conversation: ConversationId, rows: dict[MessageId, list[Document]]
    ) -> list[Difference]:
        messages = await self._find_messages(conversation, rows)
        return [
            self._difference(conversation, message, stored, expected)
            for message, group in rows.items()
            if not _agree(
                stored := summaries_from(messages.get(message, {}).get(_M.REACTIONS, ())), expected := _expected(group)
            )
        ]

    async def _find_without_rows(self, conversation: ConversationId, page: Sequence[Document]) -> list[Difference]:
        in_page = {_R.MESSAGE: {"$in": [message[_M.ID] for message in page]}, **reactions_of(conversation)}
        group = {"$group": {"_id": f"${_R.MESSAGE}"}}
        rows = await self._store.mongo.aggregate(REACTIONS, [{"$match": in_page}, group])
        with_rows = {row["_id"] for row in rows}
        return [
            self._difference(conversation, MessageId(message[_M.ID]), summaries_from(message[_M.REACTIONS]), ())
            for message in page
            if message[_M.ID] not in with_rows and message[_M.REACTIONS]
        ]

    async def _find_messages(
        self, conversation: ConversationId, messages: Iterable[MessageId], session: Any = None
    ) -> dict[MessageId, Document]:
        query = {_M.CONVERSATION: conversation, _M.ID: {"$in": list(map(int, messages))}}
        rows = await self._store.mongo.find(MESSAGES, query, projection=dict.fromkeys(_FIELDS, 1), session=session)
        return {MessageId(row[_M.ID]): row for row in rows}

    def _difference(
        self,
        conversation: ConversationId,
        message: MessageId,
        stored: Sequence[ReactionSummary],
        expected: Sequence[ReactionSummary],
    ) -> Difference:
        field = f"{_FIELD}{message_id(message)}"
        return Difference(self.name, conversation, field, _shown(stored), _shown(expected))


def _expected(rows: Iterable[Document]) -> tuple[ReactionSummary, ...]:
    """Return the summaries of a message by its rows, with the keys of all users, by emoji."""
    by_emoji: dict[str, list[Document]] = {}
    for row in rows:
        by_emoji.setdefault(row[_R.EMOJI], []).append(row)
    summaries = []
    for emoji, group in by_emoji.items():
        group.sort(key=lambda row: int(row[_R.ORDER]))
        users = [UserId(row["_id"].rpartition(" ")[2]) for row in group]
        first_at_ms = min(row[_R.AT] for row in group)
        keys = join_keys(users[MOST_NAMED:])
        summaries.append(ReactionSummary(emoji, len(users), tuple(users[:MOST_NAMED]), first_at_ms, keys))
    return tuple(summaries)


def _agree(stored: Sequence[ReactionSummary], expected: Sequence[ReactionSummary]) -> bool:
    """Return whether summaries are those expected. They have no keys if there would be too many."""
    by_emoji = {summary.emoji: summary for summary in expected}
    return len(stored) == len(expected) and all(_agrees(summary, by_emoji.get(summary.emoji)) for summary in stored)


def _agrees(stored: ReactionSummary, expected: ReactionSummary | None) -> bool:
    if expected is None:
        return False
    is_same = (stored.user_count, tuple(stored.users)) == (expected.user_count, expected.users)
    return is_same and stored.keys in ("", expected.keys)


def _make_again(stored: Sequence[ReactionSummary], expected: Sequence[ReactionSummary]) -> tuple[ReactionSummary, ...]:
    """Return the expected summaries with the times of those that are stored, in the order of times."""
    times = {summary.emoji: summary.first_at_ms for summary in stored}
    made = [summary._replace(first_at_ms=times.get(summary.emoji, summary.first_at_ms)) for summary in expected]
    draft = ReactionDraft(sorted(made, key=lambda summary: summary.first_at_ms))
    draft.limit_keys()
    return draft.summaries


def _shown(summaries: Sequence[ReactionSummary]) -> list[tuple[str, int, list[UserId]]]:
    return sorted((summary.emoji, summary.user_count, list(summary.users)) for summary in summaries)
