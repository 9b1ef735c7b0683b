"""The cost that search adds to sending, and the time from sending a message to finding it."""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pymongo import MongoClient

from bench.api_client import Asker
from bench.meter import Meter, cpu_seconds
from bench.search.searches import SEARCH
from bench.search.texts import Language, Texts
from bench.session_data import Row, insert_people
from bench.threads.stage import PROCESSES, Stage, open_stage
from server.embedded import ports
from store.mongo.collections import SEARCH as ROWS
from tests.processes import ServerProcess, start_server, until_ready
from tests.security.attacks.measurement import percentile

_NAME = "bench_search_sending"
_NAME_WITHOUT = f"{_NAME}_off"
_PAIRS = 20
_TURNS = 4
_ALONE = 30
_FOUND = 20
_TIMEOUT_SECONDS = 15

_SEND = """mutation ($to: ID!, $text: String!) {
  sendMessage(input: {toUserId: $to, content: $text}) { message { id conversationId } } }"""
_EDIT = "mutation ($id: ID!, $text: String!) { editMessage(messageId: $id, content: $text) { id } }"
_RECALL = "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }"


class Sending:
    """Two servers, one with and one without the search, and pairs of users who write to each other."""

    def __init__(self, stage: Stage, servers: Mapping[str, ServerProcess], texts: Texts) -> None:
        databases = stage.databases
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        self._servers = servers
        self._pids = {
            name: dict(zip(PROCESSES, (server.pid, databases.mongo_pid, databases.redis_pid), strict=True))
            for name, server in servers.items()
        }
        self._lines: Iterator[str] = (line.text for line in texts.conversation(Language.ENGLISH, 0))
        self._askers = {
            name: [Asker(server, f"sender{number}") for number in range(_PAIRS)] for name, server in servers.items()
        }
        self._rng = random.Random("sending")

    async def close(self) -> None:
        """Close all connections."""
        for asker in itertools.chain(*self._askers.values()):
            await asker.close()

    async def compare(self, messages: int) -> None:
        """Send messages to both servers in turns, and print what each message costs."""
        for name in self._servers:
            await self._burst(name, _PAIRS * 5)
        cases = {
            f"{_PAIRS} in flight": (self._burst, messages // _TURNS),
            "one at a time": (self._one_at_a_time, _ALONE),
        }
        print("\n| sending, µs of CPU for each message | server | MongoDB | Redis |\n| --- | ---: | ---: | ---: |")
        for case, (send, count) in cases.items():
            spent: dict[str, list[dict[str, float]]] = {name: [] for name in self._servers}
            for _ in range(_TURNS):
                for name in self._servers:
                    spent[name].append(await self._measure(name, send, count))
            for name, turns in spent.items():
                each = [statistics.median(turn[process] for turn in turns) for process in PROCESSES]
                print(f"| {case}, {name} | " + " | ".join(f"{value:,.0f}" for value in each) + " |", flush=True)

    async def _measure(self, name: str, send: object, count: int) -> dict[str, float]:
        assert callable(send)
        pids = self._pids[name]
        meter = Meter({f"{each} {process}": pid for each, of in self._pids.items() for process, pid in of.items()})
        await meter.wait_until_idle()
        before = {process: cpu_seconds(pid) for process, pid in pids.items()}
        await send(name, count)
        # The index is written up to a second later.
        await asyncio.sleep(1.5)
        await meter.wait_until_idle()
        return {process: 1e6 * (cpu_seconds(pid) - before[process]) / count for process, pid in pids.items()}

    async def _burst(self, name: str, count: int) -> None:
        async def send(number: int, asker: Asker) -> None:
            for _ in range(count // _PAIRS):
                await asker.ask(_SEND, to=f"receiver{number}", text=next(self._lines))

        await asyncio.gather(*(send(number, asker) for number, asker in enumerate(self._askers[name])))

    async def _one_at_a_time(self, name: str, count: int) -> None:
        for _ in range(count):
            number = self._rng.randrange(_PAIRS)
            await self._askers[name][number].ask(_SEND, to=f"receiver{number}", text=next(self._lines))
            await asyncio.sleep(0.1)

    async def find_new_messages(self, stage: Stage, name: str) -> None:
        """Search for messages as soon as they are sent, edited and recalled, and wait until the index has them."""
        asker, found, seconds, written = self._askers[name][0], {"sent": 0, "edited": 0, "recalled": 0}, [], []
        for number in range(_FOUND):
            words = [f"{kind}{number}word" for kind in ("sent", "edited")]
            sent = (await asker.ask(_SEND, to="receiver0", text=f"this is {words[0]}"))["message"]
            answered = time.perf_counter()
            found["sent"] += await self._count(asker, words[0])
            seconds.append(time.perf_counter() - answered)
            rows = stage.database[ROWS]
            while not rows.count_documents({"c": sent["conversationId"], "t": words[0]}):
                if time.perf_counter() - answered > _TIMEOUT_SECONDS:
                    raise RuntimeError("the index does not get a message")
                await asyncio.sleep(0.02)
            written.append(time.perf_counter() - answered)
            await asker.ask(_EDIT, id=sent["id"], text=f"this is {words[1]}")
            found["edited"] += await self._count(asker, words[1]) == 1 and await self._count(asker, words[0]) == 0
            await asker.ask(_RECALL, id=sent["id"])
            found["recalled"] += await self._count(asker, words[1]) == 0
        print(
            f"\nsearching right after the answer, right of {_FOUND}: {found}; the first search takes "
            f"{1000 * statistics.median(seconds):.1f} ms; the index has the message after "
            f"{1000 * statistics.median(written):.0f} ms, at most {1000 * percentile(written, 1):.0f} ms"
        )

    async def _count(self, asker: Asker, word: str) -> int:
        return len((await asker.ask(SEARCH, words=f'"{word}"'))["edges"])


def _insert_people(mongo: MongoClient[Row]) -> None:
    names = [f"{role}{number}" for number in range(_PAIRS) for role in ("sender", "receiver")]
    for database in (_NAME, _NAME_WITHOUT):
        insert_people(mongo[database], names)


async def measure_sending(texts: Texts, messages: int) -> None:
    """Start the servers, and measure."""
    with tempfile.TemporaryDirectory(prefix="confab-bench-") as folder:
        async with open_stage(_NAME, _insert_people) as stage:
            port = ports.pick_free(stage.server.port)
            log = Path(folder) / "off.log"
            without = start_server(stage.databases, port, log, _NAME_WITHOUT, settings={"search": "off"})
            sending = None
            try:
                await until_ready(without)
                sending = Sending(stage, {"with search": stage.server, "without": without}, texts)
                await sending.compare(messages)
                await sending.find_new_messages(stage, "with search")
            finally:
                if sending is not None:
                    await sending.close()
                await asyncio.to_thread(without.stop)
