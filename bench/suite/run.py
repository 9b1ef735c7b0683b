"""A run: scenarios one after the other, on databases that last as long as it does."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pymongo import MongoClient

from bench.crowd import Crowd
from bench.session_data import Row, insert_people
from bench.suite.figures import Figures
from bench.suite.profiles import Profile
from bench.suite.scenarios import SCENARIOS
from bench.suite.stage import BASELINE, CONFAB, Stage, database_of
from server.embedded import EmbeddedServers


@dataclass
class Result:
    """All that was found out."""

    profile: str
    seconds: float = 0.0
    figures: list[Figures] = field(default_factory=list)


async def run(profile: Profile, scenarios: Sequence[str], contestants: tuple[str, ...]) -> Result:
    """Starts everything, measures, and ends everything."""
    _allow_many_files()
    result, began = Result(profile.name), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            async with Crowd("bench.suite.load_process") as load:
                stage = Stage(databases, load, folder, profile, contestants)
                _insert_people(stage, scenarios)
                for name in scenarios:
                    print(f"{name}:", flush=True)
                    async with stage.servers():
                        result.figures += await SCENARIOS[name].run(stage)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def _insert_people(stage: Stage, scenarios: Sequence[str]) -> None:
    names = sorted({user for name in scenarios for user in SCENARIOS[name].people(stage)})
    with MongoClient[Row](stage.databases.mongo_url) as mongo:
        if CONFAB in stage.names:
            insert_people(mongo[database_of(CONFAB)], names)
        if BASELINE in stage.names:
            from bench.baseline import seed

            seed.insert_people(mongo[database_of(BASELINE)], names)


def _allow_many_files() -> None:
    """A connection is a file, at both ends."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
