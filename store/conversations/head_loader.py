"""Loads heads and memberships from MongoDB into Redis."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.base.request_user import SharedWork
from store.base.workspace_ids import workspace_of_channel
from store.blocks.block_rows import BlockRows
from store.conversations.conversation import member_from
from store.conversations.conversation_fields import MAX_PARTICIPANTS, ConversationField, HeadField, MemberField
from store.conversations.group_info import group_info_from
from store.messages.message import message_from
from store.messages.message_fields import MessageField
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, WORKSPACES, members_of
from store.mongo.index_fields import BY_ID
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS, SingleFlight, retry_until_true
from store.threads.thread_info import participants_of, settings_of_thread
from store.workspaces.workspace_fields import WorkspaceField

_NEWEST = "newest"
_NEWEST_MESSAGE = {
    "from": MESSAGES,
    "localField": "_id",
    "foreignField": MessageField.CONVERSATION,
    "pipeline": [{"$sort": {MessageField.BUCKET: -1, MessageField.SEQ: -1}}, {"$limit": 1}],
    "as": _NEWEST,
}
_WITH_MEMBERS = (ConversationKind.GROUP, ConversationKind.THREAD)


class HeadLoader:
    """Loads missing heads and memberships. One server claims a conversation, the others wait for it."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._blocks = BlockRows(mongo)
        self._flights = SingleFlight()

    async def load(self, conversations: Sequence[ConversationId], *, with_members: bool) -> set[ConversationId]:
        """Load heads, with_members also whole memberships. Return the conversations that exist."""
        if not conversations:
            return set()
        if not with_members:
            return await self._load_batch(conversations)
        scope = self._cache.request_prefix
        loads = [
            self._flights.run((scope, c), partial(self._load_batch, (c,), with_members=True)) for c in conversations
        ]
        return set().union(*await asyncio.gather(*loads))

    async def _load_batch(
        self, conversations: Sequence[ConversationId], *, with_members: bool = False
    ) -> set[ConversationId]:
        waiting = list(conversations)
        absent: set[ConversationId] = set()

        async def attempt() -> bool:
            nonlocal waiting
            token = secrets.token_hex(8)
            flag = int(with_members)
            begun = await self._cache.run(
                [Call("head_load_begin", self._keys.conversation(c), (token, CLAIM_MS, flag)) for c in waiting]
            )
            claimed = [c for c, answer in zip(waiting, begun, strict=True) if answer == b"go"]
            busy = [c for c, answer in zip(waiting, begun, strict=True) if answer == b"busy"]
            if claimed:
                # Requests of other users, and of other processes, wait for the claims.
                with SharedWork():
                    rows, members = await self.read(claimed, with_members)
                missing = [c for c in claimed if c not in rows]
                absent.update(missing)
                found = [c for c in claimed if c in rows]
                calls = [self._finish_call(token, c, rows[c], members.get(c, []), with_members) for c in found]
                calls += [Call("DEL", (self._keys.conversation(c)[3],)) for c in missing]
                done = await self._cache.run(calls)
                busy += [c for c, ok in zip(found, done, strict=False) if ok != 1]
            waiting = busy
            return not waiting

        await retry_until_true(attempt)
        return set(conversations) - absent

    async def read(
        self, conversations: Sequence[ConversationId], with_members: bool
    ) -> tuple[dict[ConversationId, Document], dict[ConversationId, list[Document]]]:
        """Return the documents of conversations with their newest messages, and memberships of the groups among them.

        Conversations that do not exist are left out. One round trip to MongoDB.
        """
        heads = self._mongo.aggregate(
            CONVERSATIONS, [{"$match": {"_id": {"$in": list(conversations)}}}, {"$lookup": _NEWEST_MESSAGE}]
        )
        groups = [c for c in conversations if kind_of(c) in _WITH_MEMBERS] if with_members else []
        threads = [c for c in conversations if kind_of(c) is ConversationKind.THREAD] if not with_members else []
        found, policy_versions, blocked, *members = await self._mongo.gather(
            heads,
            self._read_policy_versions(conversations),
            self._find_blocked(conversations),
            *(self._mongo.find(MEMBERS, members_of(c)) for c in groups),
            *(self._find_participants(c) for c in threads),
        )
        rows = {ConversationId(row["_id"]): row for row in found}
        for channel in [c for c in rows if kind_of(c) is ConversationKind.CHANNEL]:
            version = policy_versions.get(workspace_of_channel(channel))
            if version is None:
                # The workspace is deleted, and its channels with it.
                del rows[channel]
            else:
                rows[channel][HeadField.POLICY_VERSION] = version
        for private in blocked.keys() & rows.keys():
            rows[private][HeadField.BLOCKED] = "".join(f" {user} " for user in blocked[private])
        return rows, dict(zip((*groups, *threads), members, strict=True))

    async def _find_participants(self, thread: ConversationId) -> list[Document]:
        replied = members_of(thread) | {MemberField.LAST_REPLY: {"$exists": True}}
        latest_first = [(MemberField.LAST_REPLY, -1)]
        return await self._mongo.find(MEMBERS, replied, sort=latest_first, limit=MAX_PARTICIPANTS, hint=BY_ID)

    async def _find_blocked(self, conversations: Sequence[ConversationId]) -> dict[ConversationId, list[UserId]]:
        """Return the people in private conversations that the other one has blocked, for each of the conversations.

        A block that follows cancels the load, which then reads again.
        """
        pairs = {c: people[:2] for c in conversations if (people := parse_private(c)) is not None}
        if not pairs:
            return {}
        blocked_by = await self._blocks.find_within(user for pair in pairs.values() for user in pair)
        return {
            conversation: [user for user, other in (pair, pair[::-1]) if user in blocked_by.get(other, ())]
            for conversation, pair in pairs.items()
        }

    async def _read_policy_versions(self, conversations: Sequence[ConversationId]) -> dict[str, int]:
        """Return the policy versions of the workspaces that the channels among the conversations belong to.

        Deleted workspaces are left out. A change of rights that follows cancels the load, which then reads again.
        """
        channels = [c for c in conversations if kind_of(c) is ConversationKind.CHANNEL]
        if not channels:
            return {}
        workspaces = sorted({workspace_of_channel(channel) for channel in channels})
        query = {"_id": {"$in": workspaces}, WorkspaceField.DELETED_AT: {"$exists": False}}
        found = await self._mongo.find(WORKSPACES, query, projection={WorkspaceField.POLICY_VERSION: 1})
        return {row["_id"]: row[WorkspaceField.POLICY_VERSION] for row in found}

    def _finish_call(
        self, token: str, conversation: ConversationId, row: Document, members: list[Document], with_members: bool
    ) -> Call:
        fields = head_fields(row)
        start = len(conversation) + 1
        by_user = [(UserId(member["_id"][start:]), member) for member in members]
        if row[ConversationField.KIND] == "T":
            fields[HeadField.PARTICIPANTS] = orjson.dumps(participants_of(by_user))
        flat = [part for pair in fields.items() for part in pair]
        flag = int(with_members and row[ConversationField.KIND] in ("G", "T"))
        if flag:
            for user, member in by_user:
                flat += [user, member_from(user, member).to_json()]
        version = fields[ConversationField.GROUP_VERSION]
        return Call(
            "head_load_finish",
            self._keys.conversation(conversation),
            (token, flag, conversation, version, len(fields), *flat),
        )

    async def drop(self, conversation: ConversationId, taken_seq: int = 1 << 53) -> None:
        """Drop a head that contradicts MongoDB: the group differs, or a seq that the head assigned was taken."""
        await self._cache.one(Call("head_drop", self._keys.conversation(conversation), (taken_seq,)))


def head_fields(row: Document) -> dict[str, Any]:
    """Return the fields of a head in Redis, from a document that `HeadLoader.read` has returned."""
    newest = message_from(row[_NEWEST][0]) if row[_NEWEST] else None
    seq, n = row[ConversationField.SEQ], row[ConversationField.N]
    if newest:
        # A server may have died after storing a message and before updating its head, so `messages` decides.
        seq, n = max(seq, newest.seq), max(n, newest.n)
    floor_seq = row.get(ConversationField.FLOOR_SEQ, 0)
    fields: dict[str, Any] = {
        ConversationField.SEQ: seq,
        ConversationField.N: n,
        HeadField.NEWEST_SEQ: max(newest.seq if newest else 0, floor_seq),
        ConversationField.MOVED_AT: row.get(ConversationField.MOVED_AT, 0),
        ConversationField.WRITTEN_AT: row.get(ConversationField.WRITTEN_AT, 0),
        ConversationField.KIND: row[ConversationField.KIND],
        ConversationField.MEMBER_COUNT: row.get(ConversationField.MEMBER_COUNT, 0),
        HeadField.MEMBERSHIP_VERSION: secrets.randbits(40),
        HeadField.CONTENTS_VERSION: secrets.randbits(48),
        ConversationField.GROUP_VERSION: row.get(ConversationField.GROUP_VERSION, 0),
    }
    if newest and newest.seq > floor_seq:
        fields[HeadField.NEWEST] = newest.to_json()
    if floor_seq:
        fields[ConversationField.FLOOR_SEQ] = floor_seq
        fields[ConversationField.FLOOR_N] = row[ConversationField.FLOOR_N]
    if row.get(ConversationField.END):
        fields[ConversationField.END] = row[ConversationField.END]
        fields[ConversationField.ENDED_AT] = row[ConversationField.ENDED_AT]
    if row[ConversationField.KIND] in ("C", "T") and row.get(ConversationField.MENTIONS_ALL):
        fields[ConversationField.MENTIONS_ALL] = orjson.dumps(sorted(row[ConversationField.MENTIONS_ALL]))
    if row[ConversationField.KIND] == "C":
        fields[ConversationField.PIN_VERSION] = row.get(ConversationField.PIN_VERSION, 0)
        fields[HeadField.PIN_COUNT] = len(row.get(ConversationField.PINS, ()))
    for of_kind in (HeadField.POLICY_VERSION, HeadField.BLOCKED):
        if of_kind in row:
            fields[of_kind] = row[of_kind]
    if row[ConversationField.KIND] == "G":
        fields[HeadField.GROUP] = orjson.dumps(group_info_from(row).to_fields())
    if row[ConversationField.KIND] == "T":
        fields[HeadField.GROUP] = orjson.dumps(settings_of_thread(row))
        fields[HeadField.PARENT_SEQ] = newest.parent_seq if newest else 0
        fields[ConversationField.RECALLED] = row.get(ConversationField.RECALLED, 0)
    return fields
