"""Shared clocks in Redis: one per workspace.

A tick is the time in ms, or one more than the tick before if that is later. Nothing of a clock is in MongoDB. When
Redis loses it, a new epoch begins, and positions from before it cannot be resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from store.base.clock import Clock
from store.base.ids import UserId
from store.redis.cache import Cache, Call
from store.redis.keys import Keys

_LOG_VALUES = 4
"""Values of each event in the answer of `clock_read_log.lua`."""


class ChangeList(StrEnum):
    """A list of a clock that names the objects of events."""

    RECENT = "recent"
    """Channels by their newest message."""
    CHANGED = "changed"
    """Objects by their newest change."""
    MEMBERS = "members"
    """Users by the newest change of their membership."""


@dataclass(frozen=True, slots=True)
class ClockEntry:
    """An event to append to a shared clock.

    Attributes:
        text: The log entry. No two events of a clock have the same one.
        version: The policy version under which subscribers may see it, as far as the caller knows.
        objects: The objects of the event, each with its list.
        channel: The channel of the message that it is about; "" for other events.
        may_repeat: True if the entry may be in the log already.
    """

    text: str
    version: str = ""
    objects: Sequence[tuple[ChangeList, str]] = ()
    channel: str = ""
    may_repeat: bool = False


class Appended(NamedTuple):
    """An event on its clock.

    Attributes:
        epoch: The clock's epoch.
        tick: The event's tick; 0 if the same entry was in the log already.
        previous: The tick before it.
        version: The policy version under which subscribers may see it.
        servers: The servers with connections that look at the clock.
    """

    epoch: str
    tick: int
    previous: int
    version: str
    servers: Sequence[str]


class LoggedEvent(NamedTuple):
    """An event in the log.

    Attributes:
        tick: Its tick.
        entry: Its entry.
        version: The policy version under which subscribers may see it; "" if none is known.
        channel: The channel of the message that it is about; "" for other events.
    """

    tick: int
    entry: bytes
    version: str
    channel: str


class LogPage(NamedTuple):
    """Consecutive events of a clock, oldest first.

    Attributes:
        epoch: The clock's epoch.
        clock: The clock at that moment.
        earliest: The earliest position that can be resumed.
        events: The events after the position asked for, or after `earliest` if that is later.
    """

    epoch: str
    clock: int
    earliest: int
    events: Sequence[LoggedEvent]


class ClockReading(NamedTuple):
    """A clock at one moment, with the newest known policy version. State that is read later includes `tick`."""

    epoch: str
    tick: int
    policy_version: int | None


class EpochReading(NamedTuple):
    """A clock at one moment, with its epoch.

    Attributes:
        tick: The clock.
        begin: The clock when the epoch began.
        age_ms: Time since the epoch began, by the time of Redis.
    """

    tick: int
    begin: int
    age_ms: float


class ClockPosition(NamedTuple):
    """A clock and the end of a server's route to it, ms; 0 without a route."""

    epoch: str
    clock: int
    route_until: int


@dataclass(frozen=True, slots=True)
class ChangesSince:
    """Changes on a clock after a tick, with the tick of the newest change of each.

    `is_complete`: False if the tick is in the future, or too old. `own`: the newest change of the membership of the
    user who asked; 0 if it has not changed.
    """

    reading: ClockReading
    is_complete: bool
    recent: Mapping[str, int]
    changed: Mapping[str, int]
    own: int


class SharedClocks:
    """Reads and advances shared clocks. An owner is the id of a workspace."""

    def __init__(self, cache: Cache, keys: Keys, clock: Clock) -> None:
        self._cache = cache
        self._keys = keys
        self._clock = clock

    def append_call(self, owner: str, entry: ClockEntry) -> Call:
        """Return the call that appends an event. `parse_appended` reads its answer."""
        objects = [part for kind, name in entry.objects for part in (kind.value, name)]
        may_repeat = "1" if entry.may_repeat else ""
        return self._call("clock_append", owner, entry.text, entry.version, may_repeat, entry.channel, *objects)

    async def append(self, owner: str, entry: ClockEntry) -> Appended:
        """Append an event. Raises Unreachable: it may have been appended."""
        return parse_appended(await self._cache.one(self.append_call(owner, entry)))

    async def read(self, owners: Sequence[str]) -> list[ClockReading]:
        """Return the present clocks, in one round trip. Clocks that are not there begin."""
        return [parse_reading(answer) for answer in await self._read(owners)]

    async def read_epochs(self, owners: Sequence[str]) -> list[EpochReading]:
        """Return the present clocks with their epochs, in one round trip. Clocks that are not there begin."""
        return [
            EpochReading(int(clock), int(begin), int(age_us) / 1_000)
            for _, clock, _, begin, age_us in await self._read(owners)
        ]

    async def _read(self, owners: Sequence[str]) -> list[Any]:
        return await self._cache.run([self._call("clock_read", owner) for owner in owners])

    def read_call(self, owner: str) -> Call:
        """Return the call that reads a clock, which begins if it is not there. `parse_reading` reads its answer."""
        return self._call("clock_read", owner)

    async def find(self, owners: Sequence[str]) -> list[ClockReading | None]:
        """Return the present clocks, in one round trip that changes nothing. None for clocks that are not there."""
        calls = [Call("HMGET", self._keys.clock(owner), ("epoch", "clock", "pv")) for owner in owners]
        return [parse_reading(answer) if answer[0] is not None else None for answer in await self._cache.run(calls)]

    async def read_changes(
        self, since: Mapping[str, int], user: UserId, *, recent_margin: int = 0
    ) -> dict[str, ChangesSince]:
        """Return what changed on each clock after a tick, in one round trip.

        Args:
            since: The tick on each clock.
            user: The user who asks.
            recent_margin: How much earlier the newest messages of channels may be.
        """
        calls = [self.changes_call(owner, tick, user, recent_margin) for owner, tick in since.items()]
        answers = await self._cache.run(calls)
        return {owner: parse_changes(answer) for owner, answer in zip(since, answers, strict=True)}

    def changes_call(self, owner: str, since: int, user: UserId, recent_margin: int = 0) -> Call:
        """Return the call that reads what changed on a clock after a tick. `parse_changes` reads its answer."""
        return self._call("clock_read_changes", owner, since, recent_margin, user)

    async def read_log(self, owner: str, since: int, limit: int) -> LogPage:
        """Return up to `limit` events after a tick, or after the earliest position that can be resumed."""
        self._cache.require_shared()
        epoch, clock, earliest, *rows = await self._cache.one(self._call("clock_read_log", owner, since, limit))
        events = [
            LoggedEvent(int(tick), entry, version.decode(), channel.decode())
            for tick, entry, version, channel in zip(*(rows[i::_LOG_VALUES] for i in range(_LOG_VALUES)), strict=True)
        ]
        return LogPage(epoch.decode(), int(clock), int(earliest), events)

    async def attach(self, owner: str, server: str, until_ms: int) -> tuple[str, int]:
        """Register that connections of a server look at a clock until a time (ms).

        Returns epoch and clock: all later events reach that server.
        """
        self._cache.require_shared()
        epoch, clock = await self._cache.one(self._call("clock_attach", owner, server, until_ms))
        return epoch.decode(), int(clock)

    async def read_positions(self, owners: Sequence[str], server: str) -> list[ClockPosition | None]:
        """Return each clock with the route to a server, in one round trip. Changes nothing.

        None: there is no clock, or Redis did not answer for it.
        """
        self._cache.require_shared()
        calls = []
        for owner in owners:
            calls.append(Call("HMGET", self._keys.clock(owner), ("epoch", "clock")))
            calls.append(Call("ZSCORE", (self._keys.of_clock(owner, "routes"),), (server,)))
        answers = await self._cache.attempt(calls)
        return [_position(meta, score) for meta, score in zip(answers[::2], answers[1::2], strict=True)]

    async def detach(self, owners: Collection[str], server: str) -> None:
        """Remove the routes to a server. One round trip that no request waits for."""
        self._cache.require_shared()
        if owners:
            await self._cache.run_in_background(
                [Call("ZREM", (self._keys.of_clock(owner, "routes"),), (server,)) for owner in owners]
            )

    async def end_epoch(self, owner: str) -> None:
        """Let a clock begin a new epoch, as after its loss: all subscriptions to it get a reset.

        Called if events are missing in its log. Servers notice the new epoch within half a minute, or with the next
        frame. Raises Unreachable.
        """
        await self._cache.one(Call("HDEL", self._keys.clock(owner), ("epoch",)))

    async def list_servers(self, owner: str) -> list[str]:
        """Return the servers with connections that look at a clock."""
        routes = (self._keys.of_clock(owner, "routes"),)
        servers = await self._cache.one(Call("ZRANGEBYSCORE", routes, (self._clock.now_ms(), "+inf")))
        return [server.decode() for server in servers]

    def _call(self, script: str, owner: str, *args: str | int) -> Call:
        return Call(script, self._keys.clock(owner), (self._clock.now_ms(), *args))


def parse_appended(answer: Sequence[bytes]) -> Appended:
    """Return the answer of an append."""
    epoch, tick, previous, version, *servers = answer
    return Appended(epoch.decode(), int(tick), int(previous), version.decode(), [server.decode() for server in servers])


def parse_reading(answer: Sequence[bytes]) -> ClockReading:
    """Return the answer of `SharedClocks.read_call`."""
    epoch, clock, version = answer[:3]
    return ClockReading(epoch.decode(), int(clock), int(version) if version else None)


def parse_changes(answer: Sequence[Any]) -> ChangesSince:
    """Return the answer of `SharedClocks.changes_call`."""
    reading, complete, own, channels = parse_reading(answer), bool(answer[3]), int(answer[4]), answer[5]
    first_changed = 6 + 2 * channels
    recent, changed = answer[6:first_changed], answer[first_changed:]
    return ChangesSince(reading, complete, _pairs(recent), _pairs(changed), own)


def _pairs(flat: Sequence[bytes]) -> dict[str, int]:
    return {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}


def _position(meta: Any, score: Any) -> ClockPosition | None:
    if isinstance(meta, Exception) or isinstance(score, Exception):
        return None
    epoch, clock = meta
    if epoch is None or clock is None:
        return None
    return ClockPosition(epoch.decode(), int(clock), int(score) if score is not None else 0)
