"""A run: scenarios one after the other, on databases that last as long as it does."""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.crowd import Crowd
from bench.suite.data import insert_people
from bench.suite.figures import Figures
from bench.suite.profiles import Profile
from bench.suite.scenarios import SCENARIOS
from bench.suite.stage import Stage
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
                insert_people(stage, sorted({user for name in scenarios for user in SCENARIOS[name].people(stage)}))
                for name in scenarios:
                    print(f"{name}:", flush=True)
                    async with stage.servers():
                        result.figures += await SCENARIOS[name].run(stage)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


def _allow_many_files() -> None:
    """A connection is a file, at both ends."""
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
