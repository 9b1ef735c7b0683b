"""`python -m bench.workers`: a server with 1, 2 and 4 processes, in one run.

Users send private messages over WebSockets. The servers take turns, so that other load on the machine affects all of
them equally. If the machine has two cores or more, half of them are for the databases and the load, and half for the
servers. With two cores, all processes of a server share one core: the run shows what more processes cost, not what they
gain.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from pymongo import MongoClient

from bench.load_process import LoadProcess
from bench.session_data import Row, insert_people
from bench.workers.cores import divide_cores, pin
from bench.workers.served import PARTS, RECEIVERS, SENDERS, Served, Step
from server.embedded import EmbeddedServers
from tests.workers.processes import serving_workers

_IDLE_SECONDS = 5.0
_WARM_RATE, _WARM_SECONDS = 40.0, 4.0
_PAUSE_SECONDS = 0.5
_KEEPS_UP = 0.95


def _is_good(step: Step, arguments: argparse.Namespace) -> bool:
    return step.p99 < arguments.p99 and step.done > _KEEPS_UP * step.rate and not step.failures


async def _turn(served: Served, arguments: argparse.Namespace) -> list[Step]:
    """Raise the rate until the answers are late, then send as fast as they come."""
    steps: list[Step] = []
    for rate in arguments.rates:
        steps.append(await served.measure(rate, arguments.seconds))
        await asyncio.sleep(_PAUSE_SECONDS)
        if rate > arguments.compare and not any(_is_good(step, arguments) for step in steps[-2:]):
            break
    steps.append(await served.measure(0.0, arguments.seconds))
    await asyncio.sleep(_PAUSE_SECONDS)
    return steps


def _median(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.median(found) if found else float("nan")


def _row(served: Served, name: str, chosen: Callable[[Step], bool], base: float) -> tuple[str, float]:
    """Return a line of the table of costs, and the total CPU."""
    steps = [step for turn in served.steps for step in turn if chosen(step)]
    parts = {part: _median(step.cpu[part] for step in steps) for part in PARTS}
    total = _median(sum(step.cpu.values()) for step in steps)
    cells = [f"{_median(step.done for step in steps):,.0f}"]
    cells += [f"{_median(getattr(step, field) for step in steps):.1f}" for field in _TIMES]
    cells += [f"{parts[part]:,.0f}" for part in PARTS]
    cells += [f"{total:,.0f}", f"{total / (base or total):.2f}"]
    return f"| {name} | {served.workers} | " + " | ".join(cells) + " |", total


_TIMES = ("p50", "p99", "heard_p50", "heard_p99")
_HEAD = (
    "| messages | processes | a second | p50 ms | p99 | heard p50 | p99 "
    "| CPU µs: server | MongoDB | Redis | total | first = 1 |"
)


def _print_costs(all_served: list[Served], arguments: argparse.Namespace) -> None:
    print(f"\n{_HEAD}\n| --- |" + " ---: |" * 11)
    for name, chosen in (
        (f"{arguments.compare:g} a second", lambda step: step.rate == arguments.compare),
        ("as fast as answered", lambda step: step.rate == 0),
    ):
        base = 0.0
        for served in all_served:
            line, total = _row(served, name, chosen, base)
            base = base or total
            print(line)
    print(f"\n| processes | messages/s with p99 below {arguments.p99:g} ms, by turn | median |\n| ---: | --- | ---: |")
    for served in all_served:
        best = [max((step.rate for step in turn if step.rate and _is_good(step, arguments)), default=0.0)
                for turn in served.steps]  # fmt: skip
        print(f"| {served.workers} | {', '.join(f'{rate:g}' for rate in best)} | {_median(best):g} |")


def _print_processes(all_served: list[Served]) -> None:
    print("\n| processes | connections of each | MB of each | idle, % of a core |\n| ---: | --- | --- | ---: |")
    for served in all_served:
        sizes = ", ".join(f"{size:.0f}" for size in served.memory())
        idle = 100 * served.idle["server"]
        print(f"| {served.workers} | {', '.join(map(str, served.spread()))} | {sizes} | {idle:.1f} |")


async def _compare_deliveries(served: Served, arguments: argparse.Namespace) -> None:
    """Messages within a process against messages between two processes."""
    counts = await served.group_pairs()
    if min(counts.values()) < 10:
        print(f"\ntoo few pairs to compare: {counts}")
        return
    steps: dict[str, list[Step]] = {kind: [] for kind in counts}
    for _ in range(arguments.turns):
        for kind, found in steps.items():
            found.append(await served.measure(arguments.compare, arguments.seconds, kind))
            await asyncio.sleep(_PAUSE_SECONDS)
    print(f"\n{_HEAD.replace('processes', 'pairs')}\n| --- |" + " ---: |" * 11)
    base = 0.0
    for kind, found in steps.items():
        shown = Served(counts[kind], served.server, served.databases, served.load, steps=[found])
        line, total = _row(shown, f"ends in {'one process' if kind == 'same' else 'two'}", lambda _: True, base)
        base = base or total
        print(line)


async def _measure_idle(all_served: list[Served]) -> None:
    before, began = [served.cpu_of_parts() for served in all_served], time.perf_counter()
    await asyncio.sleep(_IDLE_SECONDS)
    elapsed = time.perf_counter() - began
    for served, used in zip(all_served, before, strict=True):
        served.idle = {part: (value - used[part]) / elapsed for part, value in served.cpu_of_parts().items()}


async def _measure(all_served: list[Served], arguments: argparse.Namespace) -> None:
    for served in all_served:
        await served.connect()
    for served in all_served:
        await served.measure(_WARM_RATE, _WARM_SECONDS)
    await _measure_idle(all_served)
    for number in range(arguments.turns):
        for served in all_served:
            served.steps.append(await _turn(served, arguments))
            shown = ", ".join(f"{step.rate:g}: {step.p99:.0f}" for step in served.steps[-1] if step.rate)
            last = served.steps[-1][-1]
            print(f"turn {number + 1}, {served.workers}: p99 ms by rate: {shown}; then {last.done:,.0f}/s", flush=True)
    _print_costs(all_served, arguments)
    _print_processes(all_served)
    for served in all_served:
        if served.workers == 2:
            await _compare_deliveries(served, arguments)


async def _main(arguments: argparse.Namespace) -> None:
    began = time.perf_counter()
    cores = divide_cores(shared=arguments.shared)
    print(cores, flush=True)
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        async with AsyncExitStack() as stack:
            databases = stack.enter_context(EmbeddedServers(folder / "databases"))
            load = await stack.enter_async_context(LoadProcess("bench.workers.load"))
            assert databases.mongo_pid is not None and databases.redis_pid is not None
            pin((databases.mongo_pid, databases.redis_pid, load.pid), cores.others)
            all_served: list[Served] = []
            for count in arguments.workers:
                name = f"bench_workers_{count}"
                with MongoClient[Row](databases.mongo_url) as mongo:
                    insert_people(mongo[name], [*SENDERS, *RECEIVERS])
                running = serving_workers(databases, count, folder / f"{name}.log", name)
                server = await stack.enter_async_context(running)
                served = Served(count, server, databases, load)
                pin({*served.pids(), server.pid}, cores.servers)
                all_served.append(served)
            await _measure(all_served, arguments)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4], help="numbers of processes")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each step")
    parser.add_argument("--rates", type=float, nargs="*", default=[100, 200, 300, 400, 500, 600, 800, 1000, 1250])
    parser.add_argument("--compare", type=float, default=200.0, help="the rate at which costs are compared")
    parser.add_argument("--p99", type=float, default=50.0, help="ms within which 99 %% of the answers come")
    parser.add_argument("--shared", action="store_true", help="pin nothing")
    asyncio.run(_main(parser.parse_args()))
