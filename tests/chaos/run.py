"""A run: people with several devices each, on several servers over a replica set and a Redis, all of which are hurt at random while
they write, read, acknowledge, edit, recall and change groups. In the end it is proved from what they were told that nothing is wrong.

`python -m tests.chaos --seconds 300 --seed 1` prints what happened; it ends with 1 where anything was wrong. Every line of the
history is in a file then: `record` and the two judges say what is looked for, `chain` what a device is told meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import ssl
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS
from tests.chaos.acts import Person
from tests.chaos.databases import Databases
from tests.chaos.device import Device
from tests.chaos.faults import Faults, Weather
from tests.chaos.fleet import Fleet
from tests.chaos.history import History, Json
from tests.chaos.judge_messages import KNOWN_LIMIT, judge_messages
from tests.chaos.judge_sessions import judge_sessions
from tests.chaos.record import Record
from tests.chaos.recovery import recoveries, table
from tests.chaos.truth import Ending, Intervals
from tests.chaos.wire import Tally, ask_by_http
from tests.chaos.world import Room, World

LATEST_END = 90.0
"""Seconds after the load by which all is over, however it went."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do. `pause` and `fault_pause`: seconds, on average, between what a device does, and what happens to it."""

    seconds: float
    seed: int
    clients: int = 24
    servers: int = 3
    pause: float = 1.0
    fault_pause: float = 20.0
    large_group: int = 40
    clocks: tuple[float, ...] = (0.0, 7.0, -11.0)
    """How many seconds servers' clocks are ahead, in turn."""
    weather: Weather = field(default_factory=Weather)
    script: tuple[tuple[str, float], ...] = ()
    """Faults, and how long they last, one after another, instead of many at random."""
    patience: float = 40.0
    """For all to be right, in seconds, once it is quiet."""

    @property
    def people(self) -> int:
        return max(3, self.clients * 2 // 5)


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    tally: Tally
    history: History
    figures: dict[str, str] = field(default_factory=dict)
    violations: Counter[str] = field(default_factory=Counter)
    recovered: list[str] = field(default_factory=list)

    @property
    def faults(self) -> Counter[str]:
        """How many of each kind began."""
        begun = (line for line in self.history.lines if line["what"] == "fault" and line["state"] == "begins")
        return Counter(line["name"] for line in begun if "lost" not in line)

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
        told.append(f"faults: {sum(self.faults.values())}")
        told += [f"  {name}: {count}" for name, count in self.faults.most_common()]
        told += ["from healing to the first success of"] + [f"  {line}" for line in self.recovered]
        told += [f"PROBLEM {sentence}" for sentence in tally.problems[:60]]
        told += [f"violations, {kind}: {count}" for kind, count in self.violations.items()]
        told.append(f"problems: {tally.problem_count}")
        return told


async def run_chaos(databases: Databases, folder: Path, plan: Plan) -> Report:
    """All of it. Everything that is wrong stands in the report; history and logs are in the folder. Raises TimeoutError where it does
    not end."""
    tally, history = Tally(), History(folder / "history.jsonl")
    database = f"chaos_{secrets.token_hex(4)}"
    clocks = [plan.clocks[number % len(plan.clocks)] for number in range(plan.servers)]
    fleet = Fleet(databases.addresses, folder, database, clocks, tally)
    limits = httpx.Limits(max_connections=200)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx.AsyncClient(timeout=30, limits=limits, verify=tls, trust_env=False) as http:
        try:
            async with asyncio.timeout(plan.seconds + LATEST_END):
                await fleet.start()
                world = World(tally, fleet, http, [f"u{n}" for n in range(plan.people)], history)
                world.reach = min(1.0, plan.seconds / 60)
                world.skew = max(clocks) - min(clocks)
                chaos = _Chaos(databases, database, world, plan)
                try:
                    await chaos.run()
                finally:
                    await chaos.close()
        finally:
            await fleet.stop()
    chaos.judge()
    history.close()
    return chaos.report


class _Chaos:
    def __init__(self, databases: Databases, database: str, world: World, plan: Plan) -> None:
        self.plan = plan
        self.report = Report(plan, world.tally, world.history)
        self._rng = random.Random(plan.seed)
        self._world = world
        self._databases = databases
        self._database = database
        self._faults = Faults(world.fleet, databases, world.users, f"{database}:", world.history, plan.seed)
        self.devices = [
            Device(world, world.users[number % plan.people], number, self._rng.getrandbits(32))
            for number in range(plan.clients)
        ]
        self._persons = [Person(device) for device in self.devices]
        self._ending = Ending(
            world,
            self.devices,
            self._read_intervals,
            self._describe,
            lambda: databases.count_unfinished(f"{database}:"),
        )

    async def close(self) -> None:
        await asyncio.gather(*(device.stop() for device in self.devices))

    async def run(self) -> None:
        await self._set_up()
        for device in self.devices:
            device.start()
        began = time.monotonic()
        until = began + self.plan.seconds
        work: list[Awaitable[None]] = [person.act(until, self.plan.pause) for person in self._persons]
        work += [person.harm(until, self.plan.fault_pause) for person in self._persons]
        work.append(self._follow_script() if self.plan.script else self._faults.run(until, self.plan.weather))
        await asyncio.gather(*work)
        took = time.monotonic() - began
        operations = sum(sum(outcomes.values()) for outcomes in self._world.tally.operations.values())
        self.report.figures["load"] = f"{took:.0f} s, {operations / took:.0f} operations and retries a second"
        await self._end()

    async def _set_up(self) -> None:
        """Everybody exists, and there are conversations to act in."""
        world, first = self._world, self._persons[: self.plan.people]
        await asyncio.gather(*(person.device.ask("me") for person in first))
        silent = [f"silent{number}" for number in range(max(0, self.plan.large_group - len(world.users)))]
        for start in range(0, len(silent), 50):
            given = [{"id": user, "displayName": user} for user in silent[start : start + 50]]
            await ask_by_http(world.http, world.fleet.servers[0], "service", "upsertUsers", {"input": given})
        for number in range(max(2, self.plan.people // 3)):
            owner = first[number % len(first)]
            others = [user for user in world.users if user != owner.device.user]
            await owner.create_group(self._rng.sample(others, min(len(others), self._rng.randint(2, 7))))
        large = await first[0].create_group([*world.users[1:], *silent])
        world.rooms[large] = Room(world.users[0], set(world.users))
        for _ in range(self.plan.people):
            sender, recipient = self._rng.sample(first, 2)
            await sender.send(toUserId=recipient.device.user)

    async def _follow_script(self) -> None:
        rng = random.Random(self.plan.seed)
        rest = (self.plan.seconds - sum(seconds for _, seconds in self.plan.script)) / (len(self.plan.script) + 1)
        for name, seconds in self.plan.script:
            await asyncio.sleep(max(0.2, rest))
            await self._faults.inflict(name, rng, seconds)

    async def _end(self) -> None:
        """Quiet: what differs now, and goes on to differ, is wrong."""
        for device in self.devices:
            device.offline_until = 0.0
            if device.line is not None:
                device.line.wake()
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
        await self._ending.note_fresh()
        await asyncio.gather(*(device.stop() for device in self.devices))
        await self._databases.flush_redis()
        await self._ending.check_cold()

    def _read_intervals(self) -> Intervals:
        with self._databases.client() as mongo:
            rows = mongo[self._database][MEMBERS].find()
            return {row["_id"]: [(first, last) for first, last in row["i"]] for row in rows}

    def _describe(self, user: str, conversation: str) -> str:
        with self._databases.client() as mongo:
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

    def judge(self) -> None:
        """All servers have ended."""
        with self._databases.client() as mongo:
            rows = list(mongo[self._database][MESSAGES].find())
        self._world.check_stored(rows)
        history = self._world.history
        history.note("stored", messages=[_told_of(row) for row in rows], intervals=self._read_intervals())
        record = Record.of(history.lines)
        for violation in (*judge_messages(record), *judge_sessions(record)):
            self.report.violations[violation.kind] += 1
            if violation.kind == KNOWN_LIMIT:
                self._world.tally.notes[violation.kind] += 1
            else:
                self._world.tally.problem(f"{violation.kind}: {violation.text}")
        self.report.recovered = table(recoveries(history.lines, record))


def _told_of(row: Json) -> Json:
    """A row of MongoDB's in the words that clients know."""
    return {
        "id": f"m_{row['_id']}",
        "conversation": row["c"],
        "seq": row["s"],
        "sender": row["u"],
        "text": row.get("t", ""),
        "key": row.get("ik"),
        "kind": "SYSTEM" if row["k"] == "S" else "TEXT",
    }
