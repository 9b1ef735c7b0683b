"""Check of users' cached states: their lists and sums against their records, and the records against MongoDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from store.base.ids import UserId
from store.checking.cached.state import Disagreement, parse_state
from store.checking.check import Difference, Objects, Scope
from store.redis.cache import Call
from store.sessions.changes import INVALIDATE
from store.sessions.fields import NAMES, Field, Kept
from store.sessions.records import LATE_MS, Records
from store.sessions.session import Session
from store.store import Store

_COMPARED = {
    name: field
    for name, field in NAMES.items()
    # A load finds other times of changes. Positions of messages that were applied are a cache.
    if field.kept is not Kept.CACHE and name not in ("active_ts", "group_version")
}

_OF_HEAD = ("write_seq", "n", "write_ts", "last_readable_seq")
"""Fields that a hidden thread keeps in the cached state, and that a load does not take from the head."""

_OF_FLOOR = ("floor_seq", "floor_n")
"""Fields that say nothing if the user has read further. A session that begins later does not have them."""


class CachedSessions:
    """Each user's cached state is what a load from MongoDB gives, and its lists and sums follow from its records."""

    name: ClassVar[str] = "cached-sessions"
    scope: ClassVar[Scope] = Scope(Objects.USER, is_cached=True)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        """Return the differences of some users. States that are not cached have none."""
        users = [UserId(id) for id in ids]
        keys = self._store.keys
        epochs = await self._store.cache.run([Call("HGET", keys.user(user), ("epoch",)) for user in users])
        return [
            Difference(self.name, user, *disagreement)
            for user, epoch in zip(users, epochs, strict=True)
            if epoch is not None
            for disagreement in await self._compare(user)
        ]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        """Drop the cached state, so that it is loaded again. Subscribers read it again."""
        await self._store.cache.one(self._store.sessions.apply_call(UserId(object_id), INVALIDATE))

    async def _compare(self, user: UserId) -> list[Disagreement]:
        answer = await self._store.cache.one(
            Call("read_state", self._store.keys.user(user), (self._store.clock.now_ms(),))
        )
        if not answer:
            return []
        state = parse_state(answer)
        loaded = await self._store.session_rows.read_without_ticks(user)
        found = [*state.disagreements(), *_compare_records(user, state.sessions.records, loaded)]
        if state.channels is not None:
            loaded = await self._store.session_rows.read_channels_without_ticks(user)
            found += _compare_records(user, state.channels.records, loaded)
        return found


def _compare_records(user: UserId, cached: Records, loaded: Records) -> Iterator[Disagreement]:
    for conversation in sorted(cached.keys() | loaded.keys()):
        sessions = [
            Session(user, conversation, each[conversation]) for each in (cached, loaded) if conversation in each
        ]
        if len(sessions) == 2:
            for name, field in _COMPARED.items():
                if name in _OF_HEAD and sessions[0].hidden:
                    continue
                if name in _OF_FLOOR and all(each.floor_seq <= each.acknowledged_seq for each in sessions):
                    continue
                stored, expected = (_value(field, session) for session in sessions)
                if stored != expected and not _are_near(name, *sessions):
                    yield f"{conversation}: {name}", stored, expected
        elif sessions[0].exists:
            # Rows of a private conversation are made before its first message, and applied with it.
            yield f"session of {conversation}", conversation in cached, conversation in loaded


def _are_near(name: str, cached: Session, loaded: Session) -> bool:
    """Return whether two servers may have given one message these times."""
    return name == "write_ts" and abs(cached.write_ts - loaded.write_ts) <= LATE_MS


def _value(field: Field[object], session: Session) -> object:
    """Return a value that is compared. Mentions that were read do not count."""
    value = field.of(session)
    if field is Session.mentions:
        return tuple(seq for seq in session.mentions if seq > session.read_seq)
    return value
