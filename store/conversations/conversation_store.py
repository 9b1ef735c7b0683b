"""Heads and memberships in Redis, read from MongoDB on a miss."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import orjson
from pymongo import UpdateOne

from store.base.counters import HitCounter
from store.base.errors import Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.conversations.conversation import GroupSnapshot, Head, Member, member_from
from store.conversations.conversation_fields import ConversationField, HeadField
from store.conversations.departures import Departures
from store.conversations.head_loader import HeadLoader
from store.conversations.heads.head_records import decode_head, head_fields, is_cached
from store.conversations.memberships import Memberships
from store.conversations.recipient_lists import RecipientList, RecipientLists, recipient_list
from store.mongo.client import Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, SESSIONS, member_row_id, session_row_id
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.changes import new_row

_MAX_HEADS = 4_000
"""Decoded heads that a process keeps. Each takes some kilobytes at most."""

_READS = 10
"""Attempts to read a conversation that Redis evicts right after it was loaded."""


class ConversationStore:
    """Reads conversations. `heads` and `groups` count cache hits; `groups` those of heads with their memberships."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._loader = HeadLoader(mongo, cache, keys)
        self._recipient_lists = RecipientLists()
        self._memberships = Memberships()
        self._departures = Departures(mongo)
        self._heads: dict[ConversationId, tuple[Sequence[bytes | None], Head]] = {}
        self.heads = HitCounter()
        self.groups = HitCounter()

    async def find_many(self, conversations: Iterable[ConversationId]) -> dict[ConversationId, Head]:
        """Return the heads of the conversations that exist: one round trip to Redis if all are cached."""
        wanted = list(dict.fromkeys(conversations))
        heads: dict[ConversationId, Head] = {}
        for _ in range(_READS):
            missing = await self._read_into(heads, wanted)
            existing = await self.load(missing, with_members=False)
            wanted = [c for c in missing if c in existing]
            if not wanted:
                return heads
        raise _eviction_error()

    async def find(self, conversation: ConversationId) -> Head | None:
        """Return one head, or None if the conversation does not exist."""
        return (await self.find_many((conversation,))).get(conversation)

    async def _read_into(
        self, heads: dict[ConversationId, Head], wanted: Sequence[ConversationId]
    ) -> list[ConversationId]:
        """Add the heads that are cached. Return the conversations of the others."""
        if not wanted:
            return []
        calls = [Call("HMGET", (self._keys.head(c),), head_fields(c)) for c in wanted]
        rows = await self._cache.run(calls)
        missing = []
        for conversation, row in zip(wanted, rows, strict=True):
            if is_cached(row):
                heads[conversation] = self._head_from(conversation, row)
            else:
                missing.append(conversation)
        self.heads.misses += len(missing)
        self.heads.hits += len(wanted) - len(missing)
        return missing

    async def load(self, conversations: Sequence[ConversationId], *, with_members: bool) -> set[ConversationId]:
        """Load heads, with_members also whole memberships. Return the conversations that exist."""
        return await self._loader.load(conversations, with_members=with_members)

    async def drop(self, conversation: ConversationId, taken_seq: int = 1 << 53) -> None:
        """Drop a head that contradicts MongoDB: the group differs, or a seq that the head assigned was taken."""
        await self._loader.drop(conversation, taken_seq)

    async def open_private(self, conversation: ConversationId, now_ms: int) -> None:
        """Create both people's sessions, then the private conversation. None is visible before the first message.

        Idempotent. A conversation that exists has its sessions: it is not opened again.
        """
        people = parse_private(conversation)
        assert people is not None
        head = {
            ConversationField.KIND: "P",
            ConversationField.SEQ: 0,
            ConversationField.N: 0,
            ConversationField.MOVED_AT: now_ms,
            ConversationField.WRITTEN_AT: 0,
        }
        sessions = [
            UpdateOne({"_id": session_row_id(user, conversation)}, {"$setOnInsert": new_row(0)}, upsert=True)
            for user in people[:2]
        ]
        await self._mongo.bulk_write(SESSIONS, sessions)
        await self._mongo.update_one(CONVERSATIONS, {"_id": conversation}, {"$setOnInsert": head}, upsert=True)

    async def find_with_member(
        self, viewer: UserId, conversations: Iterable[ConversationId]
    ) -> dict[ConversationId, tuple[Head, Member | None]]:
        """Return conversations as the viewer may see them, groups with the viewer's membership.

        A former member sees a group as it was when they left: see `Departures`. Groups that the viewer never was in are
        left out. They take the same round trips as groups that do not exist: one to Redis and one to MongoDB. Threads
        that are not cached are left out, because the viewer may not see them. All other conversations take one round
        trip to Redis if they are cached; two after a change of a membership that this process knows.
        """
        wanted = list(dict.fromkeys(conversations))
        found: dict[ConversationId, tuple[Head, Member | None]] = {}
        for _ in range(_READS):
            missing = await self._read_with_member(viewer, wanted, found)
            groups = await self.list_joined(viewer, [c for c in missing if kind_of(c) is ConversationKind.GROUP])
            others = [c for c in missing if kind_of(c) not in (ConversationKind.GROUP, ConversationKind.THREAD)]
            loads = (self.load(groups, with_members=True), self.load(others, with_members=False))
            wanted = list(set().union(*await asyncio.gather(*loads)))
            if not wanted:
                await self._departures.show_to_former_members(found)
                return found
        raise _eviction_error()

    async def list_joined(self, user: UserId, groups: Sequence[ConversationId]) -> list[ConversationId]:
        """Return the groups that a user is or was a member of. One round trip to MongoDB."""
        if not groups:
            return []
        rows = {member_row_id(group, user): group for group in groups}
        found = await self._mongo.find(MEMBERS, {"_id": {"$in": list(rows)}}, projection={"_id": 1})
        return [rows[row["_id"]] for row in found]

    async def _read_with_member(
        self,
        viewer: UserId,
        wanted: Sequence[ConversationId],
        found: dict[ConversationId, tuple[Head, Member | None]],
    ) -> list[ConversationId]:
        """Add cached conversations to `found`. Return the conversations of which a part is missing."""
        kinds = [kind_of(conversation) for conversation in wanted]
        calls = [
            Call(
                "HMGET",
                (self._keys.head(conversation),),
                (*head_fields(conversation), HeadField.MEMBERSHIP_VERSION),
            )
            if kind is not ConversationKind.GROUP or self._memberships.has(conversation, viewer)
            else Call(
                "read_membership",
                self._keys.conversation(conversation)[:2],
                (viewer, HeadField.MEMBERS_TOTAL, *head_fields(conversation), HeadField.MEMBERSHIP_VERSION),
            )
            for conversation, kind in zip(wanted, kinds, strict=True)
        ]
        answers = await self._cache.run(calls) if calls else []
        missing: list[ConversationId] = []
        outdated: list[ConversationId] = []
        for conversation, kind, call, answer in zip(wanted, kinds, calls, answers, strict=True):
            if call.name != "HMGET":
                if not self._take_membership(viewer, conversation, answer, found):
                    missing.append(conversation)
                continue
            version, is_group = answer.pop(), kind is ConversationKind.GROUP
            known = self._memberships.take(conversation, viewer, version) if is_group else None
            counter = self.groups if is_group else self.heads
            if not is_cached(answer):
                missing.append(conversation)
                counter.misses += 1
            elif is_group and known is None:
                outdated.append(conversation)
            else:
                found[conversation] = self._head_from(conversation, answer), known
                counter.hits += 1
        if outdated:
            missing += await self._read_with_member(viewer, outdated, found)
        return missing

    def _take_membership(
        self,
        viewer: UserId,
        group: ConversationId,
        answer: list[Any],
        found: dict[ConversationId, tuple[Head, Member | None]],
    ) -> bool:
        """Add a group as `read_membership` returned it, and remember the membership. False if it found none."""
        if answer[0] != b"found":
            self.groups.misses += 1
            return False
        _, text, *row, version = answer
        self.groups.hits += 1
        head = self._head_from(group, row)
        member = member_from(viewer, orjson.loads(text))
        self._memberships.remember(group, viewer, version, member)
        found[group] = head, member
        return True

    def _head_from(self, conversation: ConversationId, row: Sequence[bytes | None]) -> Head:
        """Return the decoded head, or the same object as before if nothing changed, as for most heads in lists."""
        known = self._heads.get(conversation)
        if known is not None and known[0] == row:
            return known[1]
        if len(self._heads) >= _MAX_HEADS:
            self._heads.pop(next(iter(self._heads)))
        head = decode_head(conversation, row)
        self._heads[conversation] = (row, head)
        return head

    async def find_group_snapshot(
        self, group: ConversationId, users: Sequence[UserId], *, for_member: UserId | None = None
    ) -> GroupSnapshot | None:
        """Return a group with the memberships of some users, including a pending change.

        None if the group does not exist. One round trip if everything is cached.

        for_member: One of the users. None is returned if they never were in the group, after the same round trips as
        for a group that does not exist.
        """
        for _ in range(_READS):
            (snapshot,) = await self._read_snapshots([group], users)
            is_known = for_member is None or (snapshot is not None and for_member in snapshot.members)
            if not is_known and for_member is not None and not await self.list_joined(for_member, [group]):
                return None
            if snapshot is not None:
                return snapshot
            if not await self.load((group,), with_members=True):
                return None
        raise _eviction_error()

    async def find_snapshots(
        self, conversations: Iterable[ConversationId], users: Sequence[UserId]
    ) -> dict[ConversationId, GroupSnapshot]:
        """Return groups or threads that exist, each with the memberships of some users, including a pending change.

        One round trip for all if everything is cached.
        """
        wanted = list(dict.fromkeys(conversations))
        found: dict[ConversationId, GroupSnapshot] = {}
        for _ in range(_READS):
            if not wanted:
                return found
            read = zip(wanted, await self._read_snapshots(wanted, users), strict=True)
            found |= {conversation: snapshot for conversation, snapshot in read if snapshot is not None}
            wanted = list(await self.load([c for c in wanted if c not in found], with_members=True))
        raise _eviction_error()

    async def _read_snapshots(
        self, conversations: Sequence[ConversationId], users: Sequence[UserId]
    ) -> list[GroupSnapshot | None]:
        """Return each group or thread if it is completely cached. One round trip."""
        calls: list[Call] = []
        for conversation in conversations:
            head_key, members_key, *_ = self._keys.conversation(conversation)
            fields = (HeadField.MEMBERSHIP_VERSION, HeadField.MEMBERS_TOTAL, *head_fields(conversation))
            calls += [
                Call("HMGET", (head_key,), fields),
                Call("HMGET", (members_key,), tuple(users)),
                Call("HLEN", (members_key,)),
            ]
        answers = await self._cache.run(calls)
        snapshots: list[GroupSnapshot | None] = []
        for i, conversation in enumerate(conversations):
            (version, total, *row), texts, cached = answers[3 * i : 3 * i + 3]
            if not is_cached(row) or int(total or -1) != cached:
                snapshots.append(None)
                continue
            head = self._head_from(conversation, row)
            members = {
                user: _decode_member(head.ended_at, user, text)
                for user, text in zip(users, texts, strict=True)
                if text is not None
            }
            snapshots.append(GroupSnapshot(version.decode(), head, members))
        return snapshots

    async def list_members(self, conversation: ConversationId) -> list[Member]:
        """Return all memberships of a group, current and former, ordered by user id."""
        head_key, members_key, *_ = self._keys.conversation(conversation)
        fields = (HeadField.MEMBERS_TOTAL, ConversationField.ENDED_AT)
        calls = [Call("HMGET", (head_key,), fields), Call("HGETALL", (members_key,))]
        for _ in range(_READS):
            (total, ended), flat = await self._cache.run(calls)
            pairs = list(flat.items()) if isinstance(flat, dict) else list(zip(flat[::2], flat[1::2], strict=True))
            if total is not None and int(total) == len(pairs):
                ended_at = int(ended) if ended is not None else None
                found = [_decode_member(ended_at, UserId(user.decode()), text) for user, text in pairs]
                return sorted(found, key=lambda member: member.user)
            if not await self.load((conversation,), with_members=True):
                return []
        raise _eviction_error()

    async def list_recipients(self, conversation: ConversationId, version: str, seq: int) -> Sequence[UserId]:
        """Return the recipients of a message that was reserved with a seq under a version of the membership.

        No round trip if this process knows that version. If the version is "" (not known), the membership is read.
        """
        people = parse_private(conversation)
        if people is not None:
            return people[:2]
        # The membership may be newer than the version: seq separates later joins and departures.
        return (await self.find_recipient_list(conversation, version)).members_at(seq)

    async def list_current_members(
        self, groups: Sequence[ConversationId], max_members: int | None = None
    ) -> dict[ConversationId, list[UserId]]:
        """Return the members of groups: one round trip to Redis if this process knows them, else two.

        max_members: Limit for the members of all returned groups together. The largest groups are left out.
        """
        fields = (ConversationField.MEMBER_COUNT, HeadField.MEMBERSHIP_VERSION)
        wanted, sizes = list(groups), list[tuple[int, ConversationId, str]]()
        for _ in range(_READS):
            calls = [Call("HMGET", (self._keys.conversation(group)[0],), fields) for group in wanted]
            rows = dict(zip(wanted, await self._cache.run(calls) if calls else [], strict=True))
            sizes += [(int(n), group, (version or b"").decode()) for group, (n, version) in rows.items() if n]
            missing = [group for group, (n, _) in rows.items() if not n]
            wanted = list(await self.load(missing, with_members=False)) if missing else []
            if not wanted:
                break
        sizes.sort()
        totals = accumulate(size for size, _, _ in sizes)
        chosen = [
            (group, version)
            for (_, group, version), total in zip(sizes, totals, strict=True)
            if max_members is None or total <= max_members
        ]
        found = await asyncio.gather(*(self.find_recipient_list(group, version) for group, version in chosen))
        return {group: known.current_members() for (group, _), known in zip(chosen, found, strict=True)}

    async def find_present_members(self, group: ConversationId) -> RecipientList:
        """Return the present members of a group, or followers of a thread.

        One round trip to Redis if this process knows them, else two.
        """
        read_version = Call("HMGET", (self._keys.head(group),), (HeadField.MEMBERSHIP_VERSION,))
        ((version,),) = await self._cache.run([read_version])
        return await self.find_recipient_list(group, (version or b"").decode())

    async def find_recipient_list(self, group: ConversationId, version: str) -> RecipientList:
        """Return the members of a group, or followers of a thread, under a version of the membership, or a later one.

        No round trip if this process knows those of that version. If the version is "" (not known), they are read.
        """
        known = self._recipient_lists.find(group, version)
        if known is None:
            known = recipient_list(version, await self.list_members(group))
            if version:
                self._recipient_lists.remember(group, known)
        return known


def _eviction_error() -> Unreachable:
    return Unreachable("Redis evicts conversations as soon as they are loaded: give it more memory")


def _decode_member(ended_at: int | None, user: UserId, text: bytes) -> Member:
    member = member_from(user, orjson.loads(text))
    return member if ended_at is None else member.ended_at(ended_at)
