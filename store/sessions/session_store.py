"""Sessions as they are read: a user's whole state is in Redis while it is in use, loaded from MongoDB on a miss."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from store.base.clock import Clock
from store.base.counters import HitCounter
from store.base.errors import Unreachable
from store.base.ids import ConversationId, UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.redis.single_flight import CLAIM_MS, SingleFlight, retry_until_true
from store.sessions.changes import LoggedChange
from store.sessions.session import Session, session_from
from store.sessions.session_rows import SessionRows, Tick

_PART = 250
"""Sessions that are put into Redis at a time: it does nothing else meanwhile."""

_NAMED = 1_000
"""Sessions that a script is asked for by name at a time: Lua takes no more than some thousand values at once."""

_LOADS = 10
"""How often a state is loaded that is gone again before it was read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Some of a user's sessions, read at one moment. `clock` is the user's clock then, good within `epoch`."""

    epoch: str
    clock: int
    total_unread: int
    sessions: tuple[Session, ...]
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Folder:
    """A category in use: its valid sessions, the unread of those not muted, the one written to last."""

    category: str
    session_count: int
    unread_count: int
    newest: ConversationId
    write_ts: int


def list_name(sub_biz: str | None, category: str | None) -> str:
    """Which of a user's lists holds the sessions in a subBiz, a category or both; neither: the main list."""
    if sub_biz is not None and category is not None:
        return f"x{sub_biz} {category}"
    if sub_biz is not None:
        return f"b{sub_biz}"
    return f"c{category}" if category is not None else "m"


class SessionStore:
    """Reads of sessions, and changes to their cached form."""

    def __init__(self, rows: SessionRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._flights = SingleFlight()
        self.looked = HitCounter()
        """For states."""

    async def list_page(self, user: UserId, name: str, limit: int, after: tuple[int, str] | None) -> Snapshot:
        """Valid sessions of a list in display order, after a position and the conversation at it. One round trip when warm."""
        position, conversation = after or ("", "")
        answer = await self._warm(user, "list_page", (name, limit, position, conversation))
        rows = answer[3:]
        sessions = tuple(session_from(user, _c(rows[i + 1]), rows[i + 2]) for i in range(0, len(rows), 3))
        positions = tuple(int(rows[i]) for i in range(0, len(rows), 3))
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], sessions, positions)

    async def list_names(self, user: UserId, name: str) -> list[ConversationId]:
        """The conversations in a list, all as of one moment."""
        return [_c(conversation) for conversation in (await self._warm(user, "list_names", (name,)))[1:]]

    async def list_undelivered(self, user: UserId) -> list[Session]:
        """Valid sessions in which messages wait to be received, as of one moment, in no particular order."""
        rows = (await self._warm(user, "list_undelivered", ()))[1:]
        return [session_from(user, _c(rows[i]), rows[i + 1]) for i in range(0, len(rows), 2)]

    async def list_changed(self, user: UserId, after: int, limit: int, *, valid_until: int) -> Snapshot:
        """Sessions whose activeTs is past a position, oldest change first; up to another position only valid ones. No two of
        a user's have the same."""
        answer = await self._warm(user, "list_changed", (after, limit, valid_until))
        rows = answer[3:]
        sessions = tuple(session_from(user, _c(rows[i]), rows[i + 1]) for i in range(0, len(rows), 2))
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], sessions)

    async def list_folders(self, user: UserId) -> list[Folder]:
        """The categories in use, the one written to last first."""
        rows = (await self._warm(user, "list_categories", ()))[3:]
        folders = [
            Folder(rows[i].decode(), int(rows[i + 1]), int(rows[i + 2]), _c(rows[i + 3]), int(rows[i + 4]))
            for i in range(0, len(rows), 5)
        ]
        return sorted(folders, key=lambda folder: (-folder.write_ts, folder.category))

    async def find_many(self, user: UserId, conversations: Sequence[ConversationId]) -> Snapshot:
        """Those of the conversations that the user has a session of."""
        sessions: list[Session] = []
        for start in range(0, len(conversations) or 1, _NAMED):
            part = conversations[start : start + _NAMED]
            answer = await self._warm(user, "get_sessions", tuple(part) or ("",))
            sessions += [session_from(user, c, text) for c, text in zip(part, answer[3:], strict=False) if text]
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], tuple(sessions))

    async def find(self, user: UserId, conversation: ConversationId) -> Session | None:
        """One session, or None. Deleted ones too."""
        return next(iter((await self.find_many(user, (conversation,))).sessions), None)

    async def list_groups(self, user: UserId) -> list[ConversationId]:
        """The groups the user is a member of, by id."""
        return sorted(_c(name) for name in (await self._warm(user, "get_sessions", ()))[3:])

    async def attach(self, user: UserId, server: str, until_ms: int) -> tuple[str, int, int | None]:
        """Says that a server holds connections of the user. Answers epoch and clock: events after it reach that server. And
        when the next mute ends, if one does: it is ended by whatever is asked then."""
        self._cache.require_shared()
        return _attached(await self._warm(user, "attach", (server, until_ms)))

    async def attach_again(
        self, users: Sequence[UserId], server: str, until_ms: int
    ) -> list[tuple[str, int, int | None] | None]:
        """Like attach, for many, in one round trip. None: nothing is said of that user, whose state isn't loaded or could not be
        asked."""
        self._cache.require_shared()
        args = (self._clock.now_ms(), server, until_ms)
        answers = await self._cache.attempt([Call("attach", self._keys.user(user), args) for user in users])
        return [_attached(answer) if answer and not isinstance(answer, Exception) else None for answer in answers]

    async def read_log(self, user: UserId, epoch: str, since: int, limit: int) -> list[tuple[int, int, bytes]] | None:
        """Events after a position as (tick, tick before, event), or None if the log can't tell all of them."""
        self._cache.require_shared()
        answer = await self._warm(user, "read_log", (since, epoch, limit))
        if not answer[2]:
            return None
        rows = answer[3:]
        return [(int(rows[i]), int(rows[i + 1]), rows[i + 2]) for i in range(0, len(rows), 3)]

    def apply(self, user: UserId, *changes: LoggedChange, token: str = "") -> Call:
        """Return the call that applies changes to the user's cached state in one step; `parse_results` reads its answer.

        token: of the user's lock, which the same step releases.
        """
        now = max(self._clock.now_ms(), *(change.at for change in changes))
        flat = [part for change in changes for part in (change.kind, change.text)]
        return Call("apply", self._keys.user(user), (now, token, *flat))

    async def _warm(self, user: UserId, script: str, args: tuple[Any, ...]) -> list[Any]:
        """A script's answer over the loaded state: loads it first where it isn't."""
        for _ in range(_LOADS):
            call = Call(script, self._keys.user(user), (self._clock.now_ms(), *args))
            answer: list[Any] = await self._cache.one(call)
            if answer:
                self.looked.hits += 1
                return answer
            self.looked.misses += 1
            await self.load(user)
        raise Unreachable("the cache does not keep what is put into it")

    async def load(self, user: UserId) -> None:
        """Makes the user's state be in Redis. Does nothing where it is."""
        await self._flights.run((self._cache.request_prefix, user), lambda: self._load(user))

    async def _load(self, user: UserId) -> None:
        keys = self._keys.user(user)

        def call(script: str, *args: Any) -> Call:
            return Call(script, keys, (self._clock.now_ms(), *args))

        async def attempt() -> bool:
            token = secrets.token_hex(8)
            state = await self._cache.one(call("load_begin", token, CLAIM_MS))
            if state == b"loaded":
                return True
            if state == b"busy":
                return False
            records = await self._rows.read(user)
            for start in range(0, len(records), _PART):
                part = [text for c, rec in records[start : start + _PART] for text in (c, orjson.dumps(rec))]
                if not await self._cache.one(call("load_part", token, CLAIM_MS, *part)):
                    return False
            clock = max([self._clock.now_ms(), *(rec["a"] for _, rec in records)])
            in_use = sorted({rec["sb"] for _, rec in records if "sb" in rec})
            finish = call("load_finish", token, secrets.token_hex(4), clock, len(records), *in_use)
            moved = await self._cache.one(finish)
            if moved == 0:
                return False
            ticks = [Tick(user, _c(c), int(at), int(w)) for c, at, w in zip(*[iter(moved)] * 3, strict=True)]
            await self._rows.keep_ticks(ticks)
            return True

        await retry_until_true(attempt)


def _attached(answer: Sequence[bytes]) -> tuple[str, int, int | None]:
    epoch, clock, due = answer
    return epoch.decode(), int(clock), int(due) if due else None


def _c(name: bytes) -> ConversationId:
    return ConversationId(name.decode())
