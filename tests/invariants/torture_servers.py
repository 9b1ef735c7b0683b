"""The servers of the torture, and what is done to them: killed, told to stop, started again, robbed of their cache."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

from redis.asyncio import Redis

from server.embedded import EmbeddedServers, ports
from store.ids import PARTITIONS
from store.keys import Keys
from tests.invariants.torture_wire import Tally, lines_of
from tests.processes import ServerProcess, start_server, until_ready

SETTINGS = {"ws_queue": "100", "ws_ping_interval": "5"}
"""Small enough for a stalled device to pass them within the time there is."""


class Fleet:
    """Server processes on one database, each on its port for good."""

    def __init__(self, databases: EmbeddedServers, folder: Path, database: str, count: int, tally: Tally) -> None:
        self.servers: list[ServerProcess] = []
        self.down: set[int] = set()
        self.tally = tally
        self._databases = databases
        self._folder = folder
        self._database = database
        self._started = 0
        self._ports: list[int] = []
        for _ in range(count):
            self._ports.append(ports.pick_free(*self._ports))

    def pick(self, rng: random.Random) -> ServerProcess:
        """Any of them, as a name with several addresses gives it: one that is down too."""
        return rng.choice(self.servers)

    async def start(self) -> None:
        self.servers = [self._launch(index) for index in range(len(self._ports))]
        for server in self.servers:
            await until_ready(server)

    async def stop(self) -> None:
        """Ends all of them, and reads their logs."""
        await asyncio.gather(*(self._stop(server) for server in self.servers if server.process.poll() is None))

    async def kill(self, index: int) -> None:
        """As a machine that loses its power."""
        server = self.servers[index]
        self.down.add(index)
        server.process.kill()
        await asyncio.to_thread(server.process.wait)
        self._read_log(server)
        self.tally.notes["servers killed"] += 1

    async def terminate(self, index: int) -> None:
        """As a rolling restart does."""
        server = self.servers[index]
        self.down.add(index)
        await self._stop(server)
        self.tally.notes["servers told to stop"] += 1

    async def restart(self, index: int) -> None:
        """On the same port."""
        began = time.monotonic()
        server = self.servers[index] = self._launch(index)
        await until_ready(server)
        self.down.discard(index)
        self.tally.took("a server served", time.monotonic() - began)

    def _launch(self, index: int) -> ServerProcess:
        self._started += 1
        log = self._folder / f"{self._database}-{index}-{self._started}.log"
        return start_server(self._databases, self._ports[index], log, self._database, settings=SETTINGS)

    async def _stop(self, server: ServerProcess) -> None:
        began = time.monotonic()
        code = await asyncio.to_thread(server.stop)
        took = time.monotonic() - began
        self.tally.took("a server told to stop had ended", took)
        if code != 0:
            self.tally.problem(f"a server told to stop ended with {code} after {took:.1f} s")
        self._read_log(server)

    def _read_log(self, server: ServerProcess) -> None:
        for entry in lines_of(server.log):
            if entry.get("level") in ("error", "critical"):
                self.tally.problem(f"in the log of {server.log.name}: {str(entry)[:2000]}")
            elif entry.get("level") == "warning":
                self.tally.notes[f"warned: {entry.get('event')}"] += 1


class Harm:
    """What happens to servers and cache, at random or one after another."""

    def __init__(self, fleet: Fleet, redis_url: str, prefix: str, users: list[str], tally: Tally, seed: int) -> None:
        self.losses: list[tuple[float, str | None]] = []
        """When (seconds since the epoch) the cache lost all of a user; None: of everybody."""
        self._fleet = fleet
        self._redis = Redis.from_url(redis_url)
        self._prefix = prefix
        self._users = users
        self._tally = tally
        self._rng = random.Random(seed)

    async def close(self) -> None:
        await self._redis.aclose()

    async def count_unfinished(self) -> int:
        """The messages in all outboxes of the generation that counts: the latest."""
        marks = [key.decode() async for key in self._redis.scan_iter(match=f"{self._prefix}/*epoch", count=1000)]
        if not marks:
            # Lost just now: not to be told.
            return 1
        keys = Keys(self._prefix)
        keys.enter(max(int(mark.removeprefix(f"{self._prefix}/").removesuffix("epoch")) for mark in marks))
        outboxes = keys.outbox
        async with self._redis.pipeline(transaction=False) as pipeline:
            for partition in range(PARTITIONS):
                pipeline.xlen(outboxes(partition))
            return sum(await pipeline.execute())

    async def run(self, until: float) -> None:
        """Until a time of the monotonic clock. All servers are up then."""
        at_work: set[asyncio.Task[None]] = set()
        kinds = (
            [self._kill] * 4 + [self._terminate] * 3 + [self.lose_all] * 3 + [self.lose_one] * 5 + [self._lose_twice]
        )
        try:
            while time.monotonic() < until - 8.0:
                await asyncio.sleep(self._rng.uniform(2.0, 9.0))
                at_work.add(asyncio.create_task(self._rng.choice(kinds)()))
                for task in [task for task in at_work if task.done()]:
                    at_work.discard(task)
                    task.result()
        finally:
            await asyncio.gather(*at_work)

    async def kill_one(self) -> None:
        """One that is up. It stays away."""
        index = self._victim()
        if index is not None:
            await self._fleet.kill(index)

    async def _kill(self) -> None:
        index = self._victim()
        if index is not None:
            await self._fleet.kill(index)
            await asyncio.sleep(self._rng.uniform(0.0, 4.0))
            await self._fleet.restart(index)

    async def _terminate(self) -> None:
        index = self._victim()
        if index is not None:
            await self._fleet.terminate(index)
            await asyncio.sleep(self._rng.uniform(0.0, 1.0))
            await self._fleet.restart(index)

    def _victim(self) -> int | None:
        """One of those that are up, if another one stays."""
        up = [index for index in range(len(self._fleet.servers)) if index not in self._fleet.down]
        return self._rng.choice(up) if len(up) > 1 else None

    async def lose_all(self) -> None:
        """Everything in Redis."""
        self.losses.append((time.time(), None))
        await self._redis.flushall()
        self._tally.notes["cache lost: everything"] += 1

    async def lose_one(self) -> None:
        """All that Redis holds of one user."""
        user = self._rng.choice(self._users)
        keys = [key async for key in self._redis.scan_iter(match=f"{self._prefix}*{{u:{user}}}:*", count=1000)]
        self.losses.append((time.time(), user))
        if keys:
            await self._redis.delete(*keys)
        self._tally.notes["cache lost: all of a user"] += 1

    async def _lose_twice(self) -> None:
        """A server dies, and what it had not finished is lost with the cache."""
        await asyncio.gather(self._kill(), self.lose_all())
