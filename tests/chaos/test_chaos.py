"""I1 to I7 with whole server processes: a short form of `python -m tests.chaos`, without and with faults."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.faults.databases import FaultyDatabases
from tests.chaos.report import RunPlan, RunReport
from tests.chaos.run import run_chaos

_CHANGES = ("sendMessage", "markRead", "deleteSession", "muteSession", "pinSession", "setUnread", "assignCategory")
_OF_MESSAGES = ("addReaction", "followThread", "pinMessage", "completeUpload")
_CACHE_LOSSES = (
    *(("lose keys in Redis", 0.1), ("lose a user in Redis", 0.1)) * 3,
    ("flush Redis", 0.1),
)
_FAULTS = (
    ("restart Redis, from an older snapshot", 0.3),
    ("step down the primary", 1.0),
    ("kill a server", 0.5),
    ("freeze a server", 0.5),
)


@pytest.fixture(scope="module")
def databases() -> Iterator[FaultyDatabases]:
    with tempfile.TemporaryDirectory(prefix="confab-chaos-") as folder, FaultyDatabases(Path(folder), 2) as databases:
        yield databases


async def _run(databases: FaultyDatabases, folder: Path, plan: RunPlan) -> RunReport:
    # Both limits only end what hangs: a busy machine needs longer than a quiet one.
    report = await run_chaos(databases, folder, replace(plan, patience=300.0), latest_end=900.0)
    text = "\n".join(report.lines())
    assert report.tally.problems == [], text
    assert {name for name, _ in plan.script} == set(report.faults), text
    # Each device sends once more after the load, whatever the speed of the machine.
    assert report.tally.operations["sendMessage"]["answered"] >= plan.clients, text
    assert report.tally.events["MessageCreated"] >= plan.clients, text
    assert any(report.tally.operations[change]["answered"] for change in _OF_MESSAGES), text
    return report


@pytest.mark.long
async def test_sessions_equal_what_counting_gives_while_the_cache_is_lost(
    databases: FaultyDatabases, tmp_path: Path
) -> None:
    plan = RunPlan(
        3.0, seed=7, clients=16, servers=2, pause=0.15, disturb_pause=4.0, large_group=0, clocks=(0.0,), workspaces=1,
        script=_CACHE_LOSSES,
    )  # fmt: skip
    report = await _run(databases, tmp_path, plan)
    assert all(report.tally.operations[change]["answered"] for change in _CHANGES), report.lines()


@pytest.mark.long
async def test_invariants_hold_while_servers_and_databases_fail(databases: FaultyDatabases, tmp_path: Path) -> None:
    plan = RunPlan(
        4.0, seed=5, clients=6, servers=2, pause=0.3, disturb_pause=4.0, large_group=0, workspaces=1, script=_FAULTS
    )
    await _run(databases, tmp_path, plan)
