"""Compares the CPU cost of Confab's Redis client with valkey-glide and redis-py (ADR 32).

    pip install --target /tmp/glide valkey-glide

    PYTHONPATH=/tmp/glide .venv/bin/python -m bench.redis_clients

The calls are those that Confab makes. Without valkey-glide the script says so and ends with status 0. All clients
work on one Valkey in one process, in turn, so that a slower moment of the machine affects all of them. The client's
CPU includes the threads of valkey-glide.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop
from redis.asyncio import Redis

from bench.meter import cpu_seconds
from server.embedded import EmbeddedServers
from store.redis.calls import Call
from store.redis.client import RedisClient
from store.redis.keys import Keys
from store.scripts import read_scripts

_ROUNDS = 7
_SCENARIOS = (("lone caller, 1 call", 1, 1), ("20 callers, 1 call", 20, 1), ("20 callers, 3 calls", 20, 3))
"""Name, concurrent callers, calls that each caller makes at once."""

_DIGESTS = {name: script.digest for name, script in read_scripts().items()}

Run = Callable[[Sequence[Call]], Awaitable[Any]]


def calls_of(caller: int, count: int) -> list[Call]:
    """Return script calls as sending a message makes them: one key, a record of some hundred bytes."""
    record = b'["m_123456789012345678","p_alice_bob","%s",42]' % (b"d" * 64)
    return [Call("claim_key", (f"{{u:user{caller}}}:key:{n}",), (record, 60_000)) for n in range(count)]


def words_of(call: Call) -> list[Any]:
    """Return a call as the words of an EVALSHA command."""
    return ["EVALSHA", _DIGESTS[call.name], len(call.keys), *call.keys, *call.args]


async def open_confab(url: str) -> Run:
    """Return the client of `store/redis/client.py`."""
    client = RedisClient(url, Keys(""), read_scripts)
    await client.load_scripts()
    return client.run


async def open_redis_py(url: str) -> Run:
    """Return redis-py, with a pipeline for each caller."""
    client = Redis.from_url(url)

    async def run(calls: Sequence[Call]) -> Any:
        if len(calls) == 1:
            return await client.execute_command(*words_of(calls[0]))
        async with client.pipeline(transaction=False) as pipeline:
            for call in calls:
                pipeline.execute_command(*words_of(call))
            return await pipeline.execute()

    return run


async def open_glide(url: str) -> Run:
    """Return valkey-glide, with a batch for each caller. It multiplexes its callers over one connection."""
    glide = importlib.import_module("glide")
    address = urlsplit(url)
    configuration = glide.GlideClientConfiguration([glide.NodeAddress(address.hostname, address.port)])
    client = await glide.GlideClient.create(configuration)

    def encoded(call: Call) -> list[Any]:
        return [str(word) if isinstance(word, int) else word for word in words_of(call)]

    async def run(calls: Sequence[Call]) -> Any:
        if len(calls) == 1:
            return await client.custom_command(encoded(calls[0]))
        batch = glide.Batch(is_atomic=False)
        for call in calls:
            batch.custom_command(encoded(call))
        return await client.exec(batch, raise_on_error=False)

    return run


async def measure(run: Run, server_pid: int, callers: int, calls: int, repeats: int) -> tuple[float, float, float]:
    """Return microseconds per run: client CPU, server CPU, elapsed time."""

    async def call_repeatedly(caller: int) -> None:
        prepared = calls_of(caller, calls)
        for _ in range(repeats // callers):
            await run(prepared)

    own, server, began = time.process_time(), cpu_seconds(server_pid), time.perf_counter()
    await asyncio.gather(*(call_repeatedly(caller) for caller in range(callers)))
    runs = repeats // callers * callers
    spent = time.process_time() - own, cpu_seconds(server_pid) - server, time.perf_counter() - began
    return spent[0] / runs * 1e6, spent[1] / runs * 1e6, spent[2] / runs * 1e6


async def compare(url: str, server_pid: int, repeats: int) -> None:
    """Print the medians of all rounds."""
    opened = {"confab": await open_confab(url), "glide": await open_glide(url), "redis-py": await open_redis_py(url)}
    samples: defaultdict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for round_ in range(_ROUNDS + 1):
        for scenario, callers, calls in _SCENARIOS:
            for name, run in opened.items():
                sample = await measure(run, server_pid, callers, calls, repeats)
                if round_:
                    # The first round only warms up.
                    samples[scenario, name].append(sample)
    print(
        "| scenario | client | client CPU, us a run | server CPU, us a run | elapsed, us a run |\n|---|---|---|---|---|"
    )
    for (scenario, name), found in samples.items():
        client, server, elapsed = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"| {scenario} | {name} | {client:.0f} | {server:.0f} | {elapsed:.0f} |")


def main() -> None:
    """Run the comparison on a Valkey of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=4_000, help="runs of each client in each round (4000)")
    arguments = parser.parse_args()
    try:
        importlib.import_module("glide")
    except ImportError:
        print("skipped: valkey-glide is not installed (see the head of bench/redis_clients.py)", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedServers(Path(folder), mongo=False) as servers:
        assert servers.redis_pid is not None
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(compare(servers.redis_url, servers.redis_pid, arguments.repeats))


if __name__ == "__main__":
    main()
