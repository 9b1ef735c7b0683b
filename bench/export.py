"""The cost of exporting the data of a user, and what others notice of it.

`python -m bench.export --messages 100000 --megabytes 500` starts MongoDB and Redis, and a server in this process. The
user has written half of the messages of 50 groups, and has sent one large file. Meanwhile others write to each other.
Prints the time, the CPU of all processes, the highest memory of the server above rest, and the delay of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop
from pymongo import MongoClient
from pymongo.database import Database

from bench.api_client import InsideAsker
from bench.memory import memory
from bench.meter import cpu_seconds
from bench.other_sender import OtherSender, print_delays
from bench.session_data import Row, insert_people
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import UNLIMITED, load_settings
from store.base.ids import FileId, MessageId, UserId, group_id
from store.base.snowflakes import first_id_at
from store.files.file import Attachment, File, FileContent, FileState
from store.messages.message import Message, MessageKind
from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS, member_row_id, session_row_id

BEGIN = "mutation { exportMyData { id } }"
FIND = "query ($id: ID!) { export(id: $id) { state url } }"

_NAME = "bench_export"
_GROUPS = 50
_BATCH = 5_000
_REST_SECONDS = 5.0
_WORDS = (
    "the",
    "a",
    "to",
    "of",
    "and",
    "it",
    "is",
    "you",
    "that",
    "in",
    "for",
    "on",
    "my",
    "with",
    "was",
    "not",
    "have",
)


class Bench:
    """A user with many messages, and two people who write to each other."""

    def __init__(self, services: Services, pids: dict[str, int]) -> None:
        self._services = services
        self._pids = pids
        self._user, self._other = InsideAsker(services, "heavy"), OtherSender(InsideAsker(services, "ann"))

    async def insert_file(self, megabytes: int) -> Attachment | None:
        """Store a file of the user."""
        if not megabytes:
            return None
        store, block = self._services.app.store, os.urandom(1024 * 1024)
        number = FileId(store.ids.next())
        name = f"{number}/upload-1"

        async def content() -> AsyncIterator[bytes]:
            for _ in range(megabytes):
                yield block

        blob = await store.blobs.write(name, content())
        found = FileContent(name, "application/octet-stream", blob.size)
        file = File(
            number, UserId("heavy"), group_id(1), "large.bin", blob.size, None, None, None, False, FileState.READY,
            (name,), found, None, True, None,
        )  # fmt: skip
        await store.files.ensure(file)
        return file.as_attachment()

    async def run(self) -> None:
        """Export, and print the costs."""
        await self._other.send_for(_REST_SECONDS)
        alone = await self._other.send_for(_REST_SECONDS)
        rest, highest = memory(os.getpid()).rss, 0
        before, began = self._cpu(), time.perf_counter()
        export = await self._user.ask(BEGIN)
        stop = asyncio.Event()
        others = asyncio.create_task(self._other.send_until(stop))
        state = "WAITING"
        while state in ("WAITING", "RUNNING"):
            await asyncio.sleep(0.1)
            highest = max(highest, memory(os.getpid()).rss)
            found = await self._user.ask(FIND, id=export["id"])
            state = found["state"]
        elapsed = time.perf_counter() - began
        stop.set()
        delays = await others
        cpu = {name: after - before[name] for name, after in self._cpu().items()}
        job = await self._services.app.store.jobs.find(export["id"])
        assert job is not None
        file = await self._services.app.store.files.find(FileId(int(job.progress["file"])))
        size = file.content.size if file is not None and file.content is not None else 0
        print(f"{state} after {elapsed:.1f} s, {size / 1e6:.1f} MB")
        print("CPU seconds: " + ", ".join(f"{name} {value:.1f}" for name, value in cpu.items()))
        print(f"memory of the server: {rest / 1e6:.0f} MB before, at most {(highest - rest) / 1e6:.1f} MB more")
        print_delays("sends of others, before", alone)
        print_delays("sends of others, meanwhile", delays)

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}


def insert_groups(database: Database[Row], messages: int, attachment: Attachment | None) -> None:
    """Insert groups in which the user wrote every second message."""
    rng, now = random.Random(1), time.time_ns() // 1_000_000
    each = max(1, 2 * messages // _GROUPS)
    people = [UserId("heavy"), UserId("bob")]
    for number in range(_GROUPS):
        base = first_id_at(now - (number + 1) * 3_600_000)
        group = group_id(base)
        head = {"_id": group, "k": "G", "s": each, "n": each, "at": now, "w": now, "name": "Group", "own": "bob",
            "by": "bob", "ct": now, "mc": 2}  # fmt: skip
        database[CONVERSATIONS].insert_one(head)
        for person in people:
            database[MEMBERS].insert_one({"_id": member_row_id(group, person), "r": "MEMBER", "i": [[1, -1]], "j": now})
            database[SESSIONS].insert_one({"_id": session_row_id(person, group), "r": 0, "rn": 0, "d": 0, "a": now})
        rows: list[Row] = []
        for seq in range(1, each + 1):
            text = " ".join(rng.choices(_WORDS, k=15))
            message = Message(MessageId(base + seq), group, people[seq % 2], MessageKind.TEXT, text, seq=seq, n=seq)
            if attachment is not None and number == 0 and seq == 2:
                message = message._replace(attachments=(attachment,))
            rows.append(message.to_document())
            if len(rows) == _BATCH:
                database[MESSAGES].insert_many(rows, ordered=False)
                rows = []
        if rows:
            database[MESSAGES].insert_many(rows, ordered=False)


async def measure(messages: int, megabytes: int, folder: Path) -> None:
    """Start the databases and the server, and measure."""
    with EmbeddedServers(folder) as databases:
        assert databases.mongo_pid is not None and databases.redis_pid is not None
        pids = {"server": os.getpid(), "MongoDB": databases.mongo_pid, "Redis": databases.redis_pid}
        settings = load_settings(
            mongo_url=databases.mongo_url,
            redis_url=databases.redis_url,
            mongo_database=_NAME,
            redis_prefix=f"{_NAME}:",
            **UNLIMITED,
        )
        async with open_services(settings, start_wait_seconds=60.0) as services:
            bench = Bench(services, pids)
            attachment = await bench.insert_file(megabytes)
            mongo: MongoClient[Row]
            with MongoClient(databases.mongo_url) as mongo:
                insert_people(mongo[_NAME], ["heavy", "ann", "bob"])
                insert_groups(mongo[_NAME], messages, attachment)
            await bench.run()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=500)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        uvloop.run(measure(options.messages, options.megabytes, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
