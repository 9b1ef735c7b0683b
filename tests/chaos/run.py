"""One run: a load on several servers, faults during it, and judges at the end.

People with several devices each write, read, acknowledge, edit, recall and change sessions and groups, on several
servers over a replica set and a Redis, while faults are injected. Every request, answer and event goes into a
history. At the end the judges prove from the history and from MongoDB that nothing is wrong.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from pymongo.database import Database

from store.mongo.collections import CONVERSATIONS, MEMBERS, MESSAGES, SESSIONS
from tests.chaos.faults.databases import FaultyDatabases
from tests.chaos.faults.injection import Faults
from tests.chaos.faults.servers import FaultyServers
from tests.chaos.features.feature_load import FeatureLoad
from tests.chaos.judges.channel_rights import judge_channels
from tests.chaos.judges.counted_state import CountedUser, count_sessions
from tests.chaos.judges.derived_data import check_derived_data
from tests.chaos.judges.final_check import FinalCheck, Intervals, StoredState
from tests.chaos.judges.history import History, Json
from tests.chaos.judges.messages import KNOWN_LIMITS, judge_messages
from tests.chaos.judges.record import CACHE_FAULTS, Record
from tests.chaos.judges.recovery import recoveries, table
from tests.chaos.judges.sessions import judge_sessions
from tests.chaos.load.actions import CHANGES, Actor
from tests.chaos.load.connection import request_by_http
from tests.chaos.load.device import Device
from tests.chaos.load.load_end import LoadEnd
from tests.chaos.load.load_state import GroupState, LoadState
from tests.chaos.report import RunPlan, RunReport
from tests.chaos.tally import RunTally
from tests.chaos.workspaces.final_check import ChannelFinalCheck
from tests.chaos.workspaces.workspace_load import WorkspaceLoad
from tests.processes import ROOT

LATEST_END = 130.0
"""Seconds after the load by which a run ends in any case, on a quiet machine."""


ChangeServers = Callable[[FaultyServers], Awaitable[None]]
"""Changes the servers of a run, in place of faults. The load ends when it returns."""


async def run_chaos(
    databases: FaultyDatabases,
    folder: Path,
    plan: RunPlan,
    latest_end: float = LATEST_END,
    *,
    change_servers: ChangeServers | None = None,
    sources: Path = ROOT,
) -> RunReport:
    """Carry out a run. The report names everything that is wrong; the history and the logs are in the folder.

    Args:
        databases: Where the servers store their data.
        folder: Where history and logs go.
        plan: The parameters.
        latest_end: Seconds after the load by which the run ends in any case.
        change_servers: Changes the servers, instead of faults.
        sources: The sources of Confab that the servers start with.

    Raises:
        TimeoutError: The run did not end in time.
    """
    tally, history = RunTally(), History(folder / "history.jsonl")
    database = f"chaos_{secrets.token_hex(4)}"
    clocks = [plan.clocks[number % len(plan.clocks)] for number in range(plan.servers)]
    servers = FaultyServers(databases.addresses, folder, database, clocks, tally, sources)
    limits = httpx.Limits(max_connections=200)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx.AsyncClient(timeout=30, limits=limits, verify=tls, trust_env=False) as http:
        try:
            async with asyncio.timeout(plan.seconds + latest_end):
                await servers.start()
                load = LoadState(tally, servers, http, [f"u{n}" for n in range(plan.people)], history)
                load.reach = min(1.0, plan.seconds / 60)
                load.skew = max(clocks) - min(clocks)
                load.changes_rights = plan.changes_rights
                run = _Run(databases, database, load, plan, change_servers)
                try:
                    await run.carry_out()
                finally:
                    await run.close()
        finally:
            await servers.stop()
    run.judge()
    history.close()
    return run.report


class _Run:
    def __init__(
        self,
        databases: FaultyDatabases,
        database: str,
        load: LoadState,
        plan: RunPlan,
        change_servers: ChangeServers | None,
    ) -> None:
        self.plan = plan
        self._change_servers = change_servers
        self.report = RunReport(plan, load.tally, load.history)
        self._rng = random.Random(plan.seed)
        self._load = load
        self._databases = databases
        self._database = database
        self._faults = Faults(load.servers, databases, load.users, f"{database}:", load.history, plan.seed)
        self._devices = [
            Device(load, load.users[number % plan.people], number, self._rng.getrandbits(32))
            for number in range(plan.clients)
        ]
        self._actors = [Actor(device) for device in self._devices]
        self._workspaces = WorkspaceLoad(load, self._rng, plan.workspaces)
        self._features = FeatureLoad(load, self._workspaces.spaces, self._rng)
        stored = StoredState(
            self._read_intervals,
            self._describe,
            self._count_sessions,
            self._count_unfinished,
        )
        self._channel_check: ChannelFinalCheck | None = None
        self._final_check = FinalCheck(load, self._devices, stored)

    async def close(self) -> None:
        await asyncio.gather(self._workspaces.stop(), *(device.stop() for device in self._devices))

    async def carry_out(self) -> None:
        await self._set_up()
        for device in self._devices:
            device.start()
        self._workspaces.start()
        while self._is_unsettled:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        began = time.monotonic()
        until = LoadEnd(math.inf if self._change_servers else self.plan.seconds)
        # Each kind of change comes first for some device, so that the shortest run has them all.
        work: list[Awaitable[None]] = [
            actor.act(until, self.plan.pause, CHANGES[number % len(CHANGES)])
            for number, actor in enumerate(self._actors)
        ]
        work += self._workspaces.act(until, self.plan.pause)
        work += self._features.act(until, self.plan.pause / 2)
        work += [actor.disturb(until, self.plan.disturb_pause) for actor in self._actors]
        if self._change_servers:
            work.append(self._follow(self._change_servers, until))
        elif self.plan.script:
            work.append(self._follow_script())
        else:
            work.append(self._faults.run(began + self.plan.seconds, self.plan.faults))
        await asyncio.gather(*work)
        # Once all faults are healed, every device sends again: this ends the recovery from the last ones.
        await asyncio.gather(self._workspaces.send_once(), *(actor.do("send") for actor in self._actors))
        took = time.monotonic() - began
        tries = sum(sum(outcomes.values()) for outcomes in self._load.tally.operations.values())
        self.report.figures["load"] = f"{took:.0f} s, {tries / took:.0f} operations and retries a second"
        await self._check_end()

    @property
    def _is_unsettled(self) -> bool:
        return any(device.is_unsettled for device in self._devices) or self._workspaces.is_unsettled

    async def _set_up(self) -> None:
        """Create all users, and conversations to act in."""
        load, first = self._load, self._actors[: self.plan.people]
        await asyncio.gather(*(actor.device.request("me") for actor in first))
        silent = [f"silent{number}" for number in range(max(0, self.plan.large_group - len(load.users)))]
        for start in range(0, len(silent), 50):
            given = [{"id": user, "displayName": user} for user in silent[start : start + 50]]
            await request_by_http(load.http, load.servers.processes[0], "service", "upsertUsers", {"input": given})
        for number in range(max(2, self.plan.people // 3)):
            owner = first[number % len(first)]
            others = [user for user in load.users if user != owner.device.user]
            await owner.create_group(self._rng.sample(others, min(len(others), self._rng.randint(2, 7))))
        large = await first[0].create_group([*load.users[1:], *silent])
        load.groups[large] = GroupState(load.users[0], set(load.users))
        for _ in range(self.plan.people):
            sender, recipient = self._rng.sample(first, 2)
            await sender.send(toUserId=recipient.device.user)
        await self._workspaces.set_up()

    async def _follow(self, change_servers: ChangeServers, until: LoadEnd) -> None:
        try:
            await change_servers(self._load.servers)
        finally:
            until.end()

    async def _follow_script(self) -> None:
        rng = random.Random(self.plan.seed)
        rest = (self.plan.seconds - sum(seconds for _, seconds in self.plan.script)) / (len(self.plan.script) + 1)
        for name, seconds in self.plan.script:
            await asyncio.sleep(max(0.1, rest))
            await self._faults.inject(name, rng, seconds)

    async def _check_end(self) -> None:
        """Compare everything once it is quiet: a difference that does not go away is wrong."""
        for device in self._devices:
            device.offline_until = 0.0
            if device.connection is not None:
                device.connection.end_stall()
        self._workspaces.end_disturbances()
        await asyncio.sleep(max(0.0, self._load.last_mute_end + 0.5 - time.time()))
        took = await self._final_check.settle(self.plan.patience)
        figures = self.report.figures
        figures["devices, API and MongoDB agree"] = f"{took:.1f} s after the load"
        figures["messages compared"] = f"{self._final_check.compared}"
        with self._databases.client() as mongo:
            await self._check_workspaces(mongo[self._database])
            await self._check_features(mongo[self._database])
        self._load.check_membership(self._final_check.intervals)
        figures["acknowledged messages"] = f"{len(self._load.sent)}"
        figures["events of them that were expected, and looked for"] = f"{self._final_check.check_events()}"
        lags = sorted(self._load.tally.lags)
        if lags:
            shares = {"median": 0.5, "99 %": 0.99, "longest": 1.0}
            shown = (
                f"{name} {lags[min(len(lags) - 1, int(share * len(lags)))]:.0f} ms" for name, share in shares.items()
            )
            figures["live messages"] = f"{len(lags)}, after " + ", ".join(shown)
        await self._final_check.note_fresh()
        await self.close()
        await self._databases.flush_redis()
        await self._final_check.check_after_cache_loss(exact=self._is_exact)
        if self._channel_check is not None:
            await self._channel_check.check_after_cache_loss()

    async def _check_workspaces(self, database: Database[Json]) -> None:
        check = self._channel_check = self._workspaces.final_check(self._devices, database)
        took = await check.settle(self.plan.patience)
        figures, spaces = self.report.figures, self._workspaces.spaces
        figures["workspaces agree"] = f"{took:.1f} s later"
        figures["messages in channels"] = f"{len(spaces.sent)} acknowledged, {check.compared} compared"

    async def _check_features(self, database: Database[Json]) -> None:
        check = self._features.final_check()
        await check.check({f"m_{row['_id']}": row for row in database[MESSAGES].find()})
        self.report.figures["checked"] = ", ".join(f"{count} {kind}" for kind, count in sorted(check.compared.items()))
        losses = Record.of(self._load.history.lines).losses
        killed = any("kill" in name for name in self.report.faults)
        began = time.monotonic()
        problems, known = await check_derived_data(
            self._load.servers.settings(), redis_lost_data=bool(losses), servers_were_killed=killed
        )
        self.report.figures["confab check"] = f"{time.monotonic() - began:.1f} s"
        self._load.tally.notes["differences that are known limits"] += len(known)
        for sentence in problems:
            self._load.tally.problem(sentence)

    async def _count_unfinished(self) -> int:
        """Return the number of messages in outboxes, and of changes of pins that are not announced yet."""
        with self._databases.client() as mongo:
            pins = mongo[self._database][CONVERSATIONS].count_documents({"pa": {"$exists": True, "$ne": []}})
        return pins + await self._databases.count_unfinished(f"{self._database}:")

    def _read_intervals(self) -> Intervals:
        with self._databases.client() as mongo:
            # Rows of threads may have no interval.
            rows = mongo[self._database][MEMBERS].find({"_id": {"$not": {"$regex": "^t_"}}})
            return {row["_id"]: [(first, last) for first, last in row["i"]] for row in rows}

    def _count_sessions(self) -> dict[str, CountedUser]:
        # The time of a deployment is that of the clock that is most ahead.
        now_ms = int((time.time() + max(self.plan.clocks)) * 1000)
        with self._databases.client() as mongo:
            return count_sessions(mongo[self._database], now_ms, exact=self._is_exact)

    @property
    def _is_exact(self) -> bool:
        """True if servers stay at work and agree on the time."""
        return not self._load.skew and all(name in CACHE_FAULTS for name in self.report.faults)

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
        """Judge the history. All servers have ended."""
        with self._databases.client() as mongo:
            rows = list(mongo[self._database][MESSAGES].find())
        self._load.check_stored(rows)
        history = self._load.history
        history.note("stored", messages=[_rename_to_api_fields(row) for row in rows], intervals=self._read_intervals())
        record = Record.of(history.lines)
        for violation in (*judge_messages(record), *judge_sessions(record), *judge_channels(record)):
            self.report.violations[violation.kind] += 1
            if violation.kind in KNOWN_LIMITS:
                self._load.tally.notes[violation.kind] += 1
            else:
                self._load.tally.problem(f"{violation.kind}: {violation.text}")
        self.report.recovered = table(recoveries(history.lines, record))


def _rename_to_api_fields(row: Json) -> Json:
    """Return a message row with the field names that clients know."""
    return {
        "id": f"m_{row['_id']}",
        "conversation": row["c"],
        "seq": row["s"],
        "sender": row["u"],
        "text": row.get("t", ""),
        "key": row.get("ik"),
        "kind": "SYSTEM" if row["k"] == "S" else "TEXT",
        "copy": "bo" in row,
    }
