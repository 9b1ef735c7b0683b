"""A rolling upgrade from the last released version under load, and a step back, lose nothing."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.deployment.shared_formats import SHARED_FORMAT, format_of
from store.deployment.worker_numbers import LEASE_MS
from store.mongo.mongo_clock import MONGO_NOW
from tests.chaos.faults.databases import FaultyDatabases
from tests.chaos.faults.servers import FaultyServers
from tests.chaos.report import RunPlan, RunReport
from tests.chaos.run import run_chaos
from tests.processes import ROOT

PHASE_SECONDS = float(os.environ.get("CONFAB_TEST_UPGRADE_SECONDS", "3"))
"""Time of load in each of the five phases."""

_VALID = {"$expr": {"$gt": ["$until", MONGO_NOW]}}


@pytest.fixture(scope="module")
def databases() -> Iterator[FaultyDatabases]:
    with tempfile.TemporaryDirectory(prefix="confab-upgrade-") as folder, FaultyDatabases(Path(folder), 2) as databases:
        yield databases


class RollingUpgrade:
    """Upgrades two servers one after the other, takes one back to the released version, and upgrades it again."""

    def __init__(self, databases: FaultyDatabases, released: Path) -> None:
        self._databases = databases
        self._released = released
        self.formats: list[list[int]] = []
        """The shared formats of the servers in each phase, from their leases; 1 if a lease has none."""

    async def run(self, servers: FaultyServers) -> None:
        await self._rest(servers)
        for index, sources in ((0, ROOT), (1, ROOT), (0, self._released), (0, ROOT)):
            await servers.replace(index, sources)
            await self._rest(servers)

    async def _rest(self, servers: FaultyServers) -> None:
        with self._databases.client() as mongo:
            leases = mongo[servers.settings().mongo_database]["leases"]
            async with asyncio.timeout(2 * LEASE_MS / 1000):
                # If a server cannot release its lease within 2 s, the lease stays valid for up to a minute.
                while len(rows := list(leases.find(_VALID))) != len(servers.processes):  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
        self.formats.append(sorted(format_of(row) for row in rows))
        await asyncio.sleep(PHASE_SECONDS)


def _summary(report: RunReport) -> str:
    sends = report.tally.operations["sendMessage"]
    missed = sum("never received" in problem for problem in report.tally.problems)
    repeated = sum("twice" in problem for problem in report.tally.problems)
    expected = report.figures["events of them that were expected, and looked for"]
    return (
        f"A rolling upgrade under load: sends {sends['answered']}, failed {sends['given up']}; events "
        f"{sum(report.tally.events.values())} ({expected} of acknowledged messages were looked for), missed {missed}, "
        f"repeated {repeated}"
    )


async def test_a_rolling_upgrade_under_load_loses_nothing(
    databases: FaultyDatabases, released: Path, tmp_path: Path
) -> None:
    upgrade = RollingUpgrade(databases, released)
    # Released servers let sessions of threads go back when a member returns: nobody loses what they can see.
    plan = RunPlan(
        5 * PHASE_SECONDS, seed=11, clients=9, servers=2, pause=0.3, disturb_pause=5.0, large_group=0, clocks=(0.0,),
        workspaces=1, patience=300.0, changes_rights=False,
    )  # fmt: skip
    report = await run_chaos(databases, tmp_path, plan, latest_end=900.0, change_servers=upgrade.run, sources=released)
    text = "\n".join([_summary(report), *report.lines()])
    print(text)
    assert report.tally.problems == [], text
    assert upgrade.formats == [
        [1, 1],
        [1, SHARED_FORMAT],
        [SHARED_FORMAT, SHARED_FORMAT],
        [1, SHARED_FORMAT],
        [SHARED_FORMAT, SHARED_FORMAT],
    ]
    assert not any(outcomes["given up"] for outcomes in report.tally.operations.values()), text
    assert report.tally.operations["sendMessage"]["answered"] >= plan.clients, text
    assert report.tally.events["MessageCreated"] >= plan.clients, text
