"""Checks of cached heads and memberships against MongoDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.checking.check import Difference, Objects, Scope
from store.conversations.conversation import Member, member_from
from store.conversations.conversation_fields import ConversationField, HeadField
from store.conversations.head_loader import HeadLoader, head_fields
from store.redis.cache import Call
from store.store import Store

_F = ConversationField
_PIN_COUNT = "number of pins"

_NUMBERS = {
    _F.SEQ: "newest reserved seq",
    _F.N: "number of reserved messages",
    HeadField.NEWEST_SEQ: "newest seq",
    _F.WRITTEN_AT: "last message",
    _F.MEMBER_COUNT: "number of members",
    _F.GROUP_VERSION: "group version",
    _F.ENDED_AT: "seq of the end",
    _F.FLOOR_SEQ: "floor",
    _F.FLOOR_N: "number of expired messages",
    HeadField.PIN_COUNT: _PIN_COUNT,
    _F.RECALLED: "number of recalled replies",
}
_TEXTS = {_F.KIND: "kind", _F.END: "end"}
_RECORDS = {
    HeadField.NEWEST: "newest message",
    HeadField.GROUP: "group or thread",
    _F.MENTIONS_ALL: "mentions of everybody",
}


class CachedHeads:
    """Each head in Redis has what a load from MongoDB gives.

    Redis is ahead of MongoDB while messages are being stored. The time of the last change is not compared, because
    MongoDB has later ones, for example of reading.
    """

    name: ClassVar[str] = "cached-heads"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION, is_cached=True)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loader = HeadLoader(store.mongo, store.cache, store.keys)

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some conversations. Heads that are not cached have none."""
        names = [ConversationId(id) for id in ids]
        cached = await _read_hashes(self._store, [self._store.keys.head(name) for name in names])
        heads = {name: head for name, head in zip(names, cached, strict=True) if head.get(_F.SEQ.encode()) is not None}
        rows, _ = await self._loader.read(list(heads), with_members=False) if heads else ({}, {})
        found = []
        for name, row in rows.items():
            stored, expected = _decode(heads[name]), _decode(_encode(head_fields(row)))
            if HeadField.PIN_COUNT.encode() not in heads[name]:
                # A head that a server of the version before has loaded.
                expected.pop(_PIN_COUNT, None)
            if kind_of(name) is not ConversationKind.CHANNEL:
                # A server of the version before has pinned a message in a thread of a channel.
                stored.pop(_PIN_COUNT, None)
            found += [
                Difference(self.name, name, field, stored.get(field), expected.get(field))
                for field in sorted(stored.keys() | expected.keys())
                if stored.get(field) != expected.get(field)
            ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Drop the head and the membership, so that the next request loads them."""
        await self._store.conversations.drop(ConversationId(object_id))


class CachedMembers:
    """Each membership in Redis has what a load from MongoDB gives."""

    name: ClassVar[str] = "cached-members"
    scope: ClassVar[Scope] = Scope(Objects.CONVERSATION, ("g_", "t_"), is_cached=True)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loader = HeadLoader(store.mongo, store.cache, store.keys)

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some groups. Memberships that are not cached have none."""
        groups = [ConversationId(id) for id in ids]
        keys = self._store.keys
        totals = await self._store.cache.run(
            [Call("HGET", (keys.head(group),), (HeadField.MEMBERS_TOTAL,)) for group in groups]
        )
        found = []
        for group, total in zip(groups, totals, strict=True):
            if total is None:
                continue
            (cached,) = await _read_hashes(self._store, [keys.conversation(group)[1]])
            if len(cached) != int(total):
                # A part was evicted: the membership counts as not cached.
                continue
            _, members = await self._loader.read([group], with_members=True)
            start = len(group) + 1
            expected = {
                row["_id"][start:]: _compared(member_from(UserId(row["_id"][start:]), row))
                for row in members.get(group, ())
            }
            stored = {
                user.decode(): _compared(member_from(UserId(user.decode()), orjson.loads(text)))
                for user, text in cached.items()
            }
            found += [
                Difference(
                    self.name, group, f"membership of {user}", _shown(stored.get(user)), _shown(expected.get(user))
                )
                for user in sorted(stored.keys() | expected.keys())
                if stored.get(user) != expected.get(user)
            ]
        return found

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Drop the head and the membership, so that the next request loads them."""
        await self._store.conversations.drop(ConversationId(object_id))


async def _read_hashes(store: Store, keys: Sequence[str]) -> list[dict[bytes, bytes]]:
    """Return the fields of hashes. One round trip."""
    answers = await store.cache.run([Call("HGETALL", (key,)) for key in keys])
    return [dict(zip(answer[::2], answer[1::2], strict=True)) for answer in answers]


def _compared(member: Member) -> Member:
    """Return what is compared of a membership: Redis knows that a user has replied, and not the newest reply."""
    return replace(member, last_reply=min(member.last_reply, 1))


def _shown(member: Any) -> Any:
    return None if member is None else member.to_fields()


def _encode(fields: dict[str, Any]) -> dict[bytes, bytes]:
    """Return fields as Redis would return them."""
    return {name.encode(): value if isinstance(value, bytes) else str(value).encode() for name, value in fields.items()}


def _decode(fields: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the values that are compared, by their meaning. Empty values are left out."""
    values: dict[str, Any] = {text: int(fields.get(name.encode(), 0)) for name, text in _NUMBERS.items()}
    values |= {text: fields[name.encode()].decode() for name, text in _TEXTS.items() if name.encode() in fields}
    values |= {text: orjson.loads(fields[name.encode()]) for name, text in _RECORDS.items() if name.encode() in fields}
    return {text: value for text, value in values.items() if value not in (0, [], {})}
