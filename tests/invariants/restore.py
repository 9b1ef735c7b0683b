"""`python -m tests.invariants.restore`: back up while people write, write more, restore, and compare everything.

The backup is MongoDB's files, copied while it withholds writes (fsyncLock), like a snapshot of a disk. Redis is not
backed up and keeps its data: it knows more than the restored database. The drill takes about fifteen seconds.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from bench.api_client import InsideAsker
from server.cli.migrate import mark_restored
from server.embedded import EmbeddedServers
from server.services import open_services
from server.settings import Settings, load_settings
from tests.server.tokens import SECRET

PEOPLE = [f"p{number}" for number in range(6)]
SECONDS = 2.0
_SEND = """mutation ($to: ID!, $text: String!, $key: String!) {
    sendMessage(input: {toUserId: $to, content: $text, idempotencyKey: $key}) {
        message { id conversationId seq content } } }"""
_SYNC = """query ($since: Cursor) { syncSessions(since: $since, first: 100) {
    cursor reset totalUnread sessions { id unreadCount writeSeq } } }"""
_HISTORY = """query ($id: ID!, $after: String) { messages(conversationId: $id, first: 100, after: $after) {
    pageInfo { hasNextPage endCursor } edges { node { id seq content } } } }"""

Row = dict[str, Any]


class Conversations:
    """Each user writes to the next one all the time, and notes each acknowledged message with its time."""

    def __init__(self, askers: list[InsideAsker]) -> None:
        self._askers = askers
        self.acknowledged: list[tuple[float, Row]] = []
        self.longest = 0.0

    async def go_on(self, seconds: float, name: str) -> None:
        until = time.monotonic() + seconds

        async def one(number: int) -> None:
            asker, to, count = self._askers[number], PEOPLE[(number + 1) % len(PEOPLE)], 0
            while (began := time.monotonic()) < until:
                count += 1
                text = f"{name} {number} {count}"
                sent = await asker.ask(_SEND, to=to, text=text, key=text)
                self.longest = max(self.longest, time.monotonic() - began)
                self.acknowledged.append((time.monotonic(), sent["message"]))

        await asyncio.gather(*(one(number) for number in range(len(PEOPLE))))


@asynccontextmanager
async def open_askers(settings: Settings) -> AsyncIterator[list[InsideAsker]]:
    """Open a server, and yield one client for each user."""
    async with open_services(settings) as services:
        await asyncio.wait_for(services.opened.wait(), 30)
        askers = [InsideAsker(services, user) for user in PEOPLE]
        for asker in askers:
            await asker.ask("{ me { id } }")
        yield askers


def back_up(mongo_url: str, source: Path, target: Path) -> tuple[float, float]:
    """Copy MongoDB's files. Returns the times at which it began and ended to withhold writes."""
    with MongoClient[Row](mongo_url) as mongo:
        mongo.admin.command("fsync", lock=True)
        locked = time.monotonic()
        try:
            shutil.copytree(source / "mongo", target / "mongo", ignore=shutil.ignore_patterns("mongod.lock", "*.log"))
            shutil.copy(source / "ports.json", target / "ports.json")
        finally:
            unlocked = time.monotonic()
            mongo.admin.command("fsyncUnlock")
    return locked, unlocked


async def history(asker: InsideAsker, conversation: str) -> list[Row]:
    found: list[Row] = []
    after = None
    while True:
        page = await asker.ask(_HISTORY, id=conversation, after=after)
        found += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return found
        after = page["pageInfo"]["endCursor"]


async def compare(askers: list[InsideAsker], kept: list[Row], lost: list[Row], cursors: list[str]) -> None:
    """Compare the restored data with what was acknowledged.

    Everything acknowledged before the backup is stored once, at its seq; counters agree with it; newer cursors lead
    to a reset; and writing goes on.
    """
    there: dict[str, list[Row]] = {}
    for number, asker in enumerate(askers):
        delta = await asker.ask(_SYNC, since=cursors[number])
        assert delta["reset"], "a cursor from after the backup was taken for good"
        for session in delta["sessions"]:
            conversation = session["id"].partition("_")[2].partition("_")[2]
            there[conversation] = await history(asker, conversation)
            seqs = [message["seq"] for message in there[conversation]]
            assert seqs == list(range(1, len(seqs) + 1)), "places are missing, or taken twice"
            assert session["writeSeq"] == len(seqs)
            incoming = [m for m in there[conversation] if int(m["content"].split()[1]) != number]
            outgoing = [m["seq"] for m in there[conversation] if int(m["content"].split()[1]) == number]
            unread = sum(m["seq"] > max(outgoing, default=0) for m in incoming)
            assert session["unreadCount"] == unread, "a counter is wrong"
        assert delta["totalUnread"] == sum(session["unreadCount"] for session in delta["sessions"])
    found = {(c, message["id"], message["seq"], message["content"]) for c, all_ in there.items() for message in all_}
    missing = [m for m in kept if (m["conversationId"], m["id"], m["seq"], m["content"]) not in found]
    assert not missing, f"{len(missing)} acknowledged before the backup are missing"
    survived = [m for m in lost if (m["conversationId"], m["id"], m["seq"], m["content"]) in found]
    assert not survived, "what came after the backup is there"
    again = Conversations(askers)
    await again.go_on(0.5, "again")
    for _, message in again.acknowledged[-len(PEOPLE) :]:
        reader = askers[int(message["content"].split()[1])]
        seqs = [m["seq"] for m in await history(reader, message["conversationId"])]
        assert seqs == list(range(1, len(seqs) + 1))
    print(
        f"{len(kept)} messages acknowledged before the backup are there, in their places; {len(lost)} after it are not"
    )
    print(f"{len(again.acknowledged)} more were written to what was restored")


def _settings(mongo_url: str, redis_url: str) -> Settings:
    return load_settings(mongo_url=mongo_url, redis_url=redis_url, jwt_secret=SECRET, log_level="ERROR")


async def drill(folder: Path) -> None:
    """Carry out the drill. Raises AssertionError."""
    old, copy, redis_only = folder / "old", folder / "copy", folder / "redis"
    for each in (old, copy, redis_only):
        each.mkdir()
    with EmbeddedServers(redis_only, mongo=False) as cache:
        with EmbeddedServers(old, redis=False) as databases:
            async with open_askers(_settings(databases.mongo_url, cache.redis_url)) as askers:
                conversations = Conversations(askers)
                talking = asyncio.create_task(conversations.go_on(SECONDS, "before"))
                await asyncio.sleep(SECONDS / 2)
                locked, unlocked = await asyncio.to_thread(back_up, databases.mongo_url, old, copy)
                await talking
                await conversations.go_on(SECONDS / 2, "after")
                cursors = [(await asker.ask(_SYNC, since=None))["cursor"] for asker in askers]
        kept = [message for at, message in conversations.acknowledged if at < locked]
        lost = [message for at, message in conversations.acknowledged if at > unlocked + 1.0]
        print(
            f"writes were held back for {unlocked - locked:.2f} s; the longest send took {conversations.longest:.2f} s"
        )
        with EmbeddedServers(copy, redis=False) as restored:
            settings = _settings(restored.mongo_url, cache.redis_url)
            await mark_restored(settings)
            async with open_askers(settings) as askers:
                await compare(askers, kept, lost, cursors)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-restore-"))
    try:
        asyncio.run(drill(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
