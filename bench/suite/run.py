"""A run: scenarios one after the other, on databases that last as long as the run."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.load_process import LoadProcess
from bench.suite import floor_work, operations
from bench.suite.data import insert_people, insert_people_of
from bench.suite.figures import Figures
from bench.suite.operations import prepare
from bench.suite.profiles import Profile
from bench.suite.scenarios import SCENARIOS
from bench.suite.stage import BASELINE, CONFAB, FLOOR, Stage, database_of
from bench.suite.trips import Trips, baseline_inside, confab_inside, count_trips
from server.embedded import EmbeddedServers

TRIPS_OF = {
    "private-http": "private",
    "private-ws": "private",
    "lone": "private",
    "group-rest": "group",
    "group-burst": "group",
    "group-left": "group",
    "sessions-rest": "sessions",
    "sessions": "sessions",
    "sync-rest": "sync",
    "sync": "sync",
    "history-rest": "history",
    "history": "history",
    "read-rest": "read",
    "read": "read",
}
"""The operation whose round trips apply to a scenario: they do not depend on the load or on the size of the group."""


@dataclass
class Result:
    """All results."""

    profile: str
    seconds: float = 0.0
    figures: list[Figures] = field(default_factory=list)


async def run(profile: Profile, scenarios: Sequence[str], contestants: tuple[str, ...]) -> Result:
    """Start everything, measure, and end everything."""
    _allow_many_files()
    result, began = Result(profile.name), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            async with LoadProcess("bench.suite.load_worker") as load:
                stage = Stage(databases, load, folder, profile, contestants)
                stage.people = sorted({user for name in scenarios for user in SCENARIOS[name].people(stage)})
                insert_people(stage, stage.people)
                # Opening connections needs servers whose memory was not used before.
                parts = [[name for name in scenarios if (name == "connections") is last] for last in (False, True)]
                for part in filter(None, parts):
                    async with stage.servers():
                        for name in part:
                            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
                            await stage.learn_idle()
                            result.figures += await SCENARIOS[name].run(stage)
                await _count_trips(stage, result.figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


async def _count_trips(stage: Stage, figures: Sequence[Figures]) -> None:
    """Add round trips to the figures of the servers that can run inside this process."""
    asked = {CONFAB: confab_inside, BASELINE: baseline_inside}
    wanted = {TRIPS_OF[one.scenario] for one in figures if one.scenario in TRIPS_OF}
    trips: dict[str, Mapping[str, Trips]] = {FLOOR: floor_work.TRIPS}
    for name in (name for name in stage.names if name in asked and wanted):
        print(f"round trips of {name}", flush=True)
        database = f"{database_of(name)}_trips"
        insert_people_of(stage, name, database, operations.people())
        async with asked[name](stage.databases, database) as (ask, count):
            trips[name] = await count_trips([one for one in await prepare(ask) if one.key in wanted], count)
    for one in figures:
        if one.contestant in trips and one.scenario in TRIPS_OF:
            one.trips = trips[one.contestant][TRIPS_OF[one.scenario]]


def _allow_many_files() -> None:
    """Raise the limit of open files: a connection is a file at both ends."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
