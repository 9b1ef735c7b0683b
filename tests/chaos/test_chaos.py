"""I1 to I5 at whole processes that are hurt: a short form of `python -m tests.chaos`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.chaos.databases import Databases
from tests.chaos.run import Plan, run_chaos

_FAULTS = (
    ("restart Redis, from an older snapshot", 0.5),
    ("step down the primary", 1.0),
    ("kill a server", 1.0),
    ("hold a server", 1.0),
)


async def test_what_clients_are_told_holds_though_servers_and_databases_are_hurt() -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-chaos-"))
    try:
        with Databases(folder / "databases", 2) as databases:
            plan = Plan(6.0, seed=5, clients=6, servers=2, pause=0.4, fault_pause=6.0, large_group=0, script=_FAULTS)
            report = await run_chaos(databases, folder, plan)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = "\n".join(report.lines())
    assert report.tally.problems == [], told
    assert {name for name, _ in _FAULTS} == set(report.faults), told
    assert report.tally.operations["sendMessage"]["answered"] >= 5 and report.tally.events["MessageCreated"] > 5, told
