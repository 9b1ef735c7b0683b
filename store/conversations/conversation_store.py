"""Conversations: heads and memberships.

`conversations` {_id, k (P or G), s, n, at, w (ms: newest commit, newest countable one's), r0 r1 d0 d1 (private: how far
the first and second person have read and received; q0 m0 q1 m1: seq and n of the newest message that each wrote), and of groups: name, av, own, hv (full history), by, ct (ms), mc (members),
sb (subBiz), gv (changes so far), gi and ga (id and ms of the last), st (D: dissolved, X: dismissed), ds (at which seq), dt (ms)}; ma: seqs of the
newest messages that mention everybody.
`members` {_id: "<conversation> <user>", r role, i intervals, j joined (ms), ad ar (how far the member has received and read,
as the senders know it)}: its one index finds and guards both.
The newest message is not kept in the head: it is read from `messages`, so the two can't disagree.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import orjson
from pymongo import UpdateOne

from store.base.counters import HitCounter
from store.base.errors import Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of, parse_private
from store.conversations.group_changes import DISMISSED
from store.conversations.records import GroupInfo, Head, Member, member_from
from store.messages.records import Message, message_from
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, MEMBERS, SESSIONS, members_of, session_row_id
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS, SingleFlight, retry_until_true
from store.sessions.changes import new_row

_HEAD_FIELDS = ("ls", "last", "mc", "j", "k", "st", "ds")
_MEMBER_LISTS = 2_000
_HEADS = 4_000
"""Conversations whose heads a process keeps as it read them last, some kilobytes each at the most."""

_READS = 10


def group_info_from(row: Document) -> GroupInfo:
    """What a group keeps about itself, from its document."""
    return GroupInfo(
        name=row["name"],
        avatar_url=row.get("av"),
        owner=UserId(row["own"]),
        full_history=bool(row.get("hv")),
        created_at_ms=row["ct"],
        sub_biz=row.get("sb"),
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """A group and memberships in it at one moment. `version`: a change decided on it is made only while it is so."""

    version: str
    head: Head
    members: dict[UserId, Member]


class ConversationStore:
    """Heads and memberships in Redis, read from MongoDB on a miss."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._flights = SingleFlight()
        self.heads = HitCounter()
        self.groups = HitCounter()
        """With their memberships."""
        self._member_lists: dict[ConversationId, _MemberList] = {}
        self._heads: dict[ConversationId, tuple[Sequence[bytes | None], Head]] = {}

    async def find_many(self, conversations: Iterable[ConversationId]) -> dict[ConversationId, Head]:
        """Heads of those that exist: one round trip to Redis where all are cached."""
        wanted = list(dict.fromkeys(conversations))
        heads: dict[ConversationId, Head] = {}
        for _ in range(_READS):
            missing = await self._read_into(heads, wanted)
            existing = await self.load(missing, with_members=False)
            wanted = [c for c in missing if c in existing]
            if not wanted:
                return heads
        raise _not_kept()

    async def find(self, conversation: ConversationId) -> Head | None:
        """One head, or None where there is no such conversation."""
        return (await self.find_many((conversation,))).get(conversation)

    async def _read_into(
        self, heads: dict[ConversationId, Head], wanted: Sequence[ConversationId]
    ) -> list[ConversationId]:
        if not wanted:
            return []
        rows = await self._cache.run([Call("HMGET", (self._keys.conversation(c)[0],), _HEAD_FIELDS) for c in wanted])
        missing = []
        for conversation, row in zip(wanted, rows, strict=True):
            if row[0] is None:
                missing.append(conversation)
            else:
                heads[conversation] = self._head_from(conversation, row)
        self.heads.misses += len(missing)
        self.heads.hits += len(wanted) - len(missing)
        return missing

    async def load(self, conversations: Sequence[ConversationId], *, with_members: bool) -> set[ConversationId]:
        """Reads heads (and whole memberships) into the cache. Answers which of the conversations exist."""
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
            ours = [c for c, answer in zip(waiting, begun, strict=True) if answer == b"go"]
            busy = [c for c, answer in zip(waiting, begun, strict=True) if answer == b"busy"]
            if ours:
                rows, members = await self._read_mongo(ours, with_members)
                gone = [c for c in ours if c not in rows]
                absent.update(gone)
                finish = [self._finish(token, c, rows[c], members.get(c, []), with_members) for c in ours if c in rows]
                finish += [Call("DEL", (self._keys.conversation(c)[3],)) for c in gone]
                done = await self._cache.run(finish)
                busy += [c for c, ok in zip([c for c in ours if c in rows], done, strict=False) if ok != 1]
            waiting = busy
            return not waiting

        await retry_until_true(attempt)
        return set(conversations) - absent

    async def _read_mongo(
        self, conversations: Sequence[ConversationId], with_members: bool
    ) -> tuple[dict[ConversationId, Document], dict[ConversationId, list[Document]]]:
        newest = {
            "from": "messages",
            "localField": "_id",
            "foreignField": "c",
            "pipeline": [{"$sort": {"b": -1, "s": -1}}, {"$limit": 1}],
            "as": "newest",
        }
        heads = self._mongo.aggregate(
            CONVERSATIONS, [{"$match": {"_id": {"$in": list(conversations)}}}, {"$lookup": newest}]
        )
        groups = [c for c in conversations if kind_of(c) is ConversationKind.GROUP] if with_members else []
        results = await self._mongo.gather(heads, *(self._mongo.find(MEMBERS, members_of(c)) for c in groups))
        rows = {ConversationId(row["_id"]): row for row in results[0]}
        return rows, dict(zip(groups, results[1:], strict=True))

    def _finish(
        self, token: str, conversation: ConversationId, row: Document, members: list[Document], flag: bool
    ) -> Call:
        newest = message_from(row["newest"][0]) if row["newest"] else None
        # A message may be durable whose head was not written any more: what is in `messages` counts.
        seq, n = (max(row["s"], newest.seq), max(row["n"], newest.n)) if newest else (row["s"], row["n"])
        fields: dict[str, Any] = {
            "s": seq, "n": n, "ls": newest.seq if newest else 0, "at": row.get("at", 0), "w": row.get("w", 0),
            "k": row["k"], "mc": row.get("mc", 0), "mv": secrets.randbits(40), "gv": row.get("gv", 0),
        }  # fmt: skip
        if newest:
            fields["last"] = newest.to_json()
        if row.get("st"):
            fields |= {"st": row["st"], "ds": row["ds"]}
        if row["k"] == "G":
            info = {name: row[name] for name in ("name", "own", "ct", "hv", "av", "sb") if name in row}
            fields["j"] = orjson.dumps(info)
        flat = [part for pair in fields.items() for part in pair]
        start = len(conversation) + 1
        for member in members:
            user = UserId(member["_id"][start:])
            flat += [user, member_from(user, member).to_json()]
        return Call(
            "head_load_finish",
            self._keys.conversation(conversation),
            (token, int(flag and row["k"] == "G"), conversation, fields["gv"], len(fields), *flat),
        )

    async def drop(self, conversation: ConversationId, taken_seq: int = 1 << 53) -> None:
        """MongoDB holds another message at a seq that this head gave out, or another group: forget the head."""
        await self._cache.one(Call("head_drop", self._keys.conversation(conversation), (taken_seq,)))

    async def open_private(self, conversation: ConversationId, now_ms: int) -> None:
        """Makes a private conversation and both people's sessions exist. Nobody sees it before its first message.

        Idempotent, and safe to leave half done.
        """
        people = parse_private(conversation)
        assert people is not None
        fresh = new_row(0)
        await self._mongo.gather(
            self._mongo.bulk_write(
                SESSIONS,
                [
                    UpdateOne({"_id": session_row_id(u, conversation)}, {"$setOnInsert": fresh}, upsert=True)
                    for u in people[:2]
                ],
            ),
            self._mongo.update_one(
                CONVERSATIONS,
                {"_id": conversation},
                {"$setOnInsert": {"k": "P", "s": 0, "n": 0, "at": now_ms, "w": 0}},
                upsert=True,
            ),
        )

    async def find_with_member(
        self, viewer: UserId, conversations: Iterable[ConversationId]
    ) -> dict[ConversationId, tuple[Head, Member | None]]:
        """Heads of those that exist, and of groups the viewer's membership, current or former: one round trip to Redis
        where all is cached."""
        wanted = list(dict.fromkeys(conversations))
        found: dict[ConversationId, tuple[Head, Member | None]] = {}
        for _ in range(_READS):
            missing = await self._read_with_member(viewer, wanted, found)
            groups = [c for c in missing if kind_of(c) is ConversationKind.GROUP]
            others = [c for c in missing if kind_of(c) is not ConversationKind.GROUP]
            loads = (self.load(groups, with_members=True), self.load(others, with_members=False))
            wanted = list(set().union(*await asyncio.gather(*loads)))
            if not wanted:
                return found
        raise _not_kept()

    async def _read_with_member(
        self,
        viewer: UserId,
        wanted: Sequence[ConversationId],
        found: dict[ConversationId, tuple[Head, Member | None]],
    ) -> list[ConversationId]:
        calls = []
        for conversation in wanted:
            head, members, *_ = self._keys.conversation(conversation)
            if kind_of(conversation) is ConversationKind.GROUP:
                calls.append(Call("membership", (head, members), (viewer, *_HEAD_FIELDS)))
            else:
                calls.append(Call("HMGET", (head,), _HEAD_FIELDS))
        answers = await self._cache.run(calls) if calls else []
        missing = []
        for conversation, answer, call in zip(wanted, answers, calls, strict=True):
            if call.name == "HMGET":
                if answer[0] is None:
                    missing.append(conversation)
                    self.heads.misses += 1
                else:
                    found[conversation] = (self._head_from(conversation, answer), None)
                    self.heads.hits += 1
                continue
            whole, text, *row = answer
            if not whole:
                missing.append(conversation)
                self.groups.misses += 1
                continue
            self.groups.hits += 1
            shown = self._head_from(conversation, row)
            found[conversation] = (shown, _member_of(shown.ended_at, viewer, text) if text else None)
        return missing

    def _head_from(self, conversation: ConversationId, row: Sequence[bytes | None]) -> Head:
        """The head that Redis holds so. One that was read before is the same object, whoever reads it: much of a list is."""
        known = self._heads.get(conversation)
        if known is not None and known[0] == row:
            return known[1]
        if len(self._heads) >= _HEADS:
            self._heads.pop(next(iter(self._heads)))
        head = _read_head(conversation, row)
        self._heads[conversation] = (row, head)
        return head

    async def find_standing(self, group: ConversationId, users: Sequence[UserId]) -> Standing | None:
        """A group with the memberships of some users as they are, changes on their way included. None where there is no such
        group. One round trip where all is cached."""
        head, members, *_ = self._keys.conversation(group)
        calls = [
            Call("HMGET", (head,), ("mv", "mt", *_HEAD_FIELDS)),
            Call("HMGET", (members,), tuple(users)),
            Call("HLEN", (members,)),
        ]
        for _ in range(_READS):
            (version, total, *row), texts, held = await self._cache.run(calls)
            if row[0] is not None and int(total or -1) == held:
                shown = self._head_from(group, row)
                found = {
                    user: _member_of(shown.ended_at, user, text)
                    for user, text in zip(users, texts, strict=True)
                    if text is not None
                }
                return Standing(version.decode(), shown, found)
            if not await self.load((group,), with_members=True):
                return None
        raise _not_kept()

    async def list_members(self, conversation: ConversationId) -> list[Member]:
        """All memberships of a group, current and former, ordered by user id."""
        head, members, *_ = self._keys.conversation(conversation)
        calls = [Call("HMGET", (head,), ("mt", "ds")), Call("HGETALL", (members,))]
        for _ in range(_READS):
            (total, ended), flat = await self._cache.run(calls)
            pairs = list(flat.items()) if isinstance(flat, dict) else list(zip(flat[::2], flat[1::2], strict=True))
            if total is not None and int(total) == len(pairs):
                ended_at = int(ended) if ended is not None else None
                found = [_member_of(ended_at, UserId(user.decode()), text) for user, text in pairs]
                return sorted(found, key=lambda member: member.user)
            if not await self.load((conversation,), with_members=True):
                return []
        raise _not_kept()

    async def list_recipients(self, conversation: ConversationId, version: str, seq: int) -> Sequence[UserId]:
        """Whom a message goes to that was reserved with this seq under this version of the membership.

        No round trip while that is the version this process knows. Version "": not known, the membership is read.
        """
        people = parse_private(conversation)
        if people is not None:
            return people[:2]
        known = self._member_lists.get(conversation)
        if known is None or known.version != version:
            # What is read now may be newer than the version: who joined or left after the message is told apart by seq.
            known = _member_list(version, await self.list_members(conversation))
            if version:
                self._remember_members(conversation, known)
        return known.at(seq)

    def _remember_members(self, conversation: ConversationId, known: _MemberList) -> None:
        if len(self._member_lists) >= _MEMBER_LISTS:
            self._member_lists.pop(next(iter(self._member_lists)))
        self._member_lists[conversation] = known


@dataclass(frozen=True, slots=True)
class _MemberList:
    """Who is in a group under one version of its membership. `now`: since which seq; `before`: stretches that have ended, the
    one that ended last first."""

    version: str
    now: tuple[tuple[int, UserId], ...]
    before: tuple[tuple[int, int, UserId], ...]

    def at(self, seq: int) -> list[UserId]:
        """Who was in it when a message took a seq."""
        users = [user for first, user in self.now if first <= seq]
        ended = takewhile(lambda stretch: stretch[1] >= seq, self.before)
        return users + [user for first, _, user in ended if first <= seq]


def _member_list(version: str, members: Iterable[Member]) -> _MemberList:
    stretches = [(first, last, m.user) for m in members for first, last in m.intervals]
    now = tuple((first, user) for first, last, user in stretches if last is None)
    before = [(first, last, user) for first, last, user in stretches if last is not None]
    return _MemberList(version, now, tuple(sorted(before, key=lambda stretch: -stretch[1])))


def _not_kept() -> Unreachable:
    return Unreachable("the cache does not keep what is put into it")


def _member_of(ended_at: int | None, user: UserId, text: bytes) -> Member:
    member = member_from(user, orjson.loads(text))
    return member if ended_at is None else member.until(ended_at)


def _read_head(conversation: ConversationId, row: Sequence[bytes | None]) -> Head:
    ls, last, mc, info, kind, st, ended = row
    message: Message | None = message_from(orjson.loads(last)) if last else None
    return Head(
        conversation=conversation,
        kind=ConversationKind.GROUP if kind == b"G" else ConversationKind.PRIVATE,
        seq=int(ls or 0),
        last=message,
        member_count=int(mc or 0),
        group=group_info_from(orjson.loads(info)) if info else None,
        ended_at=int(ended) if ended is not None else None,
        dismissed=st == DISMISSED.encode(),
    )
