"""Sessions: what each user has. `sessions` {_id: "<user> <conversation>", r read, rn countable read, d delivered,
x deleted at, xn countable then, p priority, m muted, mu until, us unread status, ca category, f fence, a activeTs,
w writeTs}, short because there are many; what is zero or unset is left out.

A new message writes none of these (but its sender's): writeSeq and the unread count come from the conversation's head.
The whole state of a user is in Redis while it is in use, read from MongoDB on a miss.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from pymongo import UpdateOne

from store.cache import Cache, Call
from store.clock import Clock
from store.errors import Unreachable
from store.ids import ConversationId, UserId, parse_private
from store.keys import Keys
from store.loading import CLAIM_MS, SingleFlight, until_settled
from store.mongo import Document, Mongo
from store.records import Session, session_from
from store.rows import CONVERSATIONS, SESSIONS, session_row_id, sessions_of

LATE_MS = 60_000
"""How long after its commit began a message may still be on its way to the states of its readers."""

LATE_PLACES = 500
"""How many of a conversation's newest messages may be so at most."""

_HEADS_AT_ONCE = 2_000
_KEPT = ("r", "rn", "d", "x", "xn", "p", "m", "mu", "us", "ca", "f")
_HEAD_PROJECTION = {"s": 1, "n": 1, "at": 1, "w": 1, "r0": 1, "r1": 1, "d0": 1, "d1": 1}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Some of a user's sessions, read at one moment. `clock` is the user's clock then, good within `epoch`."""

    epoch: str
    clock: int
    total_unread: int
    sessions: tuple[Session, ...]
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a change. `tick` and `previous` are its place in the user's chain of events.

    changed is False where it had been applied before or there was nothing to do (session is then as it is), or where the
    user's state isn't in use (session is None then).
    """

    changed: bool
    epoch: str
    routes: tuple[str, ...]
    session: Session | None
    tick: int
    previous: int
    total_unread: int
    old_read_seq: int
    old_unread: int


NOT_IN_USE = Applied(False, "", (), None, 0, 0, 0, -1, 0)


class SessionStore:
    """Reads of sessions, and changes to their cached form."""

    def __init__(self, mongo: Mongo, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._mongo = mongo
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._flights = SingleFlight()

    async def list_page(self, user: UserId, limit: int, after: tuple[int, str] | None) -> Snapshot:
        """Valid sessions in display order, after a position and the conversation at it. One round trip when warm."""
        position, name = after or ("", "")
        answer = await self._warm(user, "list_page", (limit, position, name))
        rows = answer[3:]
        sessions = tuple(session_from(user, _c(rows[i]), rows[i + 1]) for i in range(0, len(rows), 3))
        positions = tuple(int(rows[i + 2]) for i in range(0, len(rows), 3))
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], sessions, positions)

    async def list_changed(self, user: UserId, after: int, limit: int, *, only_valid: bool) -> Snapshot:
        """Sessions whose activeTs is past a position, oldest change first. No two of a user's have the same."""
        answer = await self._warm(user, "changed", (after, limit, int(only_valid)))
        rows = answer[3:]
        sessions = tuple(session_from(user, _c(rows[i]), rows[i + 1]) for i in range(0, len(rows), 2))
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], sessions)

    async def find_many(self, user: UserId, conversations: Sequence[ConversationId]) -> Snapshot:
        """Those of the conversations that the user has a session of."""
        answer = await self._warm(user, "sessions_get", tuple(conversations) or ("",))
        found = zip(conversations, answer[3:], strict=False)
        sessions = tuple(session_from(user, c, text) for c, text in found if text)
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], sessions)

    async def find(self, user: UserId, conversation: ConversationId) -> Session | None:
        """One session, or None. Deleted ones too."""
        return next(iter((await self.find_many(user, (conversation,))).sessions), None)

    async def list_groups(self, user: UserId) -> list[ConversationId]:
        """The groups the user is a member of, by id."""
        return sorted(_c(name) for name in (await self._warm(user, "sessions_get", ()))[3:])

    async def attach(self, user: UserId, server: str, until_ms: int) -> tuple[str, int]:
        """Says that a server holds connections of the user. Answers epoch and clock: events after it reach that server."""
        epoch, clock = await self._warm(user, "attach", (server, until_ms))
        return epoch.decode(), int(clock)

    async def read_log(self, user: UserId, epoch: str, since: int, limit: int) -> list[tuple[int, int, bytes]] | None:
        """Events after a position as (tick, tick before, event), or None if the log can't tell all of them."""
        answer = await self._warm(user, "log_read", (since, epoch, limit))
        if not answer[2]:
            return None
        rows = answer[3:]
        return [(int(rows[i]), int(rows[i + 1]), rows[i + 2]) for i in range(0, len(rows), 3)]

    def change(self, user: UserId, kind: str, change: dict[str, Any], now_ms: int, token: str = "") -> Call:
        """The call that applies a change to the user's cached state. `applied` reads its answer."""
        return Call("apply", self._keys.user(user), (kind, orjson.dumps(change), now_ms, token))

    async def keep_ticks(self, ticks: Sequence[tuple[UserId, ConversationId, int]]) -> None:
        """Makes sure that sessions, loaded anew, have moved at least as late as this. Not counted: nobody waits for it."""
        if ticks:
            await self._mongo.bulk_write_aside(
                SESSIONS, [UpdateOne({"_id": session_row_id(u, c)}, {"$max": {"a": tick}}) for u, c, tick in ticks]
            )

    async def _warm(self, user: UserId, script: str, args: tuple[Any, ...]) -> list[Any]:
        """A script's answer over the loaded state: loads it first where it isn't."""
        for _ in range(4):
            answer: list[Any] = await self._cache.one(Call(script, self._keys.user(user), args))
            if answer:
                return answer
            await self.load(user)
        raise Unreachable("the cache does not keep what is put into it")

    async def load(self, user: UserId) -> None:
        """Makes the user's state be in Redis. Does nothing where it is."""
        await self._flights.run(user, lambda: self._load(user))

    async def _load(self, user: UserId) -> None:
        async def attempt() -> bool:
            token = secrets.token_hex(8)
            keys = self._keys.user(user)
            state = await self._cache.one(Call("load_begin", keys, (token, CLAIM_MS)))
            if state == b"loaded":
                return True
            if state == b"busy":
                return False
            records = await self._read_mongo(user)
            clock = max([self._clock.now_ms(), *(rec["a"] for _, rec in records)])
            flat = [part for c, rec in records for part in (c, orjson.dumps(rec))]
            done = await self._cache.one(Call("load_finish", keys, (token, secrets.token_hex(4), clock, *flat)))
            return bool(done)

        await until_settled(attempt)

    async def _read_mongo(self, user: UserId) -> list[tuple[ConversationId, dict[str, Any]]]:
        now = self._clock.now_ms()
        rows = await self._mongo.find(SESSIONS, sessions_of(user))
        start = len(user) + 1
        names = [row["_id"][start:] for row in rows]
        chunks = [names[i : i + _HEADS_AT_ONCE] for i in range(0, len(names), _HEADS_AT_ONCE)]
        read = [self._mongo.find(CONVERSATIONS, {"_id": {"$in": c}}, projection=_HEAD_PROJECTION) for c in chunks]
        heads = {head["_id"]: head for part in await self._mongo.together(*read) for head in part} if read else {}
        records = [
            (ConversationId(name), record_from(user, ConversationId(name), row, heads[name], now))
            for name, row in zip(names, rows, strict=True)
            if name in heads
        ]
        await self._separate(user, records)
        return records

    async def _separate(self, user: UserId, records: list[tuple[ConversationId, dict[str, Any]]]) -> None:
        """Gives sessions that moved in the same millisecond different positions, and keeps what it made up."""
        records.sort(key=lambda pair: (pair[1]["a"], pair[0]))
        moved = []
        last = 0
        for conversation, rec in records:
            if rec["a"] <= last:
                rec["a"] = last + 1
                moved.append(UpdateOne({"_id": session_row_id(user, conversation)}, {"$max": {"a": rec["a"]}}))
            last = rec["a"]
        if moved:
            await self._mongo.bulk_write(SESSIONS, moved)


def record_from(
    user: UserId, conversation: ConversationId, row: Document, head: Document, now_ms: int
) -> dict[str, Any]:
    """The record that the scripts keep, from a session's row and its conversation's head."""
    rec = {name: row[name] for name in _KEPT if row.get(name) is not None and name != "f"}
    rec.setdefault("p", 0)
    rec["s"], rec["n"] = head["s"], head["n"]
    # Nobody has read further than there is, whatever a writer that died half way left behind.
    rec["r"], rec["rn"], rec["d"] = (min(row["r"], rec["s"]), min(row["rn"], rec["n"]), min(row["d"], rec["s"]))
    if head.get("at", 0) > now_ms - LATE_MS:
        # Some of the newest may be durable and not shown yet: when they are, they are news.
        rec["g"] = [max(1, rec["s"] - LATE_PLACES + 1), rec["s"]]
    rec["a"] = max(row.get("a", 0), head.get("at", 0))
    rec["w"] = max(row.get("w", 0), head.get("w", 0))
    people = parse_private(conversation)
    if people is not None:
        peer = 1 if people[0] == user else 0
        rec["pr"], rec["pd"] = head.get(f"r{peer}", 0), head.get(f"d{peer}", 0)
    return rec


def applied(user: UserId, conversation: ConversationId, answer: Sequence[Any]) -> Applied:
    """What `apply` answered."""
    status = answer[0]
    if status not in (b"ok", b"applied"):
        return NOT_IN_USE
    _, epoch, routes, text, tick, previous, total, old_read, old_unread = answer
    return Applied(
        changed=status == b"ok",
        epoch=epoch.decode(),
        routes=tuple(route.decode() for route in routes),
        session=session_from(user, conversation, text) if text else None,
        tick=int(tick),
        previous=int(previous),
        total_unread=total,
        old_read_seq=old_read,
        old_unread=old_unread,
    )


def _c(name: bytes) -> ConversationId:
    return ConversationId(name.decode())
