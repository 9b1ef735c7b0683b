"""Reads rows about one user for an export: memberships, settings of sessions, reactions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from store.base.ids import ConversationId, MessageId, UserId
from store.conversations.conversation import Member, member_from
from store.mongo.client import Mongo
from store.mongo.collections import MEMBERS, REACTIONS, SESSIONS, member_row_id, reactions_of, session_row_id
from store.mongo.index_fields import BY_ID
from store.reactions.reaction_store import ReactionField
from store.sessions.fields import FIELDS, Kept, record_of
from store.sessions.session import Session

_STORED = tuple(field.stored for field in FIELDS if field.kept in (Kept.SETTING, Kept.STATE, Kept.POSITION))
_REACTIONS_PER_STEP = 2_000


class OwnReaction(NamedTuple):
    """A reaction of the user. at_ms: 0 if it is not known."""

    message: MessageId
    emoji: str
    at_ms: int


class OwnRows:
    """Reads rows of one user. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def find_memberships(
        self, user: UserId, conversations: Sequence[ConversationId]
    ) -> dict[ConversationId, Member]:
        """Return present and former memberships in groups, channels and threads. One round trip."""
        rows = {member_row_id(conversation, user): conversation for conversation in conversations}
        found = await self._mongo.find(MEMBERS, {"_id": {"$in": list(rows)}})
        return {rows[row["_id"]]: member_from(user, row) for row in found}

    async def find_sessions(
        self, user: UserId, conversations: Sequence[ConversationId]
    ) -> dict[ConversationId, Session]:
        """Return sessions with the settings and the read position of the user, as stored in the rows. One round trip.

        In private conversations the read position may be an earlier one.
        """
        rows = {session_row_id(user, conversation): conversation for conversation in conversations}
        sessions = {}
        for row in await self._mongo.find(SESSIONS, {"_id": {"$in": list(rows)}}):
            record = record_of() | {name: row[name] for name in _STORED if name in row}
            sessions[rows[row["_id"]]] = Session(user, rows[row["_id"]], record)
        return sessions

    async def list_reactions(
        self, user: UserId, conversation: ConversationId
    ) -> AsyncGenerator[list[OwnReaction], None]:
        """Yield the reactions of a user in a conversation, in the order of messages' ids. Lists may be empty.

        No index has the user of reactions, so all reactions of the conversation are read, 2,000 in each step.
        """
        query, start, end = reactions_of(conversation), len(conversation) + 1, f" {user}"
        while True:
            rows = await self._mongo.find(
                REACTIONS,
                query,
                projection={ReactionField.AT: 1},
                sort=BY_ID,
                limit=_REACTIONS_PER_STEP,
                hint=BY_ID,
            )
            own = []
            for row in rows:
                if row["_id"].endswith(end):
                    message, _, emoji = row["_id"][start : -len(end)].partition(" ")
                    own.append(OwnReaction(MessageId(int(message)), emoji, row.get(ReactionField.AT, 0)))
            yield own
            if len(rows) < _REACTIONS_PER_STEP:
                return
            query = {"_id": query["_id"] | {"$gt": rows[-1]["_id"]}}
            query["_id"].pop("$gte", None)
