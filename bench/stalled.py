"""The effect of stalled or slow readers on a server under load.

Measures its memory, the others' latency, and how such readers are dropped.

`python -m bench.stalled --healthy 200 --rate 20` starts MongoDB, Redis and one server. A group receives messages
all the time. Its members read them on connections that keep up, until readers join that do not.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
from pymongo import MongoClient

from bench.api_client import Asker
from bench.load_process import LoadProcess
from bench.memory import memory
from bench.meter import cpu_seconds
from bench.selections import CREATE_GROUP, MESSAGE_EVENTS, SEND_MESSAGE
from bench.session_data import Row, insert_people
from bench.subscriber import stamp
from server.embedded import EmbeddedServers
from tests.processes import ServerProcess, serving_processes

_NAME = "bench_stalled"
_SENDER = "sender"
_SAMPLE_SECONDS = 0.25
_LAST_WORDS_SECONDS = 2.0
"""Time for dropped readers to read the rest from the system's buffers."""

_ESTABLISHED = "01"

_MAX_WAITING = 200
"""Most messages in flight: a server that cannot keep up gets no more."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase with a number of readers that read a number of bytes a second."""

    name: str
    seconds: float
    readers: int = 0
    bytes_a_second: int = 0
    wake_after: float | None = None
    """Seconds after which they continue to read."""


_PHASES = (
    Phase("before", 10),
    Phase("1 stalled", 28, 1),
    Phase("20 stalled", 28, 20),
    Phase("20 stalled for 5 s", 12, 20, wake_after=5),
    Phase("20 slow ones", 60, 20, 20_000),
    Phase("after", 10),
)


class Load:
    """Messages to the group at a constant rate, for the time of the block."""

    def __init__(self, server: ServerProcess, group: str, rate: float, size: int) -> None:
        self.sent = 0
        self.skipped = 0
        self.failed = 0
        self.failure = ""
        """The last failure."""
        self._turn = 0
        self._askers = [Asker(server, _SENDER) for _ in range(8)]
        self._group = group
        self._apart = 1 / rate
        self._padding = "Words that fill a message. " * (1 + size // 27)
        self._size = size
        self._waiting: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Load:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, *self._waiting, return_exceptions=True)
        for asker in self._askers:
            await asker.close()

    async def _run(self) -> None:
        due = time.monotonic()
        while True:
            if len(self._waiting) < _MAX_WAITING:
                task = asyncio.create_task(self._send())
                self._waiting.add(task)
                task.add_done_callback(self._waiting.discard)
            else:
                self.skipped += 1
            due += self._apart
            await asyncio.sleep(max(0, due - time.monotonic()))

    async def _send(self) -> None:
        text = f"{stamp()} {self._padding}"[: self._size]
        self._turn += 1
        try:
            await self._askers[self._turn % len(self._askers)].ask(SEND_MESSAGE, id=self._group, text=text)
            self.sent += 1
        except (RuntimeError, httpx.HTTPError) as error:
            self.failed += 1
            self.failure = str(error)


class Bench:
    """A server under load."""

    def __init__(self, server: ServerProcess, load_process: LoadProcess, load: Load, healthy: int) -> None:
        self._server = server
        self._load_process = load_process
        self._load = load
        self._healthy = healthy
        self._heard = 0

    async def begin(self) -> None:
        """Drop the results so far: they belong to no phase."""
        self._heard += (await self._load_process.ask("report", name="healthy"))["count"]

    async def run(self, phase: Phase, users: Sequence[str]) -> None:
        """Run a phase with these users as its readers."""
        load = self._load
        sent, skipped, failed = load.sent, load.skipped, load.failed
        used, began = cpu_seconds(self._server.pid), time.monotonic()
        ports: Sequence[int] = ()
        if phase.readers:
            stalling = await self._load_process.ask(
                "stall",
                name=phase.name,
                port=self._server.port,
                users=[users[number % len(users)] for number in range(phase.readers)],
                subscriptions=[MESSAGE_EVENTS],
                bytes_a_second=phase.bytes_a_second,
            )
            ports = stalling["ports"]
        watched = ServerWatch(self._server, ports)
        if phase.wake_after is not None:
            await watched.until(began + phase.wake_after)
            await self._load_process.ask("wake", name=phase.name)
        await watched.until(began + phase.seconds)
        heard = await self._load_process.ask("report", name="healthy")
        self._heard += heard["count"]
        behind = load.sent - self._heard / self._healthy
        sent = load.sent - sent
        cpu = (cpu_seconds(self._server.pid) - used) / (time.monotonic() - began)
        print(
            f"{phase.name:<20} {1000 * heard['p50']:>7.1f} {1000 * heard['p99']:>7.1f} {1000 * heard['longest']:>8.1f} "
            f"{behind:>8.1f} {sent / phase.seconds:>7.1f} {100 * cpu:>6.0f} "
            f"{watched.sizes[0]:>7.0f} {max(watched.sizes):>6.0f} {watched.sizes[-1]:>6.0f}   "
            f"{sum(heard['closed'].values()):>6}\n    MB: {watched.history()}",
            flush=True,
        )
        if load.skipped > skipped:
            print(f"    {load.skipped - skipped} messages were not sent: the server was too far behind")
        if load.failed > failed:
            print(f"    {load.failed - failed} messages were refused, the last one with: {load.failure[:300]}")
        if phase.readers:
            await self._load_process.ask("wake", name=phase.name)
            await asyncio.sleep(_LAST_WORDS_SECONDS)
            report = await self._load_process.ask("stalled", name=phase.name)
            await self._load_process.ask("end_stalled", name=phase.name)
            times = f", after {watched.let_go[0]:.1f} to {watched.let_go[-1]:.1f} s" if watched.let_go else ""
            print(
                f"    dropped by the server: {len(watched.let_go)} of {phase.readers}{times}; close codes: "
                f"{report['codes'] or 'none'}, resets: {report['resets']} {' '.join(report['failed'])}",
                flush=True,
            )


class ServerWatch:
    """Observes a server's memory, and the moments when it drops connections."""

    def __init__(self, server: ServerProcess, ports: Sequence[int]) -> None:
        """Observe nothing yet. ports: the local ports of the connections."""
        self.sizes: list[float] = []
        self.let_go: list[float] = []
        """Seconds from the beginning."""
        self._server = server
        self._ports = ports
        self._began = time.monotonic()
        self._connected = 0

    async def until(self, end: float) -> None:
        """Observe until a task ends."""
        while time.monotonic() < end:
            self.sizes.append(memory(self._server.pid).rss / 1e6)
            connected = _established(self._server.port, self._ports)
            self.let_go += [time.monotonic() - self._began] * (self._connected - connected)
            self._connected = connected
            await asyncio.sleep(_SAMPLE_SECONDS)

    def history(self) -> str:
        """Return the memory over time, in a line."""
        step = max(1, len(self.sizes) // 15)
        return " ".join(f"{size:.0f}" for size in self.sizes[::step])


def _established(port: int, others: Sequence[int]) -> int:
    """Return the remote ports of the open connections to a port of this machine.

    A dropped connection is not included, even if its peer has not noticed.
    """
    wanted = {f"{other:04X}" for other in others}
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    ends = (
        fields for fields in map(str.split, lines) if fields[1].endswith(f":{port:04X}") and fields[3] == _ESTABLISHED
    )
    return sum(fields[2].rpartition(":")[2] in wanted for fields in ends)


async def _measure(
    server: ServerProcess, load_process: LoadProcess, people: Sequence[str], arguments: argparse.Namespace
) -> None:
    async with AsyncExitStack() as stack:
        sender = Asker(server, _SENDER)
        stack.push_async_callback(sender.close)
        made = {"name": "Everybody", "memberIds": list(people)}
        group = (await sender.ask(CREATE_GROUP, input=made))["id"]
        reading, stalling = people[: arguments.users], people[arguments.users :]
        await load_process.ask(
            "open",
            name="healthy",
            port=server.port,
            path="/graphql",
            users=[reading[number % len(reading)] for number in range(arguments.healthy)],
            subscriptions=[MESSAGE_EVENTS],
        )
        load = await stack.enter_async_context(Load(server, group, arguments.rate, arguments.size))
        await asyncio.sleep(5)
        print(
            f"{arguments.healthy} healthy connections of {len(reading)} users, {arguments.rate:g} messages of "
            f"{arguments.size} characters a second\n\n{'the others, ms':<20} {'p50':>7} {'p99':>7} {'longest':>8} "
            f"{'behind':>8} {'sent/s':>7} {'CPU %':>6} "
            f"{'MB RSS':>7} {'most':>6} {'end':>6}   {'closed':>6}",
            flush=True,
        )
        bench = Bench(server, load_process, load, arguments.healthy)
        await bench.begin()
        for phase in _PHASES:
            await bench.run(phase, stalling)


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    people = [f"u{number:06}" for number in range(arguments.users + arguments.stalling_users)]
    try:
        with EmbeddedServers(folder / "databases") as databases:
            with MongoClient[Row](databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], [_SENDER, *people])
            settings = {"ws_max_queued_events": str(arguments.queue)}
            serving = serving_processes(databases, 1, folder, _NAME, settings=settings)
            async with serving as (server,), LoadProcess() as load_process:
                await _measure(server, load_process, people, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--healthy", type=int, default=200, help="connections that keep up")
    parser.add_argument("--users", type=int, default=10, help="whose connections those are")
    parser.add_argument("--stalling-users", type=int, default=5, help="whose connections the others are")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second")
    parser.add_argument(
        "--queue", type=int, default=200, help="CONFAB_WS_MAX_QUEUED_EVENTS: events waiting for one connection (1,000)"
    )
    parser.add_argument("--size", type=int, default=4_000, help="characters of a message")
    asyncio.run(_main(parser.parse_args()))
