"""The parts that all scenarios use: the databases, the servers, the load process."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

from bench.load_process import LoadProcess
from bench.meter import cpu_seconds
from bench.peers import node
from bench.peers.ejabberd import Ejabberd, serving
from bench.reference_servers import serve_reference
from bench.suite.figures import DATABASES, PROCESSES
from bench.suite.profiles import Profile
from server.embedded import EmbeddedServers, ports
from tests.processes import ROOT, ServerProcess, launch_server, serving_processes, token, until_open, until_ready

CONFAB, BASELINE, FLOOR = "Confab", "baseline", "floor"
NODE, EJABBERD = "Node", "ejabberd"
CONTESTANTS = (CONFAB, BASELINE, FLOOR)
PEERS = (NODE, EJABBERD)
"""Take part if they are asked for and installed."""

CALM_SECONDS = 0.1
"""Time of almost no CPU use after which a server counts as calm, in seconds."""

_IDLE_SLICES, _IDLE_SECONDS = 5, 0.3

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Creating one reads the system's certificates, so it is shared."""


def database_of(contestant: str) -> str:
    """Return the name of a server's database."""
    return f"bench_{contestant.lower()}"


@dataclass
class Contestant:
    """A server under load."""

    name: str
    server: ServerProcess
    ejabberd: Ejabberd | None = None
    idle: dict[str, float] = field(default_factory=dict)
    """CPU seconds a second of its process and of the databases while idle."""

    def token(self, user: str) -> str:
        """Return the value of a user's Authorization header."""
        if self.ejabberd is not None:
            return user
        return f"Bearer {token(user)}" if self.name == CONFAB else f"Bearer {user}"

    def transport(self, wanted: str) -> str:
        """Return the transport to use for one that is wanted: `http` or `ws`."""
        return "xmpp" if self.ejabberd is not None else wanted


@dataclass
class CostSample:
    """CPU seconds of a server and the databases, without their idle use."""

    cpu: dict[str, float] = field(default_factory=dict)
    elapsed: float = 0.0
    redis_commands: int = 0
    """Commands that Redis executed, those of scripts included."""


@dataclass
class Stage:
    """The parts of a run."""

    databases: EmbeddedServers
    load: LoadProcess
    folder: Path
    profile: Profile
    names: tuple[str, ...]
    """Of the servers that take part."""
    people: list[str] = field(default_factory=list)
    """Everybody who has to exist in a server that is started."""
    contestants: dict[str, Contestant] = field(default_factory=dict)
    _databases_idle: dict[str, float] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Contestant]:
        return iter(self.contestants.values())

    @asynccontextmanager
    async def servers(self) -> AsyncIterator[None]:
        """Start the servers, for the time of the block."""
        async with AsyncExitStack() as stack:
            for name in self.names:
                if name == EJABBERD:
                    folder = self.folder / f"{name}-{time.monotonic_ns()}"
                    ejabberd = await stack.enter_async_context(serving(folder, self.people))
                    self.contestants[name] = Contestant(name, ejabberd.server, ejabberd)
                else:
                    server = await stack.enter_async_context(self._serving(name))
                    self.contestants[name] = Contestant(name, server)
            try:
                yield
            finally:
                self.contestants.clear()

    @asynccontextmanager
    async def _serving(self, name: str) -> AsyncIterator[ServerProcess]:
        databases, log = self.databases, self.folder / f"{name}-{time.monotonic_ns()}.log"
        if name == CONFAB:
            async with serving_processes(databases, 1, self.folder, database_of(name)) as (server,):
                yield server
        elif name == BASELINE:
            environment = {
                "BASELINE_MONGO_URL": databases.mongo_url,
                "BASELINE_DATABASE": database_of(name),
                "BASELINE_REDIS_URL": databases.redis_url,
            }
            async with serve_reference("bench.baseline.app:app", log, environment=environment) as server:
                yield server
        elif name == NODE:
            port = ports.pick_free()
            command = [*node.COMMAND, str(port), databases.mongo_url, database_of(name), databases.redis_url]
            async with _launched(command, port, log, NODE_ENV="production") as server:
                await until_ready(server)
                yield server
        else:
            port = ports.pick_free()
            command = [sys.executable, "-m", "bench.suite.floor_server", str(port)]
            async with _launched([*command, databases.mongo_url, databases.redis_url], port, log) as server:
                await until_open(server)
                yield server

    async def connect(
        self, contestant: Contestant, name: str, tokens: list[str], transport: str = "http", room: str = ""
    ) -> None:
        """Connect clients in the load process."""
        given = {"transport": contestant.transport(transport), "room": room}
        await self.load.ask("connect", name=name, port=contestant.server.port, tokens=tokens, **given)

    async def listen(
        self, contestant: Contestant, name: str, tokens: list[str], subscriptions: list[str], **options: Any
    ) -> dict[str, float]:
        """Connect subscribers in the load process. Return the times of the connections."""
        given = {"subscriptions": subscriptions, "transport": contestant.transport("ws"), **options}
        answer: dict[str, float] = await self.load.ask(
            "listen", name=name, port=contestant.server.port, tokens=tokens, **given
        )
        return answer

    async def ask(self, contestant: Contestant, user: str, query: str, **variables: Any) -> Any:
        """Return the value of the query's one field, sent from this process: not measured."""
        headers = {"authorization": contestant.token(user), "content-type": "application/json"}
        content = json.dumps({"query": query, "variables": variables})
        async with httpx.AsyncClient(verify=_NO_TLS, trust_env=False, timeout=120) as client:
            answer = (await client.post(f"{contestant.server.url}/graphql", content=content, headers=headers)).json()
        if "errors" in answer:
            raise RuntimeError(f"{contestant.name}: {answer['errors']}")
        (value,) = answer["data"].values()
        return value

    # CPU.

    def _pids(self, contestant: Contestant) -> dict[str, int]:
        assert self.databases.mongo_pid is not None and self.databases.redis_pid is not None
        return {
            "server": contestant.server.pid,
            "mongo": self.databases.mongo_pid,
            "redis": self.databases.redis_pid,
        }

    def _cpu(self, contestant: Contestant) -> dict[str, float]:
        if contestant.ejabberd is not None:
            used = sum(map(cpu_seconds, contestant.ejabberd.database_pids()))
            return {"server": cpu_seconds(contestant.server.pid), "mongo": used, "redis": 0.0}
        return {name: cpu_seconds(pid) for name, pid in self._pids(contestant).items()}

    async def learn_idle(self) -> None:
        """Measure the idle use of all processes with their present connections."""
        slices: dict[str, list[dict[str, float]]] = {one.name: [] for one in self}
        for _ in range(_IDLE_SLICES):
            before, began = {one.name: self._cpu(one) for one in self}, time.perf_counter()
            await asyncio.sleep(_IDLE_SECONDS)
            elapsed = time.perf_counter() - began
            for one in self:
                now = self._cpu(one)
                slices[one.name].append({name: (now[name] - used) / elapsed for name, used in before[one.name].items()})
        for one in self:
            shares = {name: statistics.median(part[name] for part in slices[one.name]) for name in PROCESSES}
            for name in DATABASES if one.ejabberd is None else ():
                # They may still be busy with earlier work. Their periodic work is always the same.
                least = min(shares[name], self._databases_idle.get(name, 1.0))
                shares[name] = self._databases_idle[name] = least
            one.idle = shares

    async def spent(self, contestant: Contestant, act: Callable[[], Awaitable[Any]]) -> tuple[Any, CostSample]:
        """Do something, and return its cost."""
        commands = await asyncio.to_thread(self._redis_commands)
        before, began = self._cpu(contestant), time.perf_counter()
        result = await act()
        elapsed, now = time.perf_counter() - began, self._cpu(contestant)
        commands = await asyncio.to_thread(self._redis_commands) - commands
        cpu = {name: max(0.0, now[name] - used - contestant.idle[name] * elapsed) for name, used in before.items()}
        return result, CostSample(cpu, elapsed, commands)

    def _redis_commands(self) -> int:
        with Redis.from_url(self.databases.redis_url) as redis:
            return sum(command["calls"] for command in redis.info("commandstats").values())

    async def wait_until_idle(self, contestant: Contestant, *, most: float = 30.0) -> None:
        """Wait until all work caused by an operation is done, for at most a number of seconds.

        That is when a server uses almost no CPU beyond its idle use.
        """
        idle, deadline = sum(contestant.idle.values()), time.perf_counter() + most
        while time.perf_counter() < deadline:
            before, began = sum(self._cpu(contestant).values()), time.perf_counter()
            await asyncio.sleep(CALM_SECONDS)
            elapsed = time.perf_counter() - began
            if sum(self._cpu(contestant).values()) - before < (idle + 0.03) * elapsed:
                return


@asynccontextmanager
async def _launched(command: list[str], port: int, log: Path, **environment: str) -> AsyncIterator[ServerProcess]:
    """Run a command that serves a port, for the time of the block."""
    server = launch_server(command, port, log, os.environ | {"PYTHONPATH": str(ROOT)} | environment)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)
