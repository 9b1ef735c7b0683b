"""The torture of live delivery: many devices on several servers, which lose connections, servers and the cache at random, and
in the end show what the server shows, built from events alone (I5).

`python -m tests.invariants.torture --seconds 300 --clients 50 --servers 3 --seed 1` prints what happened; 1 where anything was
wrong. What the contract promises, and is checked all the time, stands at the top of `torture_chain`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import shutil
import ssl
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pymongo import MongoClient
from redis.asyncio import Redis

from server.embedded import EmbeddedServers
from store.rows import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS
from tests.invariants.soak_client import Json
from tests.invariants.torture_acts import Person
from tests.invariants.torture_device import Device
from tests.invariants.torture_servers import Fleet, Harm
from tests.invariants.torture_truth import Ending, Intervals
from tests.invariants.torture_wire import Tally, ask_by_http
from tests.invariants.torture_world import Room, World

_LATEST_END = 240.0
"""Seconds after the load by which all is over, however it went."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do. `pause` and `fault_pause`: seconds, on average, between what a device does, and what happens to it."""

    seconds: float
    seed: int
    clients: int = 50
    servers: int = 3
    pause: float = 1.2
    fault_pause: float = 15.0
    large_group: int = 60
    script: bool = False
    """One kill and one loss of the cache, at set times, instead of many at random."""
    patience: float = 60.0
    """For all to be right, in seconds, once it is quiet."""

    @property
    def people(self) -> int:
        return max(3, self.clients * 2 // 5)


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    tally: Tally
    figures: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """For a person to read."""
        plan, tally = self.plan, self.tally
        told = [f"{plan.clients} devices of {plan.people} people, {plan.servers} servers, seed {plan.seed}"]
        told += [f"  {name}: {value}" for name, value in self.figures.items()]
        told += [f"  {what} after {seconds:.1f} s at most" for what, seconds in sorted(tally.longest.items())]
        told.append("operations, by outcome")
        for kind, outcomes in sorted(tally.operations.items()):
            told.append(f"  {kind:<18} " + ", ".join(f"{what} {count}" for what, count in outcomes.most_common()))
        for title, counts in (
            ("events", tally.events),
            ("ends of connections", tally.closes),
            ("besides", tally.notes),
        ):
            told.append(title)
            told += [f"  {name}: {count}" for name, count in sorted(counts.items()) if count]
        told += [f"PROBLEM {sentence}" for sentence in tally.problems[:60]]
        told.append(f"problems: {tally.problem_count}")
        return told


async def run_torture(databases: EmbeddedServers, folder: Path, plan: Plan) -> Report:
    """All of it. Everything that is wrong stands in the report. Raises TimeoutError where it does not end."""
    tally = Tally()
    database = f"torture_{secrets.token_hex(4)}"
    fleet = Fleet(databases, folder, database, plan.servers, tally)
    limits = httpx.Limits(max_connections=200)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx.AsyncClient(timeout=30, limits=limits, verify=tls, trust_env=False) as http:
        try:
            async with asyncio.timeout(plan.seconds + _LATEST_END):
                await fleet.start()
                torture = _Torture(databases, database, fleet, http, plan)
                try:
                    await torture.run()
                finally:
                    await torture.close()
        finally:
            await fleet.stop()
    torture.check_stored()
    return torture.report


class _Torture:
    def __init__(
        self, databases: EmbeddedServers, database: str, fleet: Fleet, http: httpx.AsyncClient, plan: Plan
    ) -> None:
        self.plan = plan
        self.report = Report(plan, fleet.tally)
        self._rng = random.Random(plan.seed)
        self._users = [f"u{number}" for number in range(plan.people)]
        self._world = World(fleet.tally, fleet, http, self._users, reach=min(1.0, plan.seconds / 60))
        self._databases = databases
        self._database = database
        self._harm = Harm(fleet, databases.redis_url, f"{database}:", self._users, fleet.tally, plan.seed)
        self.devices = [
            Device(self._world, self._users[number % plan.people], number, self._rng.getrandbits(32))
            for number in range(plan.clients)
        ]
        self._persons = [Person(device) for device in self.devices]
        self._ending = Ending(
            self._world, self.devices, self._read_intervals, self._describe, self._harm.count_unfinished
        )

    async def close(self) -> None:
        await asyncio.gather(*(device.stop() for device in self.devices))
        await self._harm.close()

    async def run(self) -> None:
        await self._set_up()
        for device in self.devices:
            device.start()
        began = time.monotonic()
        until = began + self.plan.seconds
        work: list[Awaitable[None]] = [person.act(until, self.plan.pause) for person in self._persons]
        work += [person.harm(until, self.plan.fault_pause) for person in self._persons]
        work.append(self._follow_script() if self.plan.script else self._harm.run(until))
        await asyncio.gather(*work)
        took = time.monotonic() - began
        operations = sum(sum(outcomes.values()) for outcomes in self._world.tally.operations.values())
        self.report.figures["load"] = f"{took:.0f} s, {operations / took:.0f} operations and retries a second"
        await self._end()

    async def _set_up(self) -> None:
        """Everybody exists, and there are conversations to act in."""
        world, first = self._world, self._persons[: self.plan.people]
        await asyncio.gather(*(person.device.ask("me") for person in first))
        silent = [f"silent{number}" for number in range(max(0, self.plan.large_group - len(self._users)))]
        for start in range(0, len(silent), 50):
            given = [{"id": user, "displayName": user} for user in silent[start : start + 50]]
            await ask_by_http(world.http, world.fleet.servers[0], "service", "upsertUsers", {"input": given})
        for number in range(max(2, self.plan.people // 3)):
            owner = first[number % len(first)]
            others = [user for user in self._users if user != owner.device.user]
            await owner.create_group(self._rng.sample(others, min(len(others), self._rng.randint(2, 7))))
        large = await first[0].create_group([*self._users[1:], *silent])
        world.rooms[large] = Room(self._users[0], set(self._users))
        for _ in range(self.plan.people):
            sender, recipient = self._rng.sample(first, 2)
            await sender.send(toUserId=recipient.device.user)

    async def _follow_script(self) -> None:
        """The cache is lost, then a server dies."""
        await asyncio.sleep(self.plan.seconds / 4)
        await self._harm.lose_all()
        await asyncio.sleep(self.plan.seconds / 2)
        await self._harm.kill_one()

    async def _end(self) -> None:
        """Quiet: what differs now, and goes on to differ, is wrong."""
        for device in self.devices:
            device.offline_until = 0.0
        await asyncio.sleep(max(0.0, self._world.last_until + 0.5 - time.time()))
        took = await self._ending.settle(self.plan.patience)
        figures = self.report.figures
        figures["as a fresh client is shown"] = f"{took:.1f} s after the load"
        figures["messages compared"] = f"{self._ending.compared}"
        self._world.check_membership(self._ending.intervals)
        figures["acknowledged messages"] = f"{len(self._world.sent)}"
        figures["tellings of them that had to be, and were looked for"] = f"{self._ending.check_told()}"
        lags = sorted(self._world.tally.lags)
        if lags:
            shares = {"median": 0.5, "99 %": 0.99, "longest": 1.0}
            shown = (
                f"{name} {lags[min(len(lags) - 1, int(share * len(lags)))]:.0f} ms" for name, share in shares.items()
            )
            figures["live messages"] = f"{len(lags)}, after " + ", ".join(shown)
        await asyncio.gather(*(device.stop() for device in self.devices))
        async with Redis.from_url(self._databases.redis_url) as redis:
            await redis.flushall()
        await self._ending.check_cold()

    def _read_intervals(self) -> Intervals:
        with MongoClient[Json](self._databases.mongo_url) as mongo:
            rows = mongo[self._database][MEMBERS].find()
            return {row["_id"]: [(first, last) for first, last in row["i"]] for row in rows}

    def _describe(self, user: str, conversation: str) -> str:
        with MongoClient[Json](self._databases.mongo_url) as mongo:
            database = mongo[self._database]
            rows = {
                "session": database[SESSIONS].find_one({"_id": f"{user} {conversation}"}),
                "membership": database[MEMBERS].find_one({"_id": f"{conversation} {user}"}),
                "conversation": database[CONVERSATIONS].find_one({"_id": conversation}),
                "messages": [
                    (row["s"], row["k"], row["u"], row.get("t", ""))
                    for row in database[MESSAGES].find({"c": conversation})
                ],
            }
        return ", ".join(f"{name}: {row}" for name, row in rows.items())

    def check_stored(self) -> None:
        """All servers have ended."""
        with MongoClient[dict[str, Any]](self._databases.mongo_url) as mongo:
            self._world.check_stored(mongo[self._database][MESSAGES].find(), self._harm.losses)


def _main(arguments: argparse.Namespace) -> int:
    folder = Path(tempfile.mkdtemp(prefix="confab-torture-"))
    plan = Plan(arguments.seconds, arguments.seed, arguments.clients, arguments.servers, arguments.pause)
    try:
        with EmbeddedServers(folder / "databases") as databases:
            report = asyncio.run(run_torture(databases, folder, plan))
    finally:
        if arguments.keep_logs:
            for log in folder.glob("*.log"):
                shutil.copy(log, arguments.keep_logs)
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(report.lines()), flush=True)
    return 1 if report.tally.problem_count else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of load; the end takes up to two minutes more")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.2, help="seconds between what a device does, on average")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep-logs", type=Path, help="a folder for the servers' logs")
    raise SystemExit(_main(parser.parse_args()))
