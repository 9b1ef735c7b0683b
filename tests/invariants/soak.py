"""The soak: whole server processes under a load of everything that sessions go through, then counted anew from MongoDB.

`python -m tests.invariants.soak --seconds 60` runs it long, once without harm and once while the cache is lost again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from pymongo import MongoClient
from redis.asyncio import Redis

from server.embedded import EmbeddedServers
from tests.invariants.soak_client import Client, Json, Tally
from tests.invariants.soak_ledger import Ledger
from tests.invariants.soak_listener import Listener
from tests.invariants.soak_load import SUB_BIZ, Device, World, crowd_one_user
from tests.invariants.soak_truth import Truth, count_anew, disagreements
from tests.processes import ServerProcess, serving_processes

PATIENCE_SECONDS = 20.0
"""After so long without load, what still differs stays different."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do."""

    seconds: float
    lossy: bool
    seed: int
    users: int = 24
    devices: int = 3
    servers: int = 3
    listeners: int = 6
    pause: float = 0.0
    """Seconds on average between what a device is answered and what it asks next."""


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    tally: Tally
    seconds: float = 0.0
    settled_after: dict[str, float] = field(default_factory=dict)
    sessions: int = 0
    messages: int = 0

    def lines(self) -> list[str]:
        """For a person to read."""
        asked = self.tally.asked
        told = [
            f"{'cache lost at times' if self.plan.lossy else 'nothing lost'}, seed {self.plan.seed}: "
            f"{sum(asked.values())} operations, {sum(asked.values()) / self.seconds:.0f} a second under load, "
            f"{self.messages} messages, {self.sessions} sessions checked"
        ]
        for kind, count in asked.most_common():
            times = sorted(self.tally.seconds[kind])
            told.append(
                f"  {kind:<18} {count:>6}   median {1000 * statistics.median(times):6.1f} ms   "
                f"longest {1000 * times[-1]:7.1f} ms"
            )
        told += [f"  error {code} of {kind}: {count}" for (kind, code), count in self.tally.errors.most_common()]
        told += [f"  {note}: {count}" for note, count in sorted(self.tally.notes.items())]
        told += [f"  {name} after {seconds:.1f} s" for name, seconds in self.settled_after.items()]
        told += [f"  PROBLEM {sentence}" for sentence in self.tally.problems[:40]]
        told.append(f"  problems: {len(self.tally.problems)}")
        return told


async def run_soak(databases: EmbeddedServers, folder: Path, plan: Plan) -> Report:
    """One mode. Everything that is wrong stands in the report."""
    database = f"soak_{secrets.token_hex(4)}"
    async with serving_processes(databases, plan.servers, folder, database) as servers:
        report = await _Soak(databases, database, servers, plan).run()
    _read_logs(servers, report.tally)
    return report


class _Soak:
    def __init__(self, databases: EmbeddedServers, database: str, servers: Sequence[ServerProcess], plan: Plan) -> None:
        self.tally = Tally()
        self.plan = plan
        self.rng = random.Random(plan.seed)
        users = [f"u{number}" for number in range(plan.users)]
        self.world = World(self.tally, Ledger(self.tally, lasting=not plan.lossy), users, servers)
        self.databases = databases
        self.database = database
        self.redis = Redis.from_url(databases.redis_url)
        self.devices = [
            Device(self.world, user, f"d{number}", self.rng.getrandbits(32))
            for user in users
            for number in range(plan.devices)
        ]
        self.listeners = [
            Listener(self.tally, servers, user, self.rng.getrandbits(32)) for user in users[: plan.listeners]
        ]
        self.report = Report(plan, self.tally)

    async def run(self) -> Report:
        try:
            await self._set_up()
            await self._load()
            await self._check("warm")
            for device in self.devices:
                await device.catch_up()
            warm = {user: await self._shown(user) for user in self.world.users}
            self._check_mirrors(warm)
            await self._check_listeners(warm)
            self.world.ledger.check_final(warm, _now_ms())
            self._check_messages()
            await self._stop_listening()
            await self.redis.flushall()
            await self._check("cold")
            self._check_kept(warm, {user: await self._shown(user) for user in self.world.users})
        finally:
            await self._stop_listening()
            clients = [device.client for device in self.devices] + [listener.client for listener in self.listeners]
            await asyncio.gather(*(client.close() for client in clients))
            await self.redis.aclose()
        return self.report

    async def _stop_listening(self) -> None:
        await asyncio.gather(*(listener.pause() for listener in self.listeners))

    async def _set_up(self) -> None:
        first = self.devices[:: self.plan.devices]
        await asyncio.gather(*(device.client.ask("me") for device in first))
        for number in range(10):
            owner = first[number]
            others = self.rng.sample([user for user in self.world.users if user != owner.user], 2 + number)
            await owner.create_group(others, SUB_BIZ[number % 2] if number % 3 == 2 else None)
        if self.plan.lossy:
            for device in first:
                await device.do("invite")
            self.world.keep_memberships()
        for listener in self.listeners:
            await listener.start()

    async def _load(self) -> None:
        began = time.monotonic()
        until = began + self.plan.seconds
        work: list[Awaitable[None]] = [device.run(until, self.plan.pause) for device in self.devices]
        work += [listener.come_and_go(until) for listener in self.listeners]
        work.append(self._crowd(until))
        if self.plan.lossy:
            work.append(self._lose(until))
        asked = sum(self.tally.asked.values())
        await asyncio.gather(*work)
        self.report.seconds = time.monotonic() - began
        self.tally.notes["operations under load"] = sum(self.tally.asked.values()) - asked
        # What was muted for a moment is not muted any more, and what was answered has been told.
        await asyncio.sleep(max(1.0, self.world.last_until + 1.5 - time.time()))

    async def _crowd(self, until: float) -> None:
        while time.monotonic() + 1.0 < until:
            await asyncio.sleep(1.0)
            await crowd_one_user(self.world, self.rng)

    async def _lose(self, until: float) -> None:
        """The cache loses something at random times; in the end everything, which every server notices by itself."""
        losses: Sequence[Callable[[], Awaitable[None]]] = (
            [self._lose_key] * 6 + [self._lose_user] * 3 + [self._lose_all]
        )
        while time.monotonic() + 0.5 < until:
            await asyncio.sleep(self.rng.uniform(0.05, 0.5))
            await self.rng.choice(losses)()
        await self._lose_all()

    async def _lose_key(self) -> None:
        key = await self.redis.randomkey()
        if key is not None:
            await self.redis.delete(key)
            self.tally.notes["lost: a key"] += 1

    async def _lose_user(self) -> None:
        tag = f"{self.database}:{{u:{self.rng.choice(self.world.users)}}}:*"
        keys = [key async for key in self.redis.scan_iter(match=tag, count=1000)]
        if keys:
            await self.redis.delete(*keys)
        self.tally.notes["lost: all of a user"] += 1

    async def _lose_all(self) -> None:
        await self.redis.flushall()
        self.tally.notes["lost: everything"] += 1

    # --- the quiet after it

    def _client(self, user: str) -> Client:
        return next(device.client for device in self.devices if device.user == user)

    async def _check(self, name: str) -> None:
        """Every user's sessions, folders and totals are what counting gives."""
        began = time.monotonic()
        while True:
            wrong: list[str] = []
            truths = self._count()
            for user in self.world.users:
                wrong += (await disagreements(user, truths[user], self._client(user)))[1]
            late = time.monotonic() - began > PATIENCE_SECONDS
            if not wrong or late:
                break
            await asyncio.sleep(0.5)
        self.report.settled_after[f"{name}: as counted"] = time.monotonic() - began
        self.report.sessions = sum(len(truth.sessions) for truth in truths.values())
        self.tally.problems += [f"{name}: {sentence}" for sentence in wrong]

    def _count(self) -> dict[str, Truth]:
        with MongoClient[Json](self.databases.mongo_url) as mongo:
            return count_anew(mongo[self.database], _now_ms())

    async def _shown(self, user: str) -> dict[str, Json]:
        return (await disagreements(user, self._count()[user], self._client(user)))[0]

    def _check_mirrors(self, warm: dict[str, dict[str, Json]]) -> None:
        """A device that only ever asked what changed knows what a fresh one is shown."""
        for device in self.devices:
            for conversation, session in warm[device.user].items():
                held = device.mirror.get(conversation)
                if held is None and session["status"] == "ACTIVE":
                    self.tally.problem(f"{device.memory.name}: syncSessions never told of {conversation}")
                elif held is not None and held != session:
                    names = {name: (held[name], session[name]) for name in session if held[name] != session[name]}
                    self.tally.problem(f"{device.memory.name}: by syncSessions and shown, {conversation}: {names}")

    async def _check_listeners(self, warm: dict[str, dict[str, Json]]) -> None:
        began = time.monotonic()
        wrong = ["not asked yet"]
        while wrong and time.monotonic() - began < PATIENCE_SECONDS:
            await asyncio.sleep(0.3)
            wrong = [w for listener in self.listeners for w in listener.differences(warm[listener.user])]
            wrong += [f"listener {listener.user} is not connected" for listener in self.listeners if not listener.idle]
        self.report.settled_after["listeners: as shown"] = time.monotonic() - began
        self.tally.problems += wrong

    def _check_messages(self) -> None:
        """What was acknowledged is stored, where it was said to be, and nothing is stored twice."""
        with MongoClient[Json](self.databases.mongo_url) as mongo:
            rows = list(mongo[self.database]["messages"].find())
        self.report.messages = len(rows)
        texts = Counter(row["t"] for row in rows if row["k"] != "S")
        self.tally.problems += [f"stored {count} times: {text}" for text, count in texts.items() if count > 1]
        places = {row["t"]: (f"m_{row['_id']}", row["c"], row["s"]) for row in rows}
        for text, message in self.world.ledger.sent.items():
            if places.get(text) != (message["id"], message["conversationId"], message["seq"]):
                self.tally.problem(f"acknowledged as {message}, stored as {places.get(text)}")
        for text in texts.keys() - self.world.ledger.sent.keys() - self.world.ledger.unanswered:
            self.tally.problem(f"stored, and nobody was told: {text}")

    def _check_kept(self, warm: dict[str, dict[str, Json]], cold: dict[str, dict[str, Json]]) -> None:
        """An empty cache changes nothing, and no clock goes back."""
        for user, sessions in warm.items():
            for conversation, before in sessions.items():
                after = cold[user][conversation]
                names = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
                if "activeTs" in names and after["activeTs"] > before["activeTs"]:
                    del names["activeTs"]
                if names:
                    self.tally.problem(f"{user} {conversation}: warm and cold differ: {names}")


def _read_logs(servers: Sequence[ServerProcess], tally: Tally) -> None:
    for server in servers:
        if server.process.returncode != 0:
            tally.problem(f"a server ended with {server.process.returncode}")
        for line in server.log.read_text().splitlines():
            try:
                entry = orjson.loads(line)
            except orjson.JSONDecodeError:
                entry = {"level": "error", "event": line}
            if entry.get("level") in ("error", "critical"):
                tally.problem(f"in a server's log: {line[:1500]}")
            elif entry.get("level") == "warning":
                tally.notes[f"warned: {entry.get('event')}"] += 1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _main(arguments: argparse.Namespace) -> int:
    problems = 0
    folder = Path(tempfile.mkdtemp(prefix="confab-soak-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            for lossy in {"calm": (False,), "loss": (True,), "both": (False, True)}[arguments.mode]:
                plan = Plan(
                    arguments.seconds, lossy, arguments.seed, arguments.users, arguments.devices, pause=arguments.pause
                )
                report = await run_soak(databases, folder, plan)
                print("\n".join(report.lines()), flush=True)
                problems += len(report.tally.problems)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if problems else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load, in each mode")
    parser.add_argument("--mode", choices=("calm", "loss", "both"), default="both")
    parser.add_argument("--users", type=int, default=24)
    parser.add_argument("--devices", type=int, default=3, help="of each user")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between a device's requests, on average")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    raise SystemExit(asyncio.run(_main(parser.parse_args())))
