"""The cost of a message in a channel that many people follow, and of opening a channel at once.

`python -m bench.workspaces` starts MongoDB, Redis and three servers. The workspace and its members are written to
MongoDB directly. Some members are connected: all of them subscribe to workspaceEvents, some look at the large channel
with channelEvents, and 50 look at the small one. Messages are sent in turns to the large and the small channel, one at
a time, more than a second apart, so that each of them causes ChannelActivity for all followers. Then everyone opens a
third channel. `--profile FILE` runs the first server under cProfile.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from pymongo import MongoClient

from bench.api_client import Asker
from bench.load_process import LoadProcess
from bench.meter import cpu_seconds
from bench.selections import SEND_MESSAGE
from bench.session_data import Row
from bench.subscriber import stamp
from bench.workspace_data import BenchWorkspace, insert_workspace
from server.embedded import EmbeddedServers, ports
from store.mongo.collections import MESSAGES
from tests.processes import ServerProcess, start_server, until_ready

_NAME = "bench_workspaces"
_APART_SECONDS = 1.1
"""Longer than the second in which ChannelActivity is sent once."""

_AFTERMATH_SECONDS = 0.05
_OPENED_AT_ONCE = 8
_IDLE_SECONDS = 5.0
_LOOKERS_AT_SMALL = 50
_PROFILE_BYTES = 32 << 20

WORKSPACE_EVENTS = """subscription { workspaceEvents(workspaces: [{id: "%s"}]) { __typename
    ... on ChannelActivity { channelId writeSeq messageCount lastMessageAt rev }
    ... on ChannelChanged { channel { id name } rev } ... on WorkspaceCaughtUp { workspaceId rev reset } } }"""
CHANNEL_EVENTS = """subscription { channelEvents(channels: [{id: "%s"}]) { __typename
    ... on ChannelMessage { change rev message {
        id conversationId seq content contentType state createdAt authorName sender { id displayName avatarUrl } } }
    ... on ChannelCaughtUp { conversationId rev reset } } }"""
OPEN = """{ messages(conversationId: "%s", last: 50) { pageInfo { hasPreviousPage startCursor } edges { cursor node {
    id seq content contentType state createdAt editedAt authorName sender { id displayName avatarUrl }
    replyTo { id content } } } } }"""


class Counters:
    """Counters of the databases."""

    def __init__(self, databases: EmbeddedServers) -> None:
        self._mongo = MongoClient[Row](databases.mongo_url)
        self._redis = redis.Redis.from_url(databases.redis_url)

    def read(self) -> dict[str, float]:
        rows = self._mongo.admin.command("serverStatus")["metrics"]["document"]
        commands: Any = self._redis.info("commandstats")
        return {
            "Redis commands": sum(command["calls"] for command in commands.values()),
            "Redis keys": float(self._redis.dbsize()),  # type: ignore[arg-type]
            "rows written": rows["inserted"] + rows["updated"],
        }

    def begin_to_count_reads(self, channel: str) -> None:
        """Make MongoDB note the reads of a channel's messages."""
        database = self._mongo[_NAME]
        database.command("profile", 0)
        database["system.profile"].drop()
        database.create_collection("system.profile", capped=True, size=_PROFILE_BYTES)
        of_channel: Row = {"ns": f"{_NAME}.{MESSAGES}", "command.filter.c": channel}
        database.command("profile", 1, filter=of_channel)

    def count_reads(self) -> int:
        return self._mongo[_NAME]["system.profile"].count_documents({})

    def close(self) -> None:
        self._mongo.close()
        self._redis.close()


@dataclass
class Phase:
    """The messages that were sent to one channel. `expected`: deliveries and activities of each, by group."""

    name: str
    channel: str
    expected: Mapping[str, tuple[int, int]]
    cpu: list[dict[str, float]] = field(default_factory=list)
    """Seconds for each message, by process."""
    counted: list[dict[str, float]] = field(default_factory=list)
    """Differences of the counters, for each message."""

    @property
    def deliveries(self) -> int:
        return sum(count + other for count, other in self.expected.values())

    def median(self, *processes: str) -> float:
        """Return microseconds of CPU for a message."""
        return 1e6 * statistics.median(sum(each[process] for process in processes) for each in self.cpu)


class Bench:
    """Servers with connected members, each server with a load process of its own."""

    def __init__(
        self,
        workspace: BenchWorkspace,
        servers: Sequence[ServerProcess],
        loads: Sequence[LoadProcess],
        databases: EmbeddedServers,
        arguments: argparse.Namespace,
    ) -> None:
        self._workspace = workspace
        self._servers = servers
        self._loads = loads
        self._arguments = arguments
        self.names = [f"server {number}" for number in range(len(servers))]
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        pids = [*(server.pid for server in servers), databases.mongo_pid, databases.redis_pid]
        self._pids = dict(zip([*self.names, "MongoDB", "Redis"], pids, strict=True))
        self.counters = Counters(databases)
        self._askers = [Asker(server, workspace.members[0]) for server in servers]
        self._idle: dict[str, float] = {}
        self._groups: dict[str, int] = {}
        """Members by group and server."""

    async def close(self) -> None:
        self.counters.close()
        for asker in self._askers:
            await asker.close()

    async def connect(self) -> None:
        arguments, workspace = self._arguments, self._workspace
        people = workspace.members[: arguments.connected]
        looks_until = _LOOKERS_AT_SMALL + arguments.lookers
        events = [] if arguments.without_workspace_events else [WORKSPACE_EVENTS % workspace.id]
        groups = {
            "small": (people[:_LOOKERS_AT_SMALL], [*events, CHANNEL_EVENTS % workspace.small]),
            "looking": (people[_LOOKERS_AT_SMALL:looks_until], [*events, CHANNEL_EVENTS % workspace.large]),
            "connected": (people[looks_until:], events),
        }
        before, began = self._cpu(), asyncio.get_running_loop().time()
        for name, (users, subscriptions) in groups.items():
            parts = [users[number :: len(self._servers)] for number in range(len(self._servers))]
            self._groups |= {f"{name} {number}": len(part) for number, part in enumerate(parts)}
            await asyncio.gather(
                *(
                    load.ask(
                        "open",
                        name=name,
                        port=server.port,
                        path="/graphql",
                        users=part,
                        subscriptions=subscriptions,
                        at_once=_OPENED_AT_ONCE,
                    )
                    for load, server, part in zip(self._loads, self._servers, parts, strict=True)
                )
            )
        spent = {name: 1000 * (now - before[name]) / len(people) for name, now in self._cpu().items()}
        print(
            f"{len(people):,} connected in {asyncio.get_running_loop().time() - began:.1f} s, CPU ms each: "
            f"servers {sum(spent[name] for name in self.names):.2f}, MongoDB {spent['MongoDB']:.2f}, "
            f"Redis {spent['Redis']:.2f}",
            flush=True,
        )

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    async def learn_idle(self) -> None:
        """Learn what happens each second without messages. It is subtracted from then on."""
        before = self._cpu()
        await asyncio.sleep(_IDLE_SECONDS)
        self._idle = {name: (after - before[name]) / _IDLE_SECONDS for name, after in self._cpu().items()}

    def phases(self) -> Iterator[Phase]:
        has_activity = not self._arguments.without_workspace_events
        sizes = self._groups.items()
        expected = {name: (size if name.startswith("small") else 0,) * 2 for name, size in sizes}
        yield Phase("small channel", self._workspace.small, self._expect(expected, has_activity))
        expected = {name: (size if name.startswith("looking") else 0, size) for name, size in sizes}
        yield Phase("large channel", self._workspace.large, self._expect(expected, has_activity))

    def _expect(self, expected: Mapping[str, tuple[int, ...]], has_activity: bool) -> dict[str, tuple[int, int]]:
        return {name: (count, other if has_activity else 0) for name, (count, other) in expected.items()}

    async def send(self, phase: Phase, number: int) -> None:
        """Send one message, and measure until everyone has it."""
        loop = asyncio.get_running_loop()
        counted, used, began = self.counters.read(), self._cpu(), loop.time()
        await self._askers[number % len(self._askers)].ask(
            SEND_MESSAGE, id=phase.channel, text=f"A message to everybody, {stamp()}"
        )
        await asyncio.gather(*(self._wait(load, number, phase) for number, load in enumerate(self._loads)))
        await asyncio.sleep(_AFTERMATH_SECONDS)
        now, elapsed = self._cpu(), loop.time() - began
        phase.cpu.append({name: now[name] - used[name] - self._idle.get(name, 0.0) * elapsed for name in now})
        phase.counted.append({name: value - counted[name] for name, value in self.counters.read().items()})

    async def _wait(self, load: LoadProcess, number: int, phase: Phase) -> None:
        for name in ("small", "looking", "connected"):
            count, other = phase.expected[f"{name} {number}"]
            await load.ask("wait", name=name, count=count, other=other)
            await load.ask("report", name=name)

    async def open_at_once(self) -> None:
        """Let all members open a channel at once, and print what it costs."""
        query, people = OPEN % self._workspace.opened, self._arguments.connected
        self.counters.begin_to_count_reads(self._workspace.opened)
        used, began = self._cpu(), asyncio.get_running_loop().time()
        answers = await asyncio.gather(
            *(
                load.ask(
                    "ask_all",
                    names=["small", "looking", "connected"],
                    query=query,
                    seconds=self._arguments.open_seconds,
                )
                for load in self._loads
            )
        )
        elapsed, now = asyncio.get_running_loop().time() - began, self._cpu()
        spent = {name: 1e6 * (now[name] - used[name] - self._idle[name] * elapsed) / people for name in now}
        failed = sum(answer["errors"] for answer in answers)
        print(
            f"{people:,} opens in {elapsed:.1f} s: {self.counters.count_reads()} reads of its messages "
            f"in MongoDB, CPU µs each: servers {sum(spent[name] for name in self.names):,.0f}, "
            f"MongoDB {spent['MongoDB']:,.0f}, Redis {spent['Redis']:,.0f}; failed: {failed}",
            flush=True,
        )

    def print_table(self, phases: Sequence[Phase]) -> None:
        print(
            f"\n{'CPU µs a message':<16} {'deliveries':>10} {'servers':>9} {'MongoDB':>9} {'Redis':>7} "
            f"{'Redis commands':>15} {'new keys':>9} {'rows written':>13}"
        )
        for phase in phases:
            # Periodic work of the servers is in some of them.
            each = {name: statistics.median(one[name] for one in phase.counted) for name in phase.counted[0]}
            print(
                f"{phase.name:<16} {phase.deliveries:>10,} {phase.median(*self.names):>9,.0f} "
                f"{phase.median('MongoDB'):>9,.0f} {phase.median('Redis'):>7,.0f} {each['Redis commands']:>15.0f} "
                f"{each['Redis keys']:>9.0f} {each['rows written']:>13.0f}"
            )
        small, large = phases
        more = large.deliveries - small.deliveries
        servers = large.median(*self.names) - small.median(*self.names)
        others = large.median("MongoDB", "Redis") - small.median("MongoDB", "Redis")
        print(f"each further delivery: servers {servers / more:.1f} µs, databases {others / more:.1f} µs", flush=True)


async def _run(databases: EmbeddedServers, folder: Path, arguments: argparse.Namespace) -> None:
    with MongoClient[Row](databases.mongo_url) as mongo:
        workspace = insert_workspace(
            mongo[_NAME],
            members=arguments.members,
            channels=arguments.channels,
            followers_of_small=_LOOKERS_AT_SMALL,
            history=120,
        )
    ordinary = ["-m", "server.cli"]
    profiled = ["-m", "cProfile", "-o", str(arguments.profile), *ordinary] if arguments.profile else ordinary
    async with AsyncExitStack() as stack:
        servers: list[ServerProcess] = []
        for number in range(arguments.servers):
            port = ports.pick_free(*(server.port for server in servers))
            python = ordinary if number else profiled
            servers.append(start_server(databases, port, folder / f"{number}.log", _NAME, python=python))
            stack.push_async_callback(asyncio.to_thread, servers[-1].stop)
        for server in servers:
            await until_ready(server)
        loads = [await stack.enter_async_context(LoadProcess()) for _ in servers]
        bench = Bench(workspace, servers, loads, databases, arguments)
        stack.push_async_callback(bench.close)
        await bench.connect()
        await asyncio.sleep(2)
        phases = list(bench.phases())
        for number in range(3):
            for phase in phases:
                await bench.send(phase, number)
                await asyncio.sleep(_APART_SECONDS)
        for phase in phases:
            phase.cpu, phase.counted = [], []
        await bench.learn_idle()
        for number in range(arguments.messages):
            for phase in phases:
                await bench.send(phase, number)
            await asyncio.sleep(_APART_SECONDS)
        bench.print_table(phases)
        if arguments.opens:
            for _ in range(2):
                await bench.open_at_once()


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="bench.workspaces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=100_000)
    parser.add_argument("--channels", type=int, default=50)
    parser.add_argument("--connected", type=int, default=2_000)
    parser.add_argument("--lookers", type=int, default=500, help="members that look at the large channel")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--messages", type=int, default=15, help="to each of the two channels")
    parser.add_argument("--without-workspace-events", action="store_true", help="deliveries of channelEvents alone")
    parser.add_argument("--opens", action=argparse.BooleanOptionalAction, default=True, help="open a channel at once")
    parser.add_argument("--open-seconds", type=float, default=5.0, help="in which everyone opens it")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the first server")
    arguments = parser.parse_args(given)
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            asyncio.run(_run(databases, folder, arguments))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
