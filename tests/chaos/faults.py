"""What goes wrong while clients are at work: faults of servers, of MongoDB, of Redis and of what lies between, from a seed.

Each of three lanes does one thing at a time, of bounded length, and then leaves its part in peace for a while: so faults of
different parts meet. Every fault says in the history when it began and when it was healed. What Redis lost is noted with the
moment of the loss.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.asyncio import Redis

from tests.chaos.databases import MEMBERS, Databases, hold_process
from tests.chaos.fleet import Fleet
from tests.chaos.history import History

LINK_MODES = ("stall", "mute", "slow", "lossy", "cut")

_SERVER = {"kill a server": 4, "kill all but one server": 1, "stop a server": 3, "hold a server": 4}
_MONGO = {
    "kill the primary": 4, "step down the primary": 4, "hold the primary": 3, "hold a secondary": 1, "kill a secondary": 1,
    "lock the primary's disk": 2, "MongoDB's links": 5, "hold all of MongoDB": 2, "slow the primary": 1,
}  # fmt: skip
_REDIS = {
    "restart Redis, kept": 2, "restart Redis, empty": 2, "restart Redis, from an older snapshot": 4, "flush Redis": 3,
    "hold Redis": 3, "links to Redis": 5, "lose a user in Redis": 3, "take Redis away": 2, "flush Redis and kill a server": 2,
}  # fmt: skip

_KINDS = {"servers": _SERVER, "MongoDB": _MONGO, "Redis": _REDIS}
_LONGEST_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad it is. rest: seconds between two faults of one lane, on average; reach: the part of their usual length that they
    have; lanes: which parts are hurt; without: faults that are left out, by a part of their names; alone: one thing at a time, in all."""

    rest: float = 9.0
    reach: float = 1.0
    lanes: tuple[str, ...] = ("servers", "MongoDB", "Redis")
    without: tuple[str, ...] = ()
    alone: bool = False

    def kinds(self, lane: str) -> dict[str, int]:
        """The lane's faults, and how often each is of the sum of all."""
        return {name: often for name, often in _KINDS[lane].items() if not any(part in name for part in self.without)}


class Faults:
    """One run's."""

    def __init__(
        self, fleet: Fleet, databases: Databases, users: list[str], prefix: str, history: History, seed: int
    ) -> None:
        """prefix: of the keys in Redis."""
        self._fleet = fleet
        self._databases = databases
        self._users = users
        self._prefix = prefix
        self._history = history
        self._rng = random.Random(seed)
        self._weather = Weather()

    async def run(self, until: float, weather: Weather) -> None:
        """Until a time of the monotonic clock, or a little later. All is whole then."""
        self._weather = weather
        kinds = [weather.kinds(lane) for lane in weather.lanes]
        if weather.alone:
            kinds = [{name: often for some in kinds for name, often in some.items()}]
        lanes = [self._lane(until, some, random.Random(self._rng.getrandbits(32))) for some in kinds]
        await asyncio.gather(*lanes)

    async def _lane(self, until: float, kinds: dict[str, int], rng: random.Random) -> None:
        while True:
            rest = min(rng.expovariate(1 / self._weather.rest), 3 * self._weather.rest)
            if time.monotonic() + rest + _LONGEST_SECONDS * self._weather.reach > until:
                return
            await asyncio.sleep(rest)
            name = rng.choices(list(kinds), list(kinds.values()))[0]
            await self.inflict(name, rng, rng.uniform(0.1, 1.0) * _LONGEST_SECONDS * self._weather.reach)

    async def inflict(self, name: str, rng: random.Random, seconds: float) -> None:
        """One fault, to its healing."""
        method = name.lower().replace("'s", "s").replace(",", "").replace(" ", "_")
        fault: Callable[[random.Random, float], Awaitable[str | None]] = getattr(self, f"_{method}")
        self._history.note("fault", name=name, state="begins", seconds=seconds)
        detail = await fault(rng, seconds)
        self._history.note("fault", name=f"{name} ({detail})" if detail else name, state="healed")

    def _lost(self, user: str | None = None) -> None:
        self._history.note("fault", name="loss", state="begins", lost=user or "all")

    # --- servers

    def _victim(self, rng: random.Random) -> int | None:
        """One of the servers that are up, if another one stays."""
        up = [index for index in range(len(self._fleet.servers)) if index not in self._fleet.down]
        return rng.choice(up) if len(up) > 1 else None

    async def _kill_a_server(self, rng: random.Random, seconds: float) -> None:
        index = self._victim(rng)
        if index is not None:
            await self._fleet.kill(index)
            await asyncio.sleep(seconds / 2)
            await self._fleet.restart(index)

    async def _kill_all_but_one_server(self, rng: random.Random, seconds: float) -> None:
        up = [index for index in range(len(self._fleet.servers)) if index not in self._fleet.down]
        victims = rng.sample(up, len(up) - 1)
        await asyncio.gather(*(self._fleet.kill(index) for index in victims))
        await asyncio.sleep(seconds / 2)
        await asyncio.gather(*(self._fleet.restart(index) for index in victims))

    async def _stop_a_server(self, rng: random.Random, seconds: float) -> None:
        index = self._victim(rng)
        if index is not None:
            await self._fleet.terminate(index)
            await asyncio.sleep(seconds / 8)
            await self._fleet.restart(index)

    async def _hold_a_server(self, rng: random.Random, seconds: float) -> None:
        index = self._victim(rng)
        if index is not None:
            # Past the five seconds after which others take over what it was about to finish.
            await self._fleet.hold(index, seconds * 1.5)

    # --- MongoDB

    async def _kill_the_primary(self, _rng: random.Random, seconds: float) -> None:
        await self._kill_member(await asyncio.to_thread(self._databases.await_primary), seconds)

    async def _kill_a_secondary(self, rng: random.Random, seconds: float) -> None:
        await self._kill_member(await self._secondary(rng), seconds)

    async def _kill_member(self, number: int, seconds: float) -> None:
        member = self._databases.members[number]
        await asyncio.to_thread(member.kill)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(member.launch)
        await asyncio.to_thread(member.await_ready)

    async def _secondary(self, rng: random.Random) -> int:
        primary = await asyncio.to_thread(self._databases.await_primary)
        return rng.choice([number for number in range(MEMBERS) if number != primary])

    async def _step_down_the_primary(self, _rng: random.Random, seconds: float) -> None:
        await asyncio.to_thread(self._databases.step_down, 1 + int(seconds))
        await asyncio.to_thread(self._databases.await_primary)

    async def _hold_the_primary(self, _rng: random.Random, seconds: float) -> None:
        await self._hold_members([await asyncio.to_thread(self._databases.await_primary)], seconds)

    async def _hold_a_secondary(self, rng: random.Random, seconds: float) -> None:
        await self._hold_members([await self._secondary(rng)], seconds)

    async def _hold_all_of_mongodb(self, _rng: random.Random, seconds: float) -> None:
        await self._hold_members(list(range(MEMBERS)), seconds)

    async def _hold_members(self, numbers: list[int], seconds: float) -> None:
        pids = [pid for number in numbers if (pid := self._databases.members[number].pid) is not None]
        await asyncio.gather(*(hold_process(pid, seconds) for pid in pids))
        await asyncio.to_thread(self._databases.await_primary)

    async def _slow_the_primary(self, _rng: random.Random, seconds: float) -> None:
        """Four fifths of the time it stands still."""
        pid = self._databases.members[await asyncio.to_thread(self._databases.await_primary)].pid
        ends = time.monotonic() + seconds
        while pid is not None and time.monotonic() < ends:
            await hold_process(pid, 0.2)
            await asyncio.sleep(0.05)

    async def _lock_the_primarys_disk(self, _rng: random.Random, seconds: float) -> None:
        number = await asyncio.to_thread(self._databases.await_primary)
        await asyncio.to_thread(self._databases.lock_disk, number, locked=True)
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(self._databases.lock_disk, number, locked=False)
            await asyncio.to_thread(self._databases.await_primary)

    async def _mongodbs_links(self, rng: random.Random, seconds: float) -> str:
        """The primary's, or all."""
        every = rng.random() < 0.3
        places = list(range(MEMBERS)) if every else [await asyncio.to_thread(self._databases.await_primary)]
        detail = await self._hurt_links(places, rng, seconds)
        await asyncio.to_thread(self._databases.await_primary)
        return f"{'all' if every else 'primary'}: {detail}"

    async def _hurt_links(self, places: list[int], rng: random.Random, seconds: float) -> str:
        mode = rng.choice(LINK_MODES)
        delay = rng.uniform(0.02, 0.3)
        for place in places:
            await asyncio.to_thread(self._databases.set_link, place, mode, delay)
        try:
            await asyncio.sleep(seconds)
        finally:
            for place in places:
                await asyncio.to_thread(self._databases.set_link, place, "pass")
        return mode

    # --- Redis

    async def _links_to_redis(self, rng: random.Random, seconds: float) -> str:
        """One server's, which the others know nothing of, or all."""
        every = rng.random() < 0.4
        places = list(self._databases.redis_links) if every else [rng.choice(self._databases.redis_links)]
        return f"{'all' if every else 'one'}: {await self._hurt_links(places, rng, seconds)}"

    async def _hold_redis(self, _rng: random.Random, seconds: float) -> None:
        pid = self._databases.redis.pid
        if pid is not None:
            await hold_process(pid, seconds)

    async def _restart_redis_kept(self, _rng: random.Random, _seconds: float) -> None:
        # What comes in between the writing and the end is lost.
        await self._restart_redis("kept", 0.0)

    async def _restart_redis_empty(self, _rng: random.Random, _seconds: float) -> None:
        await self._restart_redis("nothing", 0.0)

    async def _take_redis_away(self, _rng: random.Random, seconds: float) -> None:
        await self._restart_redis("nothing", seconds)

    async def _restart_redis_from_an_older_snapshot(self, _rng: random.Random, seconds: float) -> None:
        await asyncio.to_thread(self._databases.take_snapshot)
        await asyncio.sleep(seconds)
        await self._restart_redis("earlier", 0.0)

    async def _restart_redis(self, begins_with: str, seconds: float) -> None:
        self._lost()
        await asyncio.to_thread(self._databases.stop_redis, keeping=begins_with == "kept")
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self._databases.start_redis, begins_with)
        self._lost()

    async def _flush_redis(self, _rng: random.Random, _seconds: float) -> None:
        self._lost()
        await self._databases.flush_redis()

    async def _lose_a_user_in_redis(self, rng: random.Random, _seconds: float) -> None:
        user = rng.choice(self._users)
        async with Redis.from_url(self._databases.true_redis_url) as redis:
            keys = [key async for key in redis.scan_iter(match=f"{self._prefix}*{{u:{user}}}:*", count=1000)]
            self._lost(user)
            if keys:
                await redis.delete(*keys)

    async def _flush_redis_and_kill_a_server(self, rng: random.Random, seconds: float) -> None:
        """What a server had not finished as it died is lost too, before another one takes it over."""

        async def flush() -> None:
            await asyncio.sleep(rng.uniform(0.0, seconds / 2))
            await self._flush_redis(rng, seconds)

        await asyncio.gather(self._kill_a_server(rng, seconds), flush())
