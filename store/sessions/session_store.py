"""Reads of sessions. A user's whole state is in Redis for a day after its last use, loaded from MongoDB on a miss."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.counters import HitCounter
from store.base.errors import Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.redis.cache import Cache, Call
from store.redis.keys import Keys
from store.sessions.changes import LoggedChange
from store.sessions.loading.channel_loader import ChannelLoader
from store.sessions.loading.loaded_state import LoadedState, Snapshot
from store.sessions.loading.state_loader import StateLoader
from store.sessions.session import Session, session_from
from store.sessions.session_lists import AllTotals, UnreadTotals, is_channel
from store.sessions.session_rows import SessionRows

NAMES_PER_CALL = 1_000
"""Sessions that one call asks for by name: Lua takes no more than some thousand values at once."""

_FEW_NAMES = 50
"""Sessions that are cheaper to read alone than to load with the whole state."""

_WITHOUT_CHANNELS = 1
"""Length of the answer of scripts if sessions in channels are not cached, and the rest of the state is."""

_LOADS = 10
"""Attempts to load a state that Redis evicts before it is read."""


@dataclass(frozen=True, slots=True)
class Category:
    """A category that has sessions.

    Attributes:
        name: Its name.
        session_count: Valid sessions in it.
        unread_count: Unread messages, without muted sessions.
        newest: The conversation with the newest message.
        write_ts: `write_ts` of that session, ms.
    """

    name: str
    session_count: int
    unread_count: int
    newest: ConversationId
    write_ts: int


class LivePosition(NamedTuple):
    """The part of a cached state that a server with connections of the user compares with its own.

    Attributes:
        epoch: The epoch of the state.
        clock: The user's clock, ms.
        mute_ends_at: End of the next mute, ms; None if there is none.
        is_held: True while a lock holder changes the state. The state may be outdated if the holder has died.
        route_until: Time until which the server's route is valid, ms; 0 without a route.
    """

    epoch: str
    clock: int
    mute_ends_at: int | None
    is_held: bool
    route_until: int


class ChannelChanges(NamedTuple):
    """Sessions in channels that have changed, all channels that the user follows, and sums, at one moment."""

    snapshot: Snapshot
    totals: AllTotals
    followed: Sequence[ConversationId]


def list_name(sub_biz: str | None, category: str | None) -> str:
    """Return the name of the list with the sessions in a subBiz, a category or both; neither: the main list."""
    if sub_biz is not None and category is not None:
        return f"x{sub_biz} {category}"
    if sub_biz is not None:
        return f"b{sub_biz}"
    return f"c{category}" if category is not None else "m"


class SessionStore:
    """Reads sessions from Redis, and builds the calls that change them there."""

    def __init__(self, rows: SessionRows, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._rows = rows
        self._cache = cache
        self._keys = keys
        self._clock = clock
        self._loader = StateLoader(rows, cache, keys, clock)
        self._channel_loader = ChannelLoader(rows, self._loader, cache, keys, clock)
        self.lookups = HitCounter()
        """Hits and misses of cached states."""

    async def list_page(self, user: UserId, name: str, limit: int, after: tuple[int, str] | None) -> Snapshot:
        """Return valid sessions of a list in display order, after a position and the conversation at it.

        One round trip if the state is cached.
        """
        position, conversation = after or ("", "")
        answer = await self._read(user, "list_page", (name, limit, position, conversation))
        if isinstance(answer, LoadedState):
            return answer.page(name, limit, after)
        return _page_from(user, answer)

    def first_screen_calls(self, user: UserId, name: str, limit: int) -> list[Call]:
        """Return the calls of `list_page`, from the beginning, and `read_all_totals`."""
        keys, now_ms = self._keys.user(user), self._clock.now_ms()
        return [Call("list_page", keys, (now_ms, name, limit, "", "")), Call("get_totals", keys, (now_ms, 1))]

    async def parse_first_screen(
        self, user: UserId, name: str, limit: int, answers: Sequence[Any]
    ) -> tuple[Snapshot, AllTotals]:
        """Return the answers of `first_screen_calls`. Loads what is not cached."""
        page, totals = answers
        snapshot = _page_from(user, page) if page else await self.list_page(user, name, limit, None)
        # Not read before the page: it includes all of that.
        is_cached = page and len(totals) > _WITHOUT_CHANNELS
        return snapshot, totals_from(totals) if is_cached else await self.read_all_totals(user)

    async def list_followed(self, user: UserId, name: str) -> Snapshot:
        """Return the sessions of a list of followed channels, or of all these lists. One round trip if cached."""
        answer = await self.run_on_channels(user, "list_followed", (name,))
        return _snapshot_from(user, answer[:3], answer[3:])

    async def list_names(self, user: UserId, name: str) -> list[ConversationId]:
        """Return the conversations of a list, all at one moment."""
        return [
            _conversation_id(conversation)
            for conversation in (await self._run_on_state(user, "list_names", (name,)))[1:]
        ]

    async def list_undelivered(self, user: UserId) -> list[Session]:
        """Return the valid sessions with messages that are not delivered, at one moment, in no particular order."""
        rows = (await self._run_on_state(user, "list_undelivered", ()))[1:]
        return [session_from(user, _conversation_id(rows[i]), rows[i + 1]) for i in range(0, len(rows), 2)]

    async def list_unread_candidates(self, user: UserId) -> list[Session]:
        """Return all sessions that may be unread or marked unread, without gateways, in no particular order."""
        rows = (await self._run_on_state(user, "list_unread", ()))[1:]
        return [session_from(user, _conversation_id(rows[i]), rows[i + 1]) for i in range(0, len(rows), 2)]

    async def list_changed(self, user: UserId, after: int, limit: int, *, valid_until: int) -> Snapshot:
        """Return sessions whose `active_ts` is past a position, oldest change first, without those in channels.

        No two have the same `active_ts`.
        valid_until: Position up to which only valid sessions are returned.
        """
        answer = await self._read(user, "list_changed", (after, limit, valid_until))
        if isinstance(answer, LoadedState):
            return answer.changed(after, limit, valid_until=valid_until)
        return _snapshot_from(user, answer[:3], answer[3:])

    async def list_changed_channels(self, user: UserId, after: int, limit: int) -> ChannelChanges:
        """Return sessions in channels whose `active_ts` is past a position, oldest change first. See ChannelChanges."""
        answer = await self.run_on_channels(user, "list_changed_channels", (after, limit))
        found = parse_changed_channels(user, answer)
        assert found is not None
        return found

    def changed_channels_call(self, user: UserId, after: int, limit: int) -> Call:
        """Return the call of `list_changed_channels`. `parse_changed_channels` reads its answer."""
        return Call("list_changed_channels", self._keys.user(user), (self._clock.now_ms(), after, limit))

    async def list_categories(self, user: UserId) -> list[Category]:
        """Return the categories that have sessions, the one with the newest message first."""
        rows = (await self._run_on_state(user, "list_categories", ()))[3:]
        categories = [
            Category(
                rows[i].decode(), int(rows[i + 1]), int(rows[i + 2]), _conversation_id(rows[i + 3]), int(rows[i + 4])
            )
            for i in range(0, len(rows), 5)
        ]
        return sorted(categories, key=lambda category: (-category.write_ts, category.name))

    async def read_totals(self, user: UserId) -> UnreadTotals:
        """Return the unread messages, mentions and threads of a user, without channels. One round trip if cached."""
        answer = await self._read(user, "get_totals", (0,))
        if isinstance(answer, LoadedState):
            return answer.lists.totals
        return UnreadTotals(*answer[1:])

    async def read_all_totals(self, user: UserId) -> AllTotals:
        """Return the unread messages, mentions and threads of a user, at one moment. One round trip if cached."""
        return totals_from(await self.run_on_channels(user, "get_totals", (1,)))

    async def find_many(self, user: UserId, conversations: Sequence[ConversationId]) -> Snapshot:
        """Return the user's sessions of some conversations, including deleted ones. Missing ones are left out."""
        in_channels = any(is_channel(conversation) for conversation in conversations)
        sessions: list[Session] = []
        answer: list[Any] = []
        for start in range(0, len(conversations) or 1, NAMES_PER_CALL):
            part = conversations[start : start + NAMES_PER_CALL]
            args = tuple(part) or ("",)
            if in_channels:
                found: list[Any] | LoadedState = await self.run_on_channels(user, "get_sessions", args)
            else:
                found = await self._read(user, "get_sessions", args)
            if isinstance(found, LoadedState):
                return found.find(conversations)
            answer = found
            sessions += _sessions_from(user, part, answer)
        return Snapshot(answer[0].decode(), int(answer[1]), answer[2], tuple(sessions))

    async def find_each(self, user: UserId, conversations: Sequence[ConversationId]) -> Sequence[Session]:
        """Like `find_many`, for callers that need no more than the sessions.

        Few sessions are read from MongoDB if the state is not cached, without loading it.
        """
        is_few = 0 < len(conversations) <= _FEW_NAMES
        has_gateway = any(kind_of(name) is ConversationKind.SUB_BIZ for name in conversations)
        if not is_few or has_gateway or self._loader.is_loading(user):
            return (await self.find_many(user, conversations)).sessions
        answer = await self._try(user, "get_sessions", tuple(conversations))
        if answer:
            if len(answer) == _WITHOUT_CHANNELS:
                return (await self.find_many(user, conversations)).sessions
            return _sessions_from(user, conversations, answer)
        found = await self._rows.read_some(user, conversations)
        return found if found is not None else (await self.find_many(user, conversations)).sessions

    async def find(self, user: UserId, conversation: ConversationId) -> Session | None:
        """Return one session, even if it is deleted, or None."""
        return next(iter(await self.find_each(user, (conversation,))), None)

    async def list_groups(self, user: UserId) -> list[ConversationId]:
        """Return the groups that the user is a member of, by id."""
        return sorted(_conversation_id(name) for name in (await self._run_on_state(user, "get_sessions", ()))[3:])

    async def attach(self, user: UserId, server: str, until_ms: int) -> tuple[str, int, int | None]:
        """Register that a server holds connections of the user until a time (ms).

        Returns the epoch, the clock (all later events reach that server), and the end of the next mute, if there is
        one. The first call on the state after that time ends the mute.
        """
        self._cache.require_shared()
        for _ in range(_LOADS):
            answer = await self._try(user, "attach", (server, until_ms))
            if len(answer) > _WITHOUT_CHANNELS:
                return _attached(answer)
            # Only then is the end of each mute in a channel known.
            await (self._channel_loader if answer else self._loader).load(user)
        raise _evicted()

    async def read_positions(self, users: Sequence[UserId], server: str) -> list[LivePosition | None]:
        """Return the position of each user's state, with the route to a server, in one round trip.

        Changes nothing, and costs little. None: the state is not cached, or Redis did not answer for it.
        """
        self._cache.require_shared()
        calls = []
        for user in users:
            calls.append(Call("HMGET", self._keys.user(user), ("epoch", "clock", "due", "held", "servers")))
            calls.append(Call("ZSCORE", (self._keys.of_user(user, "routes"),), (server,)))
        answers = await self._cache.attempt(calls)
        return [
            _live_position(fields, score, server) for fields, score in zip(answers[::2], answers[1::2], strict=True)
        ]

    async def detach(self, users: Collection[UserId], server: str) -> None:
        """Remove the routes of users to a server. One round trip that no request waits for."""
        self._cache.require_shared()
        if not users:
            return
        args = (self._clock.now_ms(), server)
        await self._cache.run_in_background([Call("detach", self._keys.user(user), args) for user in users])

    async def read_log(self, user: UserId, epoch: str, since: int, limit: int) -> list[tuple[int, int, bytes]] | None:
        """Return the events after a position as (tick, tick before, log entry), or None if the log lacks some."""
        self._cache.require_shared()
        answer = await self._run_on_state(user, "read_log", (since, epoch, limit))
        if not answer[2]:
            return None
        rows = answer[3:]
        return [(int(rows[i]), int(rows[i + 1]), rows[i + 2]) for i in range(0, len(rows), 3)]

    def apply_call(self, user: UserId, *changes: LoggedChange, token: str = "") -> Call:
        """Return the call that applies changes to the user's cached state in one step.

        `parse_results` reads its answer. token: of the user's lock, which the same step releases.
        """
        now = max([self._clock.now_ms(), *(change.at for change in changes)])
        flat = [part for change in changes for part in (change.kind, change.text)]
        return Call("apply", self._keys.user(user), (now, token, *flat))

    async def _read(self, user: UserId, script: str, args: tuple[Any, ...]) -> list[Any] | LoadedState:
        """Return a script's answer on the user's state; if it is not cached, the state as MongoDB has it."""
        for _ in range(_LOADS):
            answer = await self._try(user, script, args)
            if answer:
                return answer
            state = await self._loader.read(user)
            if state is not None:
                return state
        raise _evicted()

    async def _run_on_state(self, user: UserId, script: str, args: tuple[Any, ...]) -> list[Any]:
        """Return a script's answer on the user's state, which is loaded first if it is not cached."""
        for _ in range(_LOADS):
            answer = await self._try(user, script, args)
            if answer:
                return answer
            await self.load(user)
        raise _evicted()

    async def run_on_channels(self, user: UserId, script: str, args: tuple[Any, ...]) -> list[Any]:
        """Return a script's answer on the user's state with the sessions in channels, which are loaded if needed."""
        for _ in range(_LOADS):
            answer = await self._try(user, script, args)
            if len(answer) > _WITHOUT_CHANNELS:
                return answer
            await self._channel_loader.load(user)
        raise _evicted()

    async def _try(self, user: UserId, script: str, args: tuple[Any, ...]) -> list[Any]:
        """Return a script's answer on the user's state; empty if the state is not cached."""
        answer: list[Any] = await self._cache.one(Call(script, self._keys.user(user), (self._clock.now_ms(), *args)))
        if answer:
            self.lookups.hits += 1
        else:
            self.lookups.misses += 1
        return answer

    async def load(self, user: UserId) -> None:
        """Make the user's state cached. Does nothing if it is."""
        await self._loader.load(user)


def parse_changed_channels(user: UserId, answer: Sequence[Any]) -> ChannelChanges | None:
    """Return the answer of `changed_channels_call`; None: the sessions in channels are not cached."""
    if len(answer) <= _WITHOUT_CHANNELS:
        return None
    mentioned_end = 6 + 2 * answer[5]
    followed_end = mentioned_end + 1 + answer[mentioned_end]
    totals = AllTotals(answer[2], answer[3], answer[4], _counts_from(answer[6:mentioned_end]))
    followed = [_conversation_id(name) for name in answer[mentioned_end + 1 : followed_end]]
    return ChannelChanges(_snapshot_from(user, answer[:3], answer[followed_end:]), totals, followed)


def _page_from(user: UserId, answer: Sequence[Any]) -> Snapshot:
    """Return the sessions in an answer of `list_page`."""
    rows = answer[3:]
    sessions = tuple(session_from(user, _conversation_id(rows[i + 1]), rows[i + 2]) for i in range(0, len(rows), 3))
    positions = tuple(int(rows[i]) for i in range(0, len(rows), 3))
    return Snapshot(answer[0].decode(), int(answer[1]), answer[2], sessions, positions)


def totals_from(answer: Sequence[Any]) -> AllTotals:
    """Return the sums in an answer of `get_totals`."""
    _, messages, mentions, threads, _, *in_channels = answer
    return AllTotals(messages, mentions, threads, _counts_from(in_channels))


def _counts_from(rows: Sequence[Any]) -> dict[ConversationId, int]:
    """Return the numbers of mentions in an answer: number and channel in turn."""
    return {_conversation_id(rows[i + 1]): rows[i] for i in range(0, len(rows), 2)}


def _snapshot_from(user: UserId, meta: Sequence[Any], rows: Sequence[Any]) -> Snapshot:
    """Return the sessions in an answer: epoch, clock and total, then conversation and record in turn."""
    sessions = tuple(session_from(user, _conversation_id(rows[i]), rows[i + 1]) for i in range(0, len(rows), 2))
    return Snapshot(meta[0].decode(), int(meta[1]), meta[2], sessions)


def _sessions_from(user: UserId, conversations: Sequence[ConversationId], answer: list[Any]) -> list[Session]:
    """Return the sessions in an answer of `get_sessions`."""
    return [session_from(user, name, text) for name, text in zip(conversations, answer[3:], strict=False) if text]


def _evicted() -> Unreachable:
    return Unreachable("Redis evicts sessions as soon as they are loaded: give it more memory")


def _attached(answer: Sequence[bytes]) -> tuple[str, int, int | None]:
    epoch, clock, due = answer
    return epoch.decode(), int(clock), int(due) if due else None


def _live_position(fields: Any, score: Any, server: str) -> LivePosition | None:
    if isinstance(fields, Exception) or isinstance(score, Exception):
        return None
    epoch, clock, due, held, routes = fields
    if epoch is None or clock is None:
        return None
    # The key and its copy in `meta` can be evicted one without the other.
    is_routed = score is not None and routes is not None and server.encode() in routes.split()
    mute_ends_at, route_until = int(due) if due else None, int(score) if is_routed else 0
    return LivePosition(epoch.decode(), int(clock), mute_ends_at, held is not None, route_until)


def _conversation_id(name: bytes) -> ConversationId:
    return ConversationId(name.decode())
