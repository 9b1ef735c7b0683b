"""The cost of searching in a growing number of messages.

`python -m bench.search` starts MongoDB, Redis and a server for each size. A user has 300 conversations: 15 channels and
285 groups, with lines of chat logs (`--chat`), and made text in Chinese, Japanese and Korean. They are written to
MongoDB directly, then indexed by `confab search rebuild`. Then the user searches in all conversations, one question
after the other, over HTTP. MongoDB is also asked directly, without and with its own text index. At the end messages are
sent to two servers in turns, one with and one without the search, and searched for.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.meter import Meter, cpu_seconds
from bench.search.history import History, insert_history
from bench.search.plain import Measured, PlainSearch
from bench.search.questions import Kind, make_kinds
from bench.search.searches import describe, search
from bench.search.sending import measure_sending
from bench.search.texts import Texts
from bench.session_size import settle
from bench.threads.stage import Stage, open_stage
from store.mongo.collections import MESSAGES, SEARCH
from tests.processes import ROOT, command_environment
from tests.security.attacks.measurement import percentile

NAME = "bench_search"
_LOGS = Path("../shared/data/ubuntu-irc")
_SIZES = [1_000, 100_000]
_REBUILD_SECONDS = 1_200


class SearchBench:
    """A server with messages."""

    def __init__(self, stage: Stage, history: History, given: argparse.Namespace) -> None:
        self._stage = stage
        self._history = history
        self._given = given
        databases = stage.databases
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        self._pids = {"server": stage.server.pid, "MongoDB": databases.mongo_pid, "Redis": databases.redis_pid}

    async def run(self) -> None:
        """Take all steps."""
        await self._rebuild()
        await asyncio.to_thread(self._print_sizes)
        kinds = make_kinds(self._history, self._given.questions)
        await self._search(kinds)
        if self._given.plain:
            await asyncio.to_thread(self._search_plainly, [kind for kind in kinds if kind.pattern is not None])

    async def _rebuild(self) -> None:
        meter = Meter(self._pids)
        await meter.wait_until_idle()
        environment = command_environment(self._stage.databases, NAME)
        before, began, children = self._cpu(), time.monotonic(), os.times()
        process = await asyncio.create_subprocess_exec(
            sys.executable, *("-m", "server.cli", "search", "rebuild"),
            cwd=ROOT, env=environment, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            code = await asyncio.wait_for(process.wait(), _REBUILD_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        if code:
            raise RuntimeError(f"the rebuild ended with {code}")
        elapsed = time.monotonic() - began
        await meter.wait_until_idle()
        now, ended, messages = self._cpu(), os.times(), self._history.messages
        spent = {name: 1e6 * (now[name] - before[name]) / messages for name in now}
        command = (
            ended.children_user - children.children_user + ended.children_system - children.children_system
        ) * 1e6
        print(
            f"{messages:,} messages indexed in {elapsed:.1f} s, µs of CPU for each: "
            + ", ".join(f"{name} {value:.1f}" for name, value in spent.items())
            + f", the command {command / messages:.1f}",
            flush=True,
        )

    def _print_sizes(self) -> None:
        settle(self._stage.mongo)
        for collection in (MESSAGES, SEARCH):
            stats = self._stage.database.command("collStats", collection)
            data, indexes = (stats[name] / self._history.messages for name in ("storageSize", "totalIndexSize"))
            print(
                f"{collection}: {stats['count']:,} rows; bytes for each message: {data:.0f} data + {indexes:.0f} "
                f"indexes = {data + indexes:.0f}; {stats['indexSizes']}",
                flush=True,
            )

    async def _search(self, kinds: Sequence[Kind]) -> None:
        reader = self._history.reader
        print(f"\n{self._history.messages:,} messages in {len(self._history.conversations)} conversations\n")
        print("| | results | p50 ms | p95 ms | CPU ms: server | MongoDB | Redis |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for kind in kinds[:1]:
            await search(self._stage, reader, kind, 2, self._pids)
        for kind in kinds:
            print(describe(await search(self._stage, reader, kind, self._given.times, self._pids)), flush=True)

    def _search_plainly(self, kinds: Sequence[Kind]) -> None:
        places = [conversation.id for conversation in self._history.conversations]
        plain = PlainSearch(self._stage.database[MESSAGES], places)
        print(
            "\n| without an index | results | p50 ms | p95 ms | CPU ms: MongoDB |\n| --- | ---: | ---: | ---: | ---: |"
        )
        for kind in kinds:
            self._measure(plain.scan, kind)
        seconds, size = plain.make_text_index()
        print(
            f"\na text index: made in {seconds:.1f} s, {size / self._history.messages:.0f} bytes for each message\n\n"
            "| text index | results | p50 ms | p95 ms | CPU ms: MongoDB |\n| --- | ---: | ---: | ---: | ---: |"
        )
        for kind in kinds:
            self._measure(plain.ask_text_index, kind)

    def _measure(self, ask: Any, kind: Kind) -> None:
        before = self._cpu()
        measured: Measured = ask(kind, self._given.plain)
        count = len(measured.seconds)
        cpu = 1000 * (self._cpu()["MongoDB"] - before["MongoDB"]) / count
        p50, p95 = (1000 * percentile(measured.seconds, share) for share in (0.5, 0.95))
        late = f" ({measured.late} of {count} not within the time limit)" if measured.late else ""
        print(
            f"| {measured.name} | {measured.found / count:.1f}{late} | {p50:.1f} | {p95:.1f} | {cpu:.1f} |", flush=True
        )

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}


async def _run(given: argparse.Namespace) -> None:
    began = time.monotonic()
    texts = Texts(given.chat)
    for size in given.sizes:
        made: list[History] = []

        def prepare(mongo: Any, size: int = size, made: list[History] = made) -> None:
            made.append(insert_history(mongo[NAME], texts, min(given.conversations, size), size))

        async with open_stage(NAME, prepare, given.profile) as stage:
            await SearchBench(stage, made[0], given).run()
    if given.sends:
        await measure_sending(texts, given.sends)
    print(f"\n{time.monotonic() - began:.0f} s in all")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="bench.search", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    logs = sorted(_LOGS.glob("*.jsonl"))
    parser.add_argument(
        "--chat", type=Path, nargs="*", default=logs, help="chat logs, as confab import-chat reads them"
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=_SIZES, help="numbers of messages")
    parser.add_argument("--conversations", type=int, default=300)
    parser.add_argument("--questions", type=int, default=20, help="different questions of each kind")
    parser.add_argument("--times", type=int, default=3, help="that each question is asked")
    parser.add_argument("--plain", type=int, default=10, help="questions of each kind asked without our index; 0: none")
    parser.add_argument("--sends", type=int, default=1_000, help="messages sent; 0: none")
    parser.add_argument("--profile", type=Path, help="where to write cProfile's statistics of the server")
    asyncio.run(_run(parser.parse_args(arguments)))
