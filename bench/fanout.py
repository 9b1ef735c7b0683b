"""What it costs a server to tell one message to many subscribers with the same selection.

`python -m bench.fanout --subscribers 1000` starts a MongoDB, a Redis and two servers: the mutation goes to one, the subscribers
are on the other, which is measured. Beside it, in turns: the same text written to as many plain WebSockets by the same stack,
and as many of Strawberry's own subscriptions with the same selection. `--profile FILE` runs the measured server under cProfile.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
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

from bench.asking import Asker
from bench.crowd import Crowd
from bench.meter import cpu_seconds
from bench.rigs import serving_rig
from bench.selections import CREATE_GROUP, MESSAGE_EVENTS, SEND_MESSAGE
from bench.session_data import Row, insert_people
from bench.subscriber import STAMP, STAMP_DIGITS, stamp
from server.embedded import EmbeddedServers, ports
from tests.processes import ServerProcess, start_server, until_ready

_NAME = "bench_fanout"
_SENDER = "sender"
_PLAIN, _STRAWBERRY = "plain WebSockets", "Strawberry"

_APART_SECONDS = 0.1
"""Between two messages, so that none waits for the one before it."""

_IDLE_SECONDS = 3.0
_WARM_UP = 3

Send = Callable[[], Awaitable[object]]


@dataclass
class Contestant:
    """A server with its subscribers, and how it is given a message."""

    name: str
    pid: int
    crowd: str
    send: Send
    idle: float = 0.0
    """CPU seconds a second while nothing is sent."""
    apart: list[float] = field(default_factory=list)
    burst: list[float] = field(default_factory=list)
    """CPU seconds a delivery, by round."""
    reports: list[dict[str, Any]] = field(default_factory=list)
    sample: str = ""


class Bench:
    """Contestants with so many subscribers each."""

    def __init__(self, crowd: Crowd, subscribers: int) -> None:
        self._crowd = crowd
        self._subscribers = subscribers

    async def learn_idle(self, contestants: Sequence[Contestant]) -> None:
        before = [cpu_seconds(one.pid) for one in contestants]
        await asyncio.sleep(_IDLE_SECONDS)
        for one, used in zip(contestants, before, strict=True):
            one.idle = (cpu_seconds(one.pid) - used) / _IDLE_SECONDS

    async def warm_up(self, one: Contestant) -> None:
        await self._run(one, _WARM_UP, 1)
        one.sample = (await self._crowd.ask("report", name=one.crowd))["sample"]

    async def measure(self, one: Contestant, messages: int, burst: int) -> None:
        """A round: some messages one at a time, then some at once."""
        one.apart.append(await self._run(one, messages, 1))
        one.reports.append(await self._crowd.ask("report", name=one.crowd))
        if burst:
            one.burst.append(await self._run(one, 1, burst))
            await self._crowd.ask("report", name=one.crowd)

    async def _run(self, one: Contestant, turns: int, at_once: int) -> float:
        """CPU seconds a delivery."""
        used, began = cpu_seconds(one.pid), time.perf_counter()
        for turn in range(1, turns + 1):
            await asyncio.gather(*(one.send() for _ in range(at_once)))
            await self._crowd.ask("wait", name=one.crowd, count=turn * at_once * self._subscribers)
            await asyncio.sleep(_APART_SECONDS)
        elapsed = time.perf_counter() - began
        spent = cpu_seconds(one.pid) - used - one.idle * elapsed
        return spent / (turns * at_once * self._subscribers)


async def _form(
    title: str,
    users: Sequence[str],
    bench: Bench,
    crowd: Crowd,
    servers: Sequence[ServerProcess],
    arguments: argparse.Namespace,
) -> None:
    """The two ways to give Confab a message, its subscribers being these users (one more than once), beside the others."""
    subscribers = arguments.subscribers
    async with AsyncExitStack() as stack:
        measured, other = servers
        askers = {server: Asker(server, _SENDER) for server in servers}
        for asker in askers.values():
            stack.push_async_callback(asker.close)
        members = list(dict.fromkeys(users))
        group = (await askers[other].ask(CREATE_GROUP, input={"name": "Everybody", "memberIds": members}))["id"]

        def sending(server: ServerProcess) -> Send:
            return lambda: askers[server].ask(SEND_MESSAGE, id=group, text=f"What everybody is told, {stamp()}")

        opened = await crowd.ask(
            "open", name="confab", port=measured.port, path="/graphql", users=users, subscriptions=[MESSAGE_EVENTS]
        )
        print(f"\n{title}: opened in {opened['seconds']:.1f} s", flush=True)
        contestants = [
            Contestant("Confab", measured.pid, "confab", sending(other)),
            Contestant("Confab, written there too", measured.pid, "confab", sending(measured)),
        ]
        await bench.warm_up(contestants[0])
        if not arguments.alone:
            sample = contestants[0].sample
            logs = Path(measured.log).parent
            plain = await stack.enter_async_context(serving_rig("bench.plain_sockets:app", logs / "plain.log"))
            strawberry = await stack.enter_async_context(
                serving_rig("bench.strawberry_sockets:app", logs / "strawberry.log")
            )
            client = await stack.enter_async_context(httpx.AsyncClient(verify=False, trust_env=False, timeout=60))
            contestants += [
                Contestant(_PLAIN, plain.pid, "plain", lambda: _post(client, plain, _restamped(sample))),
                Contestant(
                    _STRAWBERRY, strawberry.pid, "strawberry", lambda: _post(client, strawberry, _message_of(sample))
                ),
            ]
            nobody = [None] * subscribers
            await crowd.ask("open", name="plain", port=plain.port, path="/sockets", users=nobody, subscriptions=[])
            await crowd.ask(
                "open",
                name="strawberry",
                port=strawberry.port,
                path="/graphql",
                users=users,
                subscriptions=[MESSAGE_EVENTS],
            )
        for one in contestants[1:]:
            await bench.warm_up(one)
        await bench.learn_idle(contestants)
        for _ in range(arguments.rounds):
            for one in contestants:
                await bench.measure(one, arguments.messages, arguments.burst)
        _print_table(contestants, len(contestants[0].sample))
        for name in dict.fromkeys(one.crowd for one in contestants):
            await crowd.ask("close", name=name)
        await asyncio.sleep(1)


async def _post(client: httpx.AsyncClient, rig: ServerProcess, content: str) -> None:
    (await client.post(f"{rig.url}/send", content=content)).raise_for_status()


def _restamped(sample: str) -> str:
    """A frame as Confab sent it, sent again now."""
    start = sample.index(STAMP.decode())
    return sample[:start] + stamp() + sample[start + len(STAMP) + STAMP_DIGITS :]


def _message_of(sample: str) -> str:
    event = orjson.loads(_restamped(sample))["payload"]["data"]["messageEvents"]
    return orjson.dumps({**event["message"], "cursor": event["cursor"]}).decode()


def _print_table(contestants: Sequence[Contestant], size: int) -> None:
    costs = {one.name: 1e6 * statistics.median(one.apart) for one in contestants}
    print(
        f"{f'CPU microseconds a delivery ({size} bytes)':<40} {'median':>7} {'rounds':>15} {'burst':>7} "
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
        rounds = f"{1e6 * min(one.apart):.1f} to {1e6 * max(one.apart):.1f}"
        print(
            f"{one.name:<40} {costs[one.name]:>7.1f} {rounds:>15} {bursts[one.name]:>7.1f} {ratios[0]:>15} {ratios[1]:>6} "
            f"{p50:>7.1f} {p99:>7.1f} {first:>6.1f} {last:>6.1f} {100 * one.idle:>7.2f}"
        )
    if _STRAWBERRY in costs:
        print(f"Strawberry takes {costs[_STRAWBERRY] / costs['Confab']:.1f} times what Confab takes", flush=True)


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    people = [f"u{number:06}" for number in range(arguments.subscribers)]
    few = people[: arguments.users]
    servers: list[ServerProcess] = []
    profiled = (
        ["-m", "cProfile", "-o", str(arguments.profile), "-m", "server.cli"]
        if arguments.profile
        else ["-m", "server.cli"]
    )
    try:
        with EmbeddedServers(folder / "databases") as databases:
            try:
                with MongoClient[Row](databases.mongo_url) as mongo:
                    insert_people(mongo[_NAME], [_SENDER, *people])
                for number, python in enumerate((profiled, ["-m", "server.cli"])):
                    port = ports.pick_free(*(server.port for server in servers))
                    servers.append(start_server(databases, port, folder / f"{number}.log", _NAME, python=python))
                for server in servers:
                    await until_ready(server)
                async with Crowd() as crowd:
                    bench = Bench(crowd, arguments.subscribers)
                    if arguments.form in ("many", "both"):
                        await _form(
                            f"{len(people):,} users, one connection each", people, bench, crowd, servers, arguments
                        )
                    if arguments.form in ("few", "both"):
                        each = [few[number % len(few)] for number in range(arguments.subscribers)]
                        title = f"{len(each):,} connections of {len(few)} users"
                        await _form(title, each, bench, crowd, servers, arguments)
            finally:
                await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))
    except Exception:
        for server in servers:
            sys.stderr.write(server.log.read_text()[-2000:])
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscribers", type=int, default=1_000)
    parser.add_argument("--users", type=int, default=10, help="whose connections they are, in the second form")
    parser.add_argument("--form", choices=("many", "few", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=5, help="a round, one at a time")
    parser.add_argument("--burst", type=int, default=20, help="messages at once, a round")
    parser.add_argument("--alone", action="store_true", help="without the others")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the measured server")
    asyncio.run(_main(parser.parse_args()))
