"""Changes of reactions, stored with the summary of their message in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from store.base.errors import Refused, Superseded
from store.base.ids import ConversationId, ConversationKind, MessageId, UserId, kind_of, parse_thread
from store.messages.message import Message, message_from
from store.messages.message_fields import MessageField
from store.messages.revision_store import Revision, RevisionKind, announced, entry_fields
from store.mongo.client import Document, Mongo
from store.mongo.collections import AUDIT, MESSAGES, REACTIONS, at_place, reaction_row_id, reactions_of
from store.mongo.index_fields import BY_REACTION_ORDER
from store.reactions.reaction_draft import Reaction, ReactionChange, ReactionChangeKind, ReactionDraft, ReactionRefusal
from store.reactions.reaction_summary import MOST_NAMED
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_ROWS_PER_STEP = 1_000
"""Rows that one transaction of a clearing removes."""


class ReactionField:
    """Fields of a row in `reactions` (`_id`: "<conversation> <message> <emoji> <user>")."""

    MESSAGE = "m"
    """Snowflake, an integer."""
    EMOJI = "e"
    ORDER = "o"
    """Position among the reactions to the message. It only grows, and is never used twice."""
    AT = "at"
    """Time of the reaction (ms)."""


_F = ReactionField


class NotAnnounced(StrEnum):
    """Reasons why a change is not in the outbox, as `announce_reactions.lua` answers them."""

    NOT_LOADED = "not_loaded"
    """The conversation that decides on rights is not in the cache."""
    OUTDATED = "outdated"
    """Rights have to be judged again."""
    IN_DELIVERY = "in_delivery"
    """The message is not delivered to all users yet."""


class ChangedReactions(NamedTuple):
    """The outcome of changes.

    Attributes:
        message: The message after them; None if there is no such message.
        refusals: For each change why it was refused, or None.
        is_changed: Anything was stored.
    """

    message: Message | None
    refusals: Sequence[ReactionRefusal | None]
    is_changed: bool


class Reactor(NamedTuple):
    """A user who reacted, and the position of their reaction among those to the message."""

    user: UserId
    order: int


class _Outdated(Refused):
    """The message or its reactions are not as the transaction assumed."""


def deciding_conversation(conversation: ConversationId) -> ConversationId:
    """Return the conversation that decides who may react: of a thread its parent conversation."""
    thread = parse_thread(conversation)
    return thread.parent if thread is not None else conversation


class ReactionStore:
    """Reads and changes reactions. After every transaction the summaries equal the rows."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys

    async def announce(self, message: Message, changes: Sequence[ReactionChange]) -> Revision | NotAnnounced:
        """Put changes of a message's reactions into the outbox before they are stored, if they are allowed now.

        In groups, users have to be members. In channels, rights must not have changed since they were judged. One round
        trip.
        """
        deciding = deciding_conversation(message.conversation)
        versions = [change.judged_version for change in changes if change.judged_version is not None]
        members: dict[UserId, bool] = {}
        if kind_of(deciding) is ConversationKind.GROUP:
            for change in changes:
                is_moderation = change.kind is ReactionChangeKind.CLEAR
                members[change.user] = members.get(change.user, False) or is_moderation
        args = (
            message.conversation,
            message.seq,
            min(versions) if versions else "",
            len(members),
            *(part for user, is_moderation in members.items() for part in (user, int(is_moderation))),
            *entry_fields(message, RevisionKind.REACTIONS),
        )
        answer = await self._cache.one(Call("announce_reactions", self._keys.conversation(deciding), args))
        if answer[0] != b"ok":
            return NotAnnounced(answer[0].decode())
        return announced(message, RevisionKind.REACTIONS, answer[1])

    async def change(self, message: Message, changes: Sequence[ReactionChange], now_ms: int) -> ChangedReactions:
        """Make changes of a message's reactions, in order. Idempotent: what is so already changes nothing.

        The limits hold for the rows at the moment of the transaction, and so does that the message is not recalled.
        One transaction, and further ones if more than 1,000 reactions are cleared.

        Args:
            message: The message as it was read. If it has changed since, it is read again.
            changes: The changes.
            now_ms: The time of new reactions.

        Raises:
            Unreachable: The changes may have been stored.
        """
        known: Message | None = message
        is_changed, refusals = False, list[ReactionRefusal | None]()
        remaining = list(changes)
        while remaining:
            # A clearing is a transaction of its own, and may need several.
            is_clearing = remaining[0].kind is ReactionChangeKind.CLEAR
            step = remaining[:1] if is_clearing else _until_clearing(remaining)
            outcome, is_complete = await self._transact(message, known, step, now_ms)
            known, is_changed = outcome.message, is_changed or outcome.is_changed
            if is_complete:
                refusals += outcome.refusals
                remaining = remaining[len(step) :]
        return ChangedReactions(known, refusals, is_changed)

    async def _transact(
        self, message: Message, known: Message | None, changes: Sequence[ReactionChange], now_ms: int
    ) -> tuple[ChangedReactions, bool]:
        """Make changes in a transaction. Return also whether they are complete."""
        is_clearing = changes[0].kind is ReactionChangeKind.CLEAR
        trusted = known
        outcome: tuple[ChangedReactions, bool] | None = None

        async def work(session: Any) -> None:
            nonlocal outcome
            present = trusted or await self._find(message, session)
            refusal = (
                ReactionRefusal.GONE if present is None else ReactionRefusal.RECALLED if present.is_recalled else None
            )
            if present is None or refusal is not None:
                outcome = ChangedReactions(present, [refusal] * len(changes), False), True
            elif is_clearing:
                outcome = await self._clear(present, changes[0], session)
            else:
                outcome = await self._apply(present, changes, now_ms, session), True

        while True:
            try:
                await self._mongo.transaction(work)
                assert outcome is not None
                return outcome
            except (_Outdated, DuplicateKeyError, BulkWriteError):
                if trusted is None:
                    raise Superseded("the reactions of the message contradict its row") from None
                trusted = None

    async def _find(self, message: Message, session: Any) -> Message | None:
        query = {MessageField.ID: int(message.id), **at_place(message.conversation, message.seq)}
        row = await self._mongo.find_one(MESSAGES, query, session=session)
        return message_from(row) if row is not None else None

    async def _apply(
        self, present: Message, changes: Sequence[ReactionChange], now_ms: int, session: Any
    ) -> ChangedReactions:
        draft = ReactionDraft(present.reactions)
        unknown = draft.list_unknown(changes)
        if unknown:
            draft.note_rows(await self._find_rows(present, unknown, session))
        refusals = [draft.apply(change, now_ms) for change in changes]
        if not draft.added and not draft.removed:
            return ChangedReactions(present, refusals, False)
        version = present.reactions_version + 1
        if draft.removed:
            ids = [_row_id(present, reaction) for reaction in draft.removed]
            if await self._mongo.delete_ids(REACTIONS, ids, session=session) < len(ids):
                raise _Outdated
        if draft.added:
            rows = [
                _row(present, reaction, version + i, at_ms) for i, (reaction, at_ms) in enumerate(draft.added.items())
            ]
            await self._mongo.insert_many(REACTIONS, rows, session=session)
            version += len(rows)
        for emoji in draft.list_unnamed():
            first = await self.list_reactors(present, emoji, 0, MOST_NAMED, session=session)
            draft.name(emoji, [reactor.user for reactor in first])
        return ChangedReactions(await self._update(present, draft, version, session), refusals, True)

    async def _clear(self, present: Message, change: ReactionChange, session: Any) -> tuple[ChangedReactions, bool]:
        """Remove the last reactions, at most 1,000."""
        draft = ReactionDraft(present.reactions)
        ids, left = list[str](), 0
        for summary in present.reactions:
            if change.emoji not in (None, summary.emoji):
                continue
            count = min(summary.user_count, _ROWS_PER_STEP - len(ids))
            if count:
                ids += await self._list_last(present, summary.emoji, count, session)
                draft.cut(summary.emoji, count)
            left += summary.user_count - count
        if not ids:
            return ChangedReactions(present, [None], False), True
        if await self._mongo.delete_ids(REACTIONS, ids, session=session) < len(ids):
            raise _Outdated
        if change.audit is not None:
            # Further transactions of the same clearing find it.
            entry = UpdateOne({"_id": change.audit["_id"]}, {"$setOnInsert": change.audit}, upsert=True)
            await self._mongo.bulk_write(AUDIT, [entry], session=session)
        written = await self._update(present, draft, present.reactions_version + 1, session)
        return ChangedReactions(written, [None], True), not left

    async def _list_last(self, message: Message, emoji: str, count: int, session: Any) -> list[str]:
        rows = await self._mongo.find(
            REACTIONS,
            _with_emoji(message, emoji),
            projection={"_id": 1},
            sort=[(_F.ORDER, -1)],
            limit=count,
            hint=BY_REACTION_ORDER,
            session=session,
        )
        if len(rows) < count:
            raise _Outdated
        return [row["_id"] for row in rows]

    async def _update(self, present: Message, draft: ReactionDraft, version: int, session: Any) -> Message:
        """Store the summaries, if the message is as it was read and not recalled. Raises _Outdated."""
        draft.limit_keys()
        query = {
            MessageField.ID: int(present.id),
            **at_place(present.conversation, present.seq),
            MessageField.RECALLED_AT: {"$exists": False},
            MessageField.REACTIONS_VERSION: present.reactions_version or {"$exists": False},
        }
        fields: Document = {MessageField.REACTIONS_VERSION: version}
        update: Document = {"$set": fields}
        if draft.summaries:
            fields[MessageField.REACTIONS] = [summary.to_stored() for summary in draft.summaries]
        else:
            update["$unset"] = {MessageField.REACTIONS: ""}
        row = await self._mongo.find_one_and_update(MESSAGES, query, update, after=True, session=session)
        if row is None:
            raise _Outdated
        return message_from(row)

    async def _find_rows(
        self, message: Message, reactions: Sequence[Reaction], session: Any = None
    ) -> dict[Reaction, bool]:
        ids = {_row_id(message, reaction): reaction for reaction in reactions}
        rows = await self._mongo.find(REACTIONS, {"_id": {"$in": list(ids)}}, projection={"_id": 1}, session=session)
        found = {row["_id"] for row in rows}
        return {reaction: id in found for id, reaction in ids.items()}

    async def find_reacted(
        self, reactions: Collection[tuple[Message, str, UserId]]
    ) -> set[tuple[MessageId, str, UserId]]:
        """Return those of some reactions (message, emoji, user) that exist. One round trip."""
        ids = {
            reaction_row_id(message.conversation, message.id, emoji, user): (message.id, emoji, user)
            for message, emoji, user in reactions
        }
        rows = await self._mongo.find(REACTIONS, {"_id": {"$in": list(ids)}}, projection={"_id": 1}) if ids else []
        return {ids[row["_id"]] for row in rows}

    async def list_reactors(
        self, message: Message, emoji: str, after: int, limit: int, *, session: Any = None
    ) -> list[Reactor]:
        """Return users who reacted with an emoji after a position, in the order of their reactions. One round trip."""
        query = _with_emoji(message, emoji) | {_F.ORDER: {"$gt": after}}
        rows = await self._mongo.find(
            REACTIONS,
            query,
            projection={_F.ORDER: 1},
            sort=[(_F.ORDER, 1)],
            limit=limit,
            hint=BY_REACTION_ORDER,
            session=session,
        )
        return [Reactor(UserId(row["_id"].rpartition(" ")[2]), row[_F.ORDER]) for row in rows]


def _until_clearing(changes: Sequence[ReactionChange]) -> list[ReactionChange]:
    """Return the changes before the first clearing."""
    kinds = [change.kind for change in changes]
    end = kinds.index(ReactionChangeKind.CLEAR) if ReactionChangeKind.CLEAR in kinds else len(kinds)
    return list(changes[:end])


def _row_id(message: Message, reaction: Reaction) -> str:
    return reaction_row_id(message.conversation, message.id, *reaction)


def _row(message: Message, reaction: Reaction, order: int, at_ms: int) -> Document:
    return {
        "_id": _row_id(message, reaction),
        _F.MESSAGE: int(message.id),
        _F.EMOJI: reaction[0],
        _F.ORDER: order,
        _F.AT: at_ms,
    }


def _with_emoji(message: Message, emoji: str) -> Document:
    """Return the query for the reactions to a message with an emoji. The conversation leads to their shard."""
    query = reactions_of(message.conversation, message.id, emoji)
    return query | {_F.MESSAGE: int(message.id), _F.EMOJI: emoji}
