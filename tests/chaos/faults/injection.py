"""Injects faults into servers, MongoDB, Redis and the links between them, at random from a seed.

Each part (servers, MongoDB, Redis) has one fault at a time, of bounded duration, and then a pause: so faults of
different parts overlap. The history notes when each fault began and when it was healed, and the moment of each loss of
data in Redis.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.asyncio import Redis

from tests.chaos.faults.databases import MEMBERS, FaultyDatabases, freeze_process
from tests.chaos.faults.servers import FaultyServers
from tests.chaos.judges.history import History

LINK_MODES = ("stall", "mute", "slow", "lossy", "cut")

_SERVERS = {"kill a server": 4, "kill all but one server": 1, "stop a server": 3, "freeze a server": 4}
_MONGODB = {
    "kill the primary": 4, "step down the primary": 4, "freeze the primary": 3, "freeze a secondary": 1,
    "kill a secondary": 1, "lock the primary's disk": 2, "MongoDB's links": 5, "freeze all of MongoDB": 2,
    "slow the primary": 1,
}  # fmt: skip
_REDIS = {
    "restart Redis, saved": 2, "restart Redis, empty": 2, "restart Redis, from an older snapshot": 4, "flush Redis": 3,
    "freeze Redis": 3, "links to Redis": 5, "lose a user in Redis": 3, "take Redis away": 2,
    "flush Redis and kill a server": 2,
}  # fmt: skip
_CACHE = {"lose keys in Redis": 6, "lose a user in Redis": 3, "flush Redis": 1}

_KINDS = {"servers": _SERVERS, "MongoDB": _MONGODB, "Redis": _REDIS, "cache": _CACHE}
_LONGEST_SECONDS = 8.0
_KEYS_AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a run, and how often they come."""

    rest: float = 9.0
    """Seconds between two faults of one part, on average."""
    reach: float = 1.0
    """The share of its usual duration that each fault has."""
    parts: tuple[str, ...] = ("servers", "MongoDB", "Redis")
    """The parts that have faults. "cache" loses keys of Redis, which stays up."""
    without: tuple[str, ...] = ()
    """Parts of the names of faults to leave out."""
    alone: bool = False
    """True if there is only one fault at a time in all."""

    def kinds(self, part: str) -> dict[str, int]:
        """Return a part's faults, each with its share of the sum of all."""
        return {name: share for name, share in _KINDS[part].items() if not any(text in name for text in self.without)}


class Faults:
    """Injects the faults of one run."""

    def __init__(
        self,
        servers: FaultyServers,
        databases: FaultyDatabases,
        users: list[str],
        prefix: str,
        history: History,
        seed: int,
    ) -> None:
        """Prepare. prefix: of the keys in Redis."""
        self._servers = servers
        self._databases = databases
        self._users = users
        self._prefix = prefix
        self._history = history
        self._rng = random.Random(seed)
        self._plan = FaultPlan()

    async def run(self, until: float, plan: FaultPlan) -> None:
        """Inject faults until a time of the monotonic clock. All of them are healed on return."""
        self._plan = plan
        kinds = [plan.kinds(part) for part in plan.parts]
        if plan.alone:
            kinds = [{name: share for part in kinds for name, share in part.items()}]
        tasks = [self._inject_repeatedly(until, part, random.Random(self._rng.getrandbits(32))) for part in kinds]
        await asyncio.gather(*tasks)

    async def _inject_repeatedly(self, until: float, kinds: dict[str, int], rng: random.Random) -> None:
        while True:
            rest = min(rng.expovariate(1 / self._plan.rest), 3 * self._plan.rest)
            if time.monotonic() + rest + _LONGEST_SECONDS * self._plan.reach > until:
                return
            await asyncio.sleep(rest)
            name = rng.choices(list(kinds), list(kinds.values()))[0]
            await self.inject(name, rng, rng.uniform(0.1, 1.0) * _LONGEST_SECONDS * self._plan.reach)

    async def inject(self, name: str, rng: random.Random, seconds: float) -> None:
        """Inject one fault of a duration, and return when it is healed."""
        method = name.lower().replace("'s", "s").replace(",", "").replace(" ", "_")
        fault: Callable[[random.Random, float], Awaitable[str | None]] = getattr(self, f"_{method}")
        self._history.note("fault", name=name, state="begins", seconds=seconds)
        detail = await fault(rng, seconds)
        self._history.note("fault", name=f"{name} ({detail})" if detail else name, state="healed")

    def _note_loss(self, user: str | None = None) -> None:
        self._history.note("fault", name="loss", state="begins", lost=user or "all")

    # --- servers

    def _victim(self, rng: random.Random) -> int | None:
        """Return a server that is up, if another one stays up."""
        up = self._up()
        return rng.choice(up) if len(up) > 1 else None

    def _up(self) -> list[int]:
        return [index for index in range(len(self._servers.processes)) if index not in self._servers.down]

    async def _kill_a_server(self, rng: random.Random, seconds: float) -> None:
        index = self._victim(rng)
        if index is not None:
            await self._servers.kill(index)
            await asyncio.sleep(seconds / 2)
            await self._servers.restart(index)

    async def _kill_all_but_one_server(self, rng: random.Random, seconds: float) -> None:
        up = self._up()
        victims = rng.sample(up, len(up) - 1)
        await asyncio.gather(*(self._servers.kill(index) for index in victims))
        await asyncio.sleep(seconds / 2)
        await asyncio.gather(*(self._servers.restart(index) for index in victims))

    async def _stop_a_server(self, rng: random.Random, seconds: float) -> None:
        index = self._victim(rng)
        if index is not None:
            await self._servers.terminate(index)
            await asyncio.sleep(seconds / 8)
            await self._servers.restart(index)

    async def _freeze_a_server(self, rng: random.Random, seconds: float) -> None:
        index = self._victim(rng)
        if index is not None:
            # Longer than the five seconds after which other servers take over its unfinished messages.
            await self._servers.freeze(index, seconds * 1.5)

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

    async def _freeze_the_primary(self, _rng: random.Random, seconds: float) -> None:
        await self._freeze_members([await asyncio.to_thread(self._databases.await_primary)], seconds)

    async def _freeze_a_secondary(self, rng: random.Random, seconds: float) -> None:
        await self._freeze_members([await self._secondary(rng)], seconds)

    async def _freeze_all_of_mongodb(self, _rng: random.Random, seconds: float) -> None:
        await self._freeze_members(list(range(MEMBERS)), seconds)

    async def _freeze_members(self, numbers: list[int], seconds: float) -> None:
        pids = [pid for number in numbers if (pid := self._databases.members[number].pid) is not None]
        await asyncio.gather(*(freeze_process(pid, seconds) for pid in pids))
        await asyncio.to_thread(self._databases.await_primary)

    async def _slow_the_primary(self, _rng: random.Random, seconds: float) -> None:
        """Freeze the primary four fifths of the time."""
        pid = self._databases.members[await asyncio.to_thread(self._databases.await_primary)].pid
        ends = time.monotonic() + seconds
        while pid is not None and time.monotonic() < ends:
            await freeze_process(pid, 0.2)
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
        """Disturb the primary's link, or all."""
        every = rng.random() < 0.3
        links = list(range(MEMBERS)) if every else [await asyncio.to_thread(self._databases.await_primary)]
        detail = await self._disturb_links(links, rng, seconds)
        await asyncio.to_thread(self._databases.await_primary)
        return f"{'all' if every else 'primary'}: {detail}"

    async def _disturb_links(self, links: list[int], rng: random.Random, seconds: float) -> str:
        mode = rng.choice(LINK_MODES)
        delay = rng.uniform(0.02, 0.3)
        for link in links:
            await asyncio.to_thread(self._databases.set_link, link, mode, delay)
        try:
            await asyncio.sleep(seconds)
        finally:
            for link in links:
                await asyncio.to_thread(self._databases.set_link, link, "pass")
        return mode

    # --- Redis

    async def _links_to_redis(self, rng: random.Random, seconds: float) -> str:
        """Disturb one server's link, which the other servers do not notice, or all."""
        every = rng.random() < 0.4
        links = list(self._databases.redis_links) if every else [rng.choice(self._databases.redis_links)]
        return f"{'all' if every else 'one'}: {await self._disturb_links(links, rng, seconds)}"

    async def _freeze_redis(self, _rng: random.Random, seconds: float) -> None:
        pid = self._databases.redis.pid
        if pid is not None:
            await freeze_process(pid, seconds)

    async def _restart_redis_saved(self, _rng: random.Random, _seconds: float) -> None:
        # Writes between the saving and the kill are lost.
        await self._restart_redis("saved", 0.0)

    async def _restart_redis_empty(self, _rng: random.Random, _seconds: float) -> None:
        await self._restart_redis("none", 0.0)

    async def _take_redis_away(self, _rng: random.Random, seconds: float) -> None:
        await self._restart_redis("none", seconds)

    async def _restart_redis_from_an_older_snapshot(self, _rng: random.Random, seconds: float) -> None:
        await asyncio.to_thread(self._databases.take_snapshot)
        await asyncio.sleep(seconds)
        await self._restart_redis("snapshot", 0.0)

    async def _restart_redis(self, contents: str, seconds: float) -> None:
        self._note_loss()
        await asyncio.to_thread(self._databases.stop_redis, keep=contents == "saved")
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self._databases.start_redis, contents)
        self._note_loss()

    async def _flush_redis(self, _rng: random.Random, _seconds: float) -> None:
        self._note_loss()
        await self._databases.flush_redis()

    async def _lose_keys_in_redis(self, rng: random.Random, _seconds: float) -> None:
        async with Redis.from_url(self._databases.direct_redis_url) as redis:
            for _ in range(rng.randint(1, _KEYS_AT_ONCE)):
                key = await redis.randomkey()
                if key is not None:
                    self._note_loss()
                    await redis.delete(key)

    async def _lose_a_user_in_redis(self, rng: random.Random, _seconds: float) -> None:
        user = rng.choice(self._users)
        async with Redis.from_url(self._databases.direct_redis_url) as redis:
            keys = [key async for key in redis.scan_iter(match=f"{self._prefix}*{{u:{user}}}:*", count=1000)]
            self._note_loss(user)
            if keys:
                await redis.delete(*keys)

    async def _flush_redis_and_kill_a_server(self, rng: random.Random, seconds: float) -> None:
        """Lose the unfinished messages of a dead server too, before another server takes them over."""

        async def flush() -> None:
            await asyncio.sleep(rng.uniform(0.0, seconds / 2))
            await self._flush_redis(rng, seconds)

        await asyncio.gather(self._kill_a_server(rng, seconds), flush())
