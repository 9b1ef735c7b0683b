"""The cost of sending one message to many subscribers with the same selection.

`python -m bench.fanout --subscribers 1000` starts MongoDB, Redis and two servers: the mutation goes to one, the
subscribers are on the other, which is measured. In turns with it: the same text written to as many plain WebSockets
of the same libraries, and as many of Strawberry's own subscriptions with the same selection. `--profile FILE` runs
the measured server under cProfile.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
from pymongo import MongoClient

from bench.api_client import Asker
from bench.load_process import LoadProcess
from bench.meter import cpu_seconds
from bench.reference_servers import serve_reference
from bench.selections import CREATE_GROUP, MESSAGE_EVENTS, SEND_MESSAGE
from bench.session_data import Row, insert_people
from bench.subscriber import STAMP, STAMP_DIGITS, stamp
from server.embedded import EmbeddedServers, ports
from tests.processes import ServerProcess, start_server, until_ready

_NAME = "bench_fanout"
_SENDER = "sender"
_PLAIN, _STRAWBERRY = "plain WebSockets", "Strawberry"

_APART_SECONDS = 0.1
"""Pause between two messages, so that none waits for the previous one."""

_AFTERMATH_SECONDS = 0.03
_IDLE_SLICES, _IDLE_SECONDS = 7, 0.5
_WARM_UP = 3

Send = Callable[[], Awaitable[object]]


@dataclass
class Contestant:
    """A server with its subscribers, and the way to send a message to them."""

    name: str
    pid: int
    subscribers: str
    send: Send
    idle: float = 0.0
    """CPU seconds a second while idle."""
    apart: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)
    """CPU seconds per delivery: of single messages, of bursts."""
    reports: list[dict[str, Any]] = field(default_factory=list)
    sample: str = ""


class Bench:
    """Servers with the same number of subscribers each."""

    def __init__(self, load_process: LoadProcess, subscribers: int) -> None:
        self._load_process = load_process
        self._subscribers = subscribers

    async def learn_idle(self, contestants: Sequence[Contestant]) -> None:
        slices = []
        for _ in range(_IDLE_SLICES):
            before = [cpu_seconds(one.pid) for one in contestants]
            await asyncio.sleep(_IDLE_SECONDS)
            slices.append(
                [(cpu_seconds(one.pid) - used) / _IDLE_SECONDS for one, used in zip(contestants, before, strict=True)]
            )
        for one, shares in zip(contestants, zip(*slices, strict=True), strict=True):
            # Servers have periodic work for all users.
            one.idle = statistics.median(shares)

    async def warm_up(self, one: Contestant) -> None:
        for turn in range(_WARM_UP):
            await self._run(one, turn, 1)
        one.sample = (await self._load_process.ask("report", name=one.subscribers))["sample"]

    async def measure(self, one: Contestant, messages: int, burst: int) -> None:
        """Measure a round: some messages one at a time, then a burst."""
        for turn in range(messages):
            one.apart.append(await self._run(one, turn, 1))
            await asyncio.sleep(_APART_SECONDS)
        one.reports.append(await self._load_process.ask("report", name=one.subscribers))
        if burst:
            one.burst.append(await self._run(one, 0, burst))
            await self._load_process.ask("report", name=one.subscribers)

    async def _run(self, one: Contestant, before: int, at_once: int) -> float:
        """Return the CPU seconds per delivery of some messages."""
        used, began = cpu_seconds(one.pid), time.perf_counter()
        await asyncio.gather(*(one.send() for _ in range(at_once)))
        await self._load_process.ask("wait", name=one.subscribers, count=(before + at_once) * self._subscribers)
        await asyncio.sleep(_AFTERMATH_SECONDS)
        elapsed = time.perf_counter() - began
        return (cpu_seconds(one.pid) - used - one.idle * elapsed) / (at_once * self._subscribers)


@dataclass(frozen=True, slots=True)
class Stage:
    """The databases and servers of all forms of the benchmark."""

    load_process: LoadProcess
    measured: ServerProcess
    other: ServerProcess
    database_pids: Sequence[int]
    folder: Path
    arguments: argparse.Namespace

    async def play(self, title: str, users: Sequence[str]) -> None:
        """Connect the users, who may occur more than once, and print the cost of a delivery."""
        arguments = self.arguments
        bench = Bench(self.load_process, len(users))
        async with AsyncExitStack() as stack:
            askers = {server: Asker(server, _SENDER) for server in (self.measured, self.other)}
            for asker in askers.values():
                stack.push_async_callback(asker.close)
            made = {"name": "Everybody", "memberIds": list(dict.fromkeys(users))}
            group = (await askers[self.other].ask(CREATE_GROUP, input=made))["id"]

            def sending(server: ServerProcess) -> Send:
                return lambda: askers[server].ask(SEND_MESSAGE, id=group, text=f"A message to everybody, {stamp()}")

            await self._open(title, users)
            contestants = [Contestant("Confab", self.measured.pid, "confab", sending(self.other))]
            await bench.warm_up(contestants[0])
            if not arguments.alone:
                contestants.append(
                    Contestant("Confab, written there too", self.measured.pid, "confab", sending(self.measured))
                )
                contestants += await self._others(stack, users, contestants[0].sample)
            for one in contestants[1:]:
                await bench.warm_up(one)
            await bench.learn_idle(contestants)
            for _ in range(arguments.rounds):
                for one in contestants:
                    await bench.measure(one, arguments.messages, arguments.burst)
            _print_table(contestants, len(contestants[0].sample))
            for name in dict.fromkeys(one.subscribers for one in contestants):
                await self.load_process.ask("close", name=name)
            await asyncio.sleep(1)

    async def _open(self, title: str, users: Sequence[str]) -> None:
        pids = [self.measured.pid, *self.database_pids]
        before = [cpu_seconds(pid) for pid in pids]
        opened = await self.load_process.ask(
            "open", name="confab", port=self.measured.port, path="/graphql", users=users, subscriptions=[MESSAGE_EVENTS]
        )
        spent = [1000 * (cpu_seconds(pid) - used) / len(users) for pid, used in zip(pids, before, strict=True)]
        print(
            f"\n{title}: opened in {opened['seconds']:.1f} s, CPU ms each: "
            f"server {spent[0]:.2f}, MongoDB {spent[1]:.2f}, "
            f"Redis {spent[2]:.2f}",
            flush=True,
        )

    async def _others(self, stack: AsyncExitStack, users: Sequence[str], sample: str) -> list[Contestant]:
        """Return the other servers; sample is a frame of Confab."""
        plain = await stack.enter_async_context(serve_reference("bench.plain_sockets:app", self.folder / "plain.log"))
        nobody = [None] * len(users)
        await self.load_process.ask(
            "open", name="plain", port=plain.port, path="/sockets", users=nobody, subscriptions=[]
        )
        strawberry = await stack.enter_async_context(
            serve_reference("bench.strawberry_sockets:app", self.folder / "strawberry.log")
        )
        await self.load_process.ask(
            "open",
            name="strawberry",
            port=strawberry.port,
            path="/graphql",
            users=users,
            subscriptions=[MESSAGE_EVENTS],
        )
        client = await stack.enter_async_context(httpx.AsyncClient(verify=False, trust_env=False, timeout=60))
        return [
            Contestant(_PLAIN, plain.pid, "plain", lambda: _post(client, plain, _restamped(sample))),
            Contestant(
                _STRAWBERRY, strawberry.pid, "strawberry", lambda: _post(client, strawberry, _message_of(sample))
            ),
        ]


async def _post(client: httpx.AsyncClient, rig: ServerProcess, content: str) -> None:
    (await client.post(f"{rig.url}/send", content=content)).raise_for_status()


def _restamped(sample: str) -> str:
    """Return a frame of Confab with a new time of sending."""
    start = sample.index(STAMP.decode())
    return sample[:start] + stamp() + sample[start + len(STAMP) + STAMP_DIGITS :]


def _message_of(sample: str) -> str:
    event = orjson.loads(_restamped(sample))["payload"]["data"]["messageEvents"]
    return orjson.dumps({**event["message"], "cursor": event["cursor"]}).decode()


def _print_table(contestants: Sequence[Contestant], size: int) -> None:
    costs = {one.name: 1e6 * statistics.median(one.apart) for one in contestants}
    print(
        f"{f'CPU microseconds a delivery ({size} bytes)':<40} {'median':>7} {'half of them':>15} {'burst':>7} "
        f"{'ratio to plain':>15} {'burst':>6} {'p50 ms':>7} {'p99 ms':>7} {'first':>6} {'last':>6} {'idle %':>7}"
    )
    bursts = {one.name: 1e6 * statistics.median(one.burst) if one.burst else 0.0 for one in contestants}
    for one in contestants:
        ratios = ["", ""]
        if _PLAIN in costs:
            ratios = [f"{of[one.name] / of[_PLAIN]:.2f}" if of[_PLAIN] else "" for of in (costs, bursts)]
        p50, p99 = (1000 * statistics.median(report[name] for report in one.reports) for name in ("p50", "p99"))
        first, last = (
            1000 * statistics.median(value for report in one.reports for value in report[name])
            for name in ("first", "last")
        )
        low, _, high = statistics.quantiles(one.apart, n=4)
        half = f"{1e6 * low:.1f} to {1e6 * high:.1f}"
        print(
            f"{one.name:<40} {costs[one.name]:>7.1f} {half:>15} {bursts[one.name]:>7.1f} "
            f"{ratios[0]:>15} {ratios[1]:>6} "
            f"{p50:>7.1f} {p99:>7.1f} {first:>6.1f} {last:>6.1f} {100 * one.idle:>7.2f}"
        )
    if _STRAWBERRY in costs:
        print(f"Strawberry takes {costs[_STRAWBERRY] / costs['Confab']:.1f} times as much as Confab", flush=True)


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    people = [f"u{number:06}" for number in range(arguments.subscribers)]
    few = people[: arguments.users]
    forms = {
        "many": (f"{len(people):,} users, one connection each", people),
        "few": (f"{len(people):,} connections of {len(few)} users", [few[n % len(few)] for n in range(len(people))]),
    }
    ordinary = ["-m", "server.cli"]
    profiled = ["-m", "cProfile", "-o", str(arguments.profile), *ordinary] if arguments.profile else ordinary
    servers: list[ServerProcess] = []
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], [_SENDER, *people])
            assert databases.mongo_pid is not None and databases.redis_pid is not None
            try:
                for number, python in enumerate((profiled, ordinary)):
                    port = ports.pick_free(*(server.port for server in servers))
                    servers.append(start_server(databases, port, folder / f"{number}.log", _NAME, python=python))
                for server in servers:
                    await until_ready(server)
                async with LoadProcess() as load_process:
                    stage = Stage(
                        load_process,
                        servers[0],
                        servers[1],
                        (databases.mongo_pid, databases.redis_pid),
                        folder,
                        arguments,
                    )
                    for form in arguments.form:
                        await stage.play(*forms[form])
            finally:
                await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscribers", type=int, default=1_000)
    parser.add_argument("--users", type=int, default=10, help="whose connections they are, in the second form")
    parser.add_argument("--form", nargs="*", choices=("many", "few"), default=("many", "few"))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--messages", type=int, default=5, help="a round, one at a time")
    parser.add_argument("--burst", type=int, default=20, help="messages at once, a round")
    parser.add_argument("--alone", action="store_true", help="nothing beside it")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the measured server")
    asyncio.run(_main(parser.parse_args()))
