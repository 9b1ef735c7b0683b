"""The presence of a crowd: everybody comes online, a server dies, and its people come back.

`python -m bench.presence.crowd` starts MongoDB, Redis and two servers. 10,000 people are in one workspace. 3,000 of
them connect, half to each server, and each watches 50 of the 10,000. Then:

1. all 3,000 connect within 30 s;
2. one server is killed, and its people connect to the other one within 10 s: nobody is shown as away;
3. both servers are new, and all connect again;
4. one server is killed, and its people stay away: they are shown OFFLINE 45 s after the server was last heard from;
5. it is started again, and they return.

The first events of each connection say what everybody is: 50 for each watcher.

For each step: the CPU time of the processes that live until its end, the events that the watchers got, and
the time until each watcher sees what is true. The clients are in two processes of their own, which are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import redis
from pymongo import MongoClient

from bench.load_process import LoadProcess
from bench.meter import cpu_seconds
from bench.session_data import Row
from bench.workspace_data import insert_workspace
from server.embedded import EmbeddedServers, ports
from tests.processes import ServerProcess, start_server, until_ready

NAME = "bench_presence"

_PATIENCE_SECONDS = 120.0
_IDLE_SECONDS = 10.0


class Crowd:
    """Two servers, their databases, and the people."""

    def __init__(
        self, databases: EmbeddedServers, folder: Path, loads: list[LoadProcess], given: argparse.Namespace
    ) -> None:
        self._databases = databases
        self._folder = folder
        self._loads = loads
        """The clients of each half of the people."""
        self._ports = [ports.pick_free()]
        self._ports.append(ports.pick_free(*self._ports))
        self.servers: list[ServerProcess | None] = [None, None]
        self._redis = redis.Redis.from_url(databases.redis_url)
        self._seconds = given.seconds
        everybody = [f"u{number:06}" for number in range(given.connected)]
        self.people = [everybody[0::2], everybody[1::2]]

    async def start(self, number: int) -> None:
        """Start a server."""
        log = self._folder / f"server{number}.log"
        server = self.servers[number] = start_server(self._databases, self._ports[number], log, NAME)
        await until_ready(server)

    async def kill(self, number: int) -> None:
        """Kill a server, without any chance for it to say so."""
        server = self.servers[number]
        assert server is not None
        self.servers[number] = None
        server.process.kill()
        await asyncio.to_thread(server.process.wait)

    async def connect(self, people: int, server: int, seconds: float) -> None:
        """Connect one half of the people to a server."""
        await self._loads[people].ask("connect", users=self.people[people], port=self._ports[server], seconds=seconds)

    async def leave(self, people: int) -> None:
        """Forget the connections of one half."""
        await self._loads[people].ask("disconnect", users=self.people[people])

    async def step(self, name: str, act: Awaitable[object], online: list[str], rest_seconds: float = 0) -> None:
        """Do something, wait until all watchers see what is true and some time longer, and print what it cost."""
        loop = asyncio.get_running_loop()
        before, commands, began = self._cpu(), self._commands(), loop.time()
        await act
        acted = loop.time() - began
        right = await self._until_right(online, _PATIENCE_SECONDS)
        await asyncio.sleep(rest_seconds)
        later = await self._until_right(online, 0)
        spent = {process: self._cpu().get(process, 0) - used for process, used in before.items()}
        cpu = ", ".join(f"{process} {seconds:.1f}" for process, seconds in spent.items() if seconds > 0)
        wrong = right["wrong"] + later["wrong"]
        print(
            f"{name}: {acted:.0f} s, all watchers right {right['seconds']:.1f} s later, events "
            f"{right['events']:,} + {later['events']:,}, CPU s: {cpu}, Redis commands {self._commands() - commands:,}"
            + (f", WRONG: {wrong:,}" if wrong else ""),
            flush=True,
        )

    async def _until_right(self, online: list[str], patience: float) -> dict[str, float]:
        asked = (load.ask("until_right", online=online, patience=patience) for load in self._loads)
        one, other = await asyncio.gather(*asked)
        sums = {name: one[name] + other[name] for name in ("wrong", "events")}
        return {"seconds": max(one["seconds"], other["seconds"]), **sums}

    def _cpu(self) -> dict[str, float]:
        databases = {"MongoDB": self._databases.mongo_pid, "Redis": self._databases.redis_pid}
        pids = databases | {f"server {n}": server.pid for n, server in enumerate(self.servers) if server is not None}
        return {name: cpu_seconds(pid) for name, pid in pids.items() if pid is not None}

    def _commands(self) -> int:
        commands: Any = self._redis.info("commandstats")
        return sum(command["calls"] for command in commands.values())

    async def run(self) -> None:
        """Take all steps."""
        first, second = self.people
        everybody = first + second
        connected = asyncio.gather(self.connect(0, 0, self._seconds), self.connect(1, 1, self._seconds))
        await self.step(f"{len(everybody):,} connect", connected, everybody)
        await self.step("nothing happens", asyncio.sleep(_IDLE_SECONDS), everybody)

        async def move() -> None:
            await self.kill(1)
            await self.leave(1)
            await self.connect(1, 0, 10)

        await self.step("a server dies, its people connect elsewhere", move(), everybody, rest_seconds=60)

        async def die() -> None:
            await self.kill(0)
            await self.leave(0)
            await self.leave(1)

        async def begin_again() -> None:
            await self.start(1)
            await die()
            await self.start(0)
            await asyncio.gather(self.connect(0, 0, self._seconds), self.connect(1, 1, self._seconds))

        await self.step("both servers are new, all connect again", begin_again(), everybody)

        async def stay_away() -> None:
            await self.kill(1)
            await self.leave(1)

        await self.step("a server dies, its people stay away", stay_away(), first)

        async def come_back() -> None:
            await self.start(1)
            await self.connect(1, 1, 10)

        await self.step("they come back", come_back(), everybody)

    async def close(self) -> None:
        """Stop the servers."""
        self._redis.close()
        for server in self.servers:
            if server is not None:
                await asyncio.to_thread(server.stop)


async def _run(given: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_workspace(mongo[NAME], members=given.people, channels=3, followers_of_small=1, history=0)
            async with AsyncExitStack() as stack:
                module = "bench.presence.watching_people"
                loads = [await stack.enter_async_context(LoadProcess(module)) for _ in range(2)]
                crowd = Crowd(databases, folder, loads, given)
                stack.push_async_callback(crowd.close)
                await asyncio.gather(crowd.start(0), crowd.start(1))
                for load in loads:
                    await load.ask("choose", people=given.people, watchers=given.connected, watched=given.watched)
                await crowd.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--connected", type=int, default=3_000)
    parser.add_argument("--watched", type=int, default=50, help="by each who is connected")
    parser.add_argument("--seconds", type=float, default=30.0, help="in which all connect")
    asyncio.run(_run(parser.parse_args()))
