"""Sessions in MongoDB: what each user has. `sessions` {_id: "<user> <conversation>", r read, rn countable read, d delivered,
x deleted at, xn countable then, p priority, m muted, mu until, us marked unread at, ca category, ms unread mentions, fs last readable
seq of a former member, fn countable then, jn countable when they joined, f fence, a activeTs, w writeTs}, short because there are many; what is zero or unset is left out.

A new message writes none of these but its sender's and those of who is mentioned, and a private one not even its sender's:
writeSeq and the unread count, and there how far its sender has read, come from the conversation's head. The gateway of a subBiz has a row once something about it itself was set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from store.base.clock import Clock
from store.base.errors import Fenced, Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, gateway_id, kind_of, parse_private
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONVERSATIONS, SESSIONS, session_row_id, sessions_of
from store.sessions.fields import IN_ROW_AND_RECORD, MOST_MENTIONS

LATE_MS = 60_000
"""How long after its commit began a message may still be on its way to the states of its readers."""

LATE_PLACES = 500
"""How many of a conversation's newest messages may be so at most."""

_HEADS_AT_ONCE = 2_000
_HEAD_PROJECTION = {"s": 1, "n": 1, "at": 1, "w": 1, "r0": 1, "r1": 1, "d0": 1, "d1": 1, "sb": 1, "ma": 1,
                    "q0": 1, "m0": 1, "q1": 1, "m1": 1, "dt": 1}  # fmt: skip

Records = list[tuple[ConversationId, dict[str, Any]]]


class Tick(NamedTuple):
    """When a session moved, ms. `written_at`: its writeTs, where it does not follow from the conversation's."""

    user: UserId
    conversation: ConversationId
    at: int
    written_at: int = 0


class SessionRows:
    """The rows, as records are made of them, and guarded changes to them."""

    def __init__(self, mongo: Mongo, clock: Clock) -> None:
        self._mongo = mongo
        self._clock = clock

    async def read(self, user: UserId) -> Records:
        """A user's whole state: a record for each session and gateway, no two with the same activeTs, and none with one that
        is earlier than it ever was."""
        now = self._clock.now_ms()
        start = len(user) + 1
        rows = {ConversationId(row["_id"][start:]): row for row in await self._mongo.find(SESSIONS, sessions_of(user))}
        names = [name for name in rows if kind_of(name) is not ConversationKind.SUB_BIZ]
        chunks = [names[i : i + _HEADS_AT_ONCE] for i in range(0, len(names), _HEADS_AT_ONCE)]
        read = [self._mongo.find(CONVERSATIONS, {"_id": {"$in": c}}, projection=_HEAD_PROJECTION) for c in chunks]
        heads = {head["_id"]: head for part in await self._mongo.gather(*read) for head in part} if read else {}
        records = [(c, record_from(user, c, rows[c], heads[c], now)) for c in names if c in heads]
        known = {conversation: rec["a"] for conversation, rec in records}
        _move_late(records, now)
        gateways = _gateways(records, rows, now)
        known |= {conversation: rec["a"] for conversation, rec in gateways}
        records += gateways
        _separate(records)
        moved = [Tick(user, c, rec["a"]) for c, rec in records if rec["a"] != known[c]]
        if moved:
            await self._mongo.bulk_write(SESSIONS, [_tick_update(tick) for tick in moved])
        return records

    async def write(
        self,
        user: UserId,
        fence: int,
        updates: Mapping[ConversationId, Mapping[str, Any]],
        also: Sequence[Awaitable[Any]] = (),
    ) -> None:
        """Changes rows under the user's lock, and carries out other writes with them: one waited round trip.

        Raises Fenced where a later holder of the lock wrote one of the rows before: the others may have been written.
        """
        operations = [_guarded(user, conversation, fence, update) for conversation, update in updates.items()]

        async def guarded() -> None:
            try:
                matched = await self._mongo.bulk_write(SESSIONS, operations)
            except BulkWriteError as error:
                # The row of a gateway is there, and a later holder's.
                raise Fenced(f"{user} was changed by a later holder of the lock") from error
            if matched < len(operations):
                raise Fenced(f"{user} was changed by a later holder of the lock")

        try:
            await self._mongo.gather(guarded(), *also)
        except BulkWriteError as error:
            # Two upserts of one mark met. Repeating is safe.
            raise Unreachable("marks of one reader collided") from error

    async def keep_ticks(self, ticks: Sequence[Tick]) -> None:
        """Makes sure that sessions, loaded anew, have moved at least as late as this. Not counted: nobody waits for it."""
        if ticks:
            await self._mongo.bulk_write_in_background(SESSIONS, [_tick_update(tick) for tick in ticks])


def _guarded(user: UserId, conversation: ConversationId, fence: int, update: Mapping[str, Any]) -> UpdateOne:
    row = {"_id": session_row_id(user, conversation), "$or": [{"f": {"$exists": False}}, {"f": {"$lte": fence}}]}
    fenced = {**update, "$set": {**update.get("$set", {}), "f": fence}}
    if kind_of(conversation) is not ConversationKind.SUB_BIZ:
        return UpdateOne(row, fenced)
    return UpdateOne(row, fenced | {"$setOnInsert": _NOTHING_READ}, upsert=True)


def _tick_update(tick: Tick) -> UpdateOne:
    row = {"_id": session_row_id(tick.user, tick.conversation)}
    times = {"a": tick.at} | ({"w": tick.written_at} if tick.written_at else {})
    if kind_of(tick.conversation) is not ConversationKind.SUB_BIZ:
        return UpdateOne(row, {"$max": times})
    return UpdateOne(row, {"$max": times, "$setOnInsert": _NOTHING_READ}, upsert=True)


_NOTHING_READ = {"r": 0, "rn": 0, "d": 0}


def _move_late(records: Records, now_ms: int) -> None:
    """What moved just now may have had a later tick than MongoDB knows yet: it moves once more."""
    latest = max([now_ms, *(rec["a"] for _, rec in records)])
    late = [rec for _, rec in records if rec["a"] > now_ms - LATE_MS]
    for offset, rec in enumerate(sorted(late, key=itemgetter("a"))):
        rec["a"] = latest + 1 + offset


def _separate(records: Records) -> None:
    """Gives sessions that moved in the same millisecond different positions."""
    records.sort(key=lambda pair: (pair[1]["a"], pair[0]))
    last = 0
    for _, rec in records:
        rec["a"] = last = max(rec["a"], last + 1)


def record_from(
    user: UserId, conversation: ConversationId, row: Document, head: Document, now_ms: int
) -> dict[str, Any]:
    """The record that the scripts keep, from a session's row and its conversation's head."""
    rec = _settings_from(row, now_ms)
    if "fs" in row:
        # What happened in the conversation since is not theirs.
        head = {"s": row["fs"], "n": row["fn"], "at": rec["a"], "w": 0, "ma": head.get("ma", ())} | _lasting(head)
        rec["f"] = row["fs"]
    if "dt" in head:
        rec["dd"] = 1
        rec["a"] = max(rec["a"], head["dt"])
    rec["s"], rec["n"] = head["s"], head["n"]
    # Nobody has read further than there is, whatever a writer that died half way left behind.
    rec["r"], rec["rn"], rec["d"] = (min(row["r"], rec["s"]), min(row["rn"], rec["n"]), min(row["d"], rec["s"]))
    people = parse_private(conversation)
    side = 0 if people is not None and people[0] == user else 1
    if people is not None and rec["r"] < head.get(f"q{side}", 0):
        # Sending reads.
        rec["r"], rec["rn"] = head[f"q{side}"], head[f"m{side}"]
        rec["d"] = max(rec["d"], rec["r"])
    if head.get("at", 0) > now_ms - LATE_MS:
        # Some of the newest may be durable and not shown yet: when they are, they are news.
        rec["g"] = [max(1, rec["s"] - LATE_PLACES + 1), rec["s"]]
    rec["a"] = max(rec["a"], head.get("at", 0))
    # Not what was written before they joined, though it became durable after that.
    is_theirs = rec["n"] > row.get("jn", -1)
    rec["w"] = max(row.get("w", 0), head.get("w", 0) if is_theirs else 0)
    mentions = sorted(seq for seq in {*row.get("ms", ()), *head.get("ma", ())} if rec["r"] < seq <= rec["s"])
    if mentions:
        rec["ms"] = mentions[-MOST_MENTIONS:]
    sub_biz = people[2] if people is not None else head.get("sb")
    if sub_biz is not None:
        rec["sb"] = sub_biz
    if people is not None:
        peer = 1 - side
        rec["pr"], rec["pd"] = head.get(f"r{peer}", 0), head.get(f"d{peer}", 0)
    return rec


def _lasting(head: Document) -> Document:
    return {name: head[name] for name in ("sb", "dt") if name in head}


def _settings_from(row: Document, now_ms: int) -> dict[str, Any]:
    """What the user set. A mute that has ended meanwhile ended when it was to, which moved the session."""
    rec = {f.stored: row[f.stored] for f in IN_ROW_AND_RECORD if row.get(f.stored) is not None}
    rec.setdefault("p", 0)
    rec["a"] = row.get("a", 0)
    ends = rec.pop("mu", None)
    if ends is not None and ends <= now_ms:
        rec["a"] = max(rec["a"], ends)
        rec.pop("m", None)
    elif ends is not None:
        rec["mu"] = str(ends)
    return rec


def _gateways(records: Records, rows: Mapping[ConversationId, Document], now_ms: int) -> Records:
    """A gateway for each subBiz that sessions are in, next on the clock after what moved in it last."""
    moved: dict[str, int] = {}
    for _, rec in records:
        if "sb" in rec:
            moved[rec["sb"]] = max(moved.get(rec["sb"], 0), rec["a"])
    gateways = []
    for sub_biz, last in moved.items():
        name = gateway_id(sub_biz)
        row = rows.get(name, {})
        rec = _settings_from(row, now_ms) | {"s": 0, "n": 0, "r": 0, "rn": 0, "d": 0}
        rec["a"] = max(rec["a"], last + 1)
        rec["w"] = rec["ow"] = row.get("w", 0)
        gateways.append((name, rec))
    return gateways
