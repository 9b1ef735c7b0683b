"""The size of receipts in MongoDB: the stored marks, compared with one row for each message and recipient.

`python -m bench.receipts --day LOG` imports a day of chat hour by hour. Its people read whenever they write, and
all members once an hour. The resulting rows are written again as the same day of many groups, and as one row for
each message and recipient with the same facts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bson import encode
from pymongo import MongoClient

from bench.api_client import InsideAsker
from bench.session_data import Row
from bench.session_size import settle
from server.chat_import.command import import_chat
from server.chat_import.log_file import read_chat
from server.chat_import.plan import make_plan
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import UNLIMITED, load_settings
from store.base.ids import ConversationId, UserId, group_id
from store.mongo.collections import MEMBERS, MESSAGES, RECEIPTS, members_of, seq_of_receipt

_SAMPLE = Path(__file__).parents[1] / "tests" / "data" / "irc-sample.jsonl"
_READ = "mutation ($id: ID!) { markRead(conversationId: $id) { readSeq } }"
_NAME, _SCRATCH = "bench_receipts", "bench_receipts_scratch"
_AT_ONCE, _BATCH = 16, 10_000
_DAY_MS = 24 * 3_600_000
_PROGRESS = ("ar", "ad")


@dataclass(frozen=True, slots=True)
class Day:
    """The rows of a day of a group in MongoDB, in the order of their creation."""

    group: ConversationId
    messages: list[Row]
    """Messages that have recipients."""
    members: list[Row]
    marks: list[Row]

    def recipients(self, message: Row) -> Iterator[UserId]:
        """Return the members when a message was sent, without its sender."""
        for row in self.members:
            user = UserId(row["_id"].rpartition(" ")[2])
            if user != message["u"] and any(a <= message["s"] and (b == -1 or message["s"] <= b) for a, b in row["i"]):
                yield user


# A day.


def hours_of(log: Path, folder: Path) -> Iterator[Path]:
    """Split a log by hours; hours with hardly any people are joined with the next."""
    by_hour: dict[int, list[str]] = defaultdict(list)
    for line in log.read_text().splitlines():
        if line.strip():
            by_hour[json.loads(line).get("minute", 0) // 60].append(line)
    lines: list[str] = []
    for number, hour in enumerate(sorted(by_hour)):
        lines += by_hour[hour]
        if len({json.loads(line)["nick"] for line in lines}) > 3:
            path = folder / f"hour{number}.jsonl"
            path.write_text("\n".join(lines))
            yield path
            lines = []


async def import_day(services: Services, log: Path, folder: Path) -> ConversationId:
    """Import a day hour by hour. After each hour every member reads."""
    group = None
    for path in hours_of(log, folder):
        chat = read_chat(path)
        group = (await import_chat(services, chat, make_plan(chat), "#day", lambda _: None)).group
        waiting = iter([member.user for member in await services.app.store.conversations.list_members(group)])

        async def read(group: str, waiting: Iterator[UserId]) -> None:
            for user in waiting:
                await InsideAsker(services, user).ask(_READ, id=group)

        await asyncio.gather(*(read(group, waiting) for _ in range(_AT_ONCE)))
    assert group is not None
    await asyncio.sleep(1)
    return group


def load_day(database: Any, group: ConversationId) -> Day:
    """Read the rows of a group from MongoDB."""
    messages = database[MESSAGES].find({"c": group, "k": {"$ne": "S"}}).sort("s", 1)
    marks = database[RECEIPTS].find(members_of(group)).sort("at", 1)
    return Day(group, list(messages), list(database[MEMBERS].find(members_of(group))), list(marks))


# Its rows, as rows of many groups.


def other_groups(count: int) -> list[ConversationId]:
    """Return ids of groups created some time apart."""
    return [group_id(7_400_000_000_000_000_000 + number * 79_164_837_199_872) for number in range(count)]


def copy_to_groups(rows: Sequence[Row], day: Day, groups: Sequence[ConversationId]) -> Iterator[Row]:
    """Yield the rows as rows of other groups on other days; rows of one time of day are together in all groups."""
    for row in rows:
        for number, group in enumerate(groups):
            copy = row | {"_id": group + row["_id"].removeprefix(day.group)}
            yield copy | {"at": row["at"] + number * _DAY_MS} if "at" in row else copy


def one_row_per_recipient(day: Day, groups: Sequence[ConversationId]) -> Iterator[Row]:
    """Yield one row for each message and recipient, with the times of delivery and reading."""
    read: dict[UserId, list[tuple[int, int]]] = defaultdict(list)
    for mark in sorted(day.marks, key=lambda mark: str(mark["_id"])):
        read[UserId(mark["_id"].split(" ")[1])].append((seq_of_receipt(mark["_id"]), mark["at"]))
    for message in day.messages:
        for number, group in enumerate(groups):
            for user in day.recipients(message):
                first = bisect_left(read[user], (message["s"], 0))
                at = read[user][first][1] + number * _DAY_MS if first < len(read[user]) else None
                # Ordered by message, as in pages of receipts.
                yield {"_id": f"{group} {message['s']:08x} {user}"} | ({"d": at, "r": at} if at is not None else {})


@dataclass(frozen=True, slots=True)
class StoredSize:
    """Bytes of a day of one group."""

    documents: float
    indexes: float
    rows: float
    bson: float

    @property
    def bytes(self) -> float:
        return self.documents + self.indexes


def measure(mongo: MongoClient[Row], rows: Iterator[Row], days: int) -> tuple[StoredSize, StoredSize]:
    """Return the size of rows, as inserted and compacted."""
    collection = mongo[_SCRATCH]["rows"]
    collection.drop()
    sample = 0.0
    while batch := list(islice(rows, _BATCH)):
        sample = sample or sum(len(encode(row)) for row in batch) / len(batch)
        collection.insert_many(batch, ordered=False)
    found = []
    for compact in (False, True):
        if compact:
            mongo[_SCRATCH].command({"compact": "rows", "force": True})
        settle(mongo)
        stats = mongo[_SCRATCH].command("collStats", "rows")
        documents, indexes, count = (stats[name] / days for name in ("storageSize", "totalIndexSize", "count"))
        found.append(StoredSize(documents, indexes, count, sample))
    return found[0], found[1]


def report(mongo: MongoClient[Row], day: Day, days: int, written_out: int) -> None:
    """Print the size of a day in both forms."""
    groups = other_groups(days)
    without_progress = [{name: value for name, value in row.items() if name not in _PROGRESS} for row in day.members]
    marks = measure(mongo, copy_to_groups(day.marks, day, groups), days)
    members = measure(mongo, copy_to_groups(day.members, day, groups), days)
    without = measure(mongo, copy_to_groups(without_progress, day, groups), days)
    naive = measure(mongo, one_row_per_recipient(day, groups[:written_out]), written_out)
    print(
        f"\n{len(day.messages):,} messages, {len(day.members):,} members, "
        f"{len(day.marks):,} acknowledgements that changed "
        f"something, {naive[0].rows:,.0f} pairs of message and recipient"
    )
    for number, when in enumerate(("as inserted", "after compact")):
        progress = members[number].bytes - without[number].bytes
        print(f"{when}: bytes per day and group ({days} days; {written_out} as single rows)")
        for name, size in (("marks", marks[number]), ("row by row", naive[number])):
            each = size.bytes / size.rows
            print(
                f"  {name:<26} {size.bytes:>13,.0f} = documents {size.documents:,.0f} + indexes {size.indexes:,.0f}; "
                f"a row {each:.1f} (BSON {size.bson:.1f})"
            )
        print(
            f"  {'progress of members':<26} {progress:>13,.0f} more in their rows, "
            f"{progress / len(day.members):.1f} each"
        )
        stored = marks[number].bytes + progress
        print(
            f"  {'per acknowledgement':<26} {stored / len(day.marks):>13.1f}; row by row takes "
            f"{naive[number].bytes / stored:.0f} times as much"
        )


async def _main(arguments: argparse.Namespace) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            settings = load_settings(
                **UNLIMITED,
                mongo_url=databases.mongo_url,
                redis_url=databases.redis_url,
                mongo_database=_NAME,
                log_level="ERROR",
            )
            async with open_services(settings, start_wait_seconds=60) as services:
                group = await import_day(services, arguments.day, folder)
            with MongoClient[Row](databases.mongo_url) as mongo:
                report(mongo, load_day(mongo[_NAME], group), arguments.days, arguments.written_out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--day", type=Path, default=_SAMPLE, help="a log as confab import-chat takes it")
    parser.add_argument("--days", type=int, default=100, help="groups with such a day")
    parser.add_argument("--written-out", type=int, default=3, help="of them, those written row by row")
    asyncio.run(_main(parser.parse_args()))
