"""`python -m tests.chaos`: one run after another, each with the next seed, until the time is over.

The first run only loses cached data; the others disturb servers, MongoDB and Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos.faults.databases import FaultyDatabases
from tests.chaos.faults.injection import FaultPlan
from tests.chaos.judges.channel_rights import judge_channels
from tests.chaos.judges.history import load_history
from tests.chaos.judges.messages import KNOWN_LIMITS, judge_messages
from tests.chaos.judges.record import Record
from tests.chaos.judges.recovery import recoveries, table
from tests.chaos.judges.sessions import judge_sessions
from tests.chaos.report import RunPlan, RunReport
from tests.chaos.run import LATEST_END, run_chaos

SCENARIOS = ("calm", "cache", "faults")
"""No faults; loss of cached data; faults of servers, MongoDB, Redis and links."""

CACHE_RUN_SECONDS = 40.0

_MAX_EXTRA_SECONDS = LATEST_END + 15.0
"""The most seconds that a run takes in addition to its load."""


def main(arguments: argparse.Namespace) -> int:
    """Return the number of runs with problems."""
    ends = time.monotonic() + arguments.minutes * 60
    bad, seed = 0, arguments.seed
    scenario = arguments.scenario or ("faults" if arguments.once else "cache")
    while True:
        seconds = min(arguments.seconds, ends - time.monotonic() - _MAX_EXTRA_SECONDS)
        if seconds < 20:
            return bad
        report = _run(plan_of(scenario, seconds, seed, arguments), arguments.keep)
        print(f"scenario {scenario}: " + "\n".join(report.lines()), flush=True)
        bad += report.tally.problem_count > 0
        if arguments.once:
            return bad
        scenario = arguments.scenario or "faults"
        seed += 1


def plan_of(scenario: str, seconds: float, seed: int, arguments: argparse.Namespace) -> RunPlan:
    """Return the plan of a run of a scenario."""
    faults = FaultPlan(
        arguments.rest,
        parts=tuple(arguments.parts.split(",")),
        without=tuple(arguments.without),
        alone=arguments.alone,
    )
    plan = RunPlan(
        seconds,
        seed,
        arguments.clients,
        arguments.servers,
        arguments.pause,
        faults=faults,
        patience=arguments.patience,
        workspaces=arguments.workspaces,
    )
    if scenario == "faults":
        return plan
    parts = ("cache",) if scenario == "cache" else ()
    faults = FaultPlan(rest=0.4, reach=0.02, parts=parts, without=faults.without)
    return replace(plan, seconds=min(seconds, CACHE_RUN_SECONDS), pause=plan.pause / 4, faults=faults, clocks=(0.0,))


def judge(path: Path) -> int:
    """Judge the history of an earlier run, and return the number of violations."""
    lines = load_history(path)
    record = Record.of(lines)
    found = [*judge_messages(record), *judge_sessions(record), *judge_channels(record)]
    if not any(line["what"] == "stored" for line in lines):
        print("the run broke off: the stored messages at the end are unknown")
        found = [violation for violation in found if violation.kind not in ("lost", "vanished", "outside")]
    print("\n".join([f"{violation.kind}: {violation.text}" for violation in found] + table(recoveries(lines, record))))
    return len([violation for violation in found if violation.kind not in KNOWN_LIMITS])


def _run(plan: RunPlan, keep: Path) -> RunReport:
    folder = Path(tempfile.mkdtemp(prefix="confab-chaos-"))
    try:
        with FaultyDatabases(folder / "databases", plan.servers) as databases:
            report = asyncio.run(run_chaos(databases, folder, plan))
    finally:
        # The files of a run that broke off are worth more than their disk space.
        kept = keep / f"seed-{plan.seed}"
        kept.mkdir(parents=True, exist_ok=True)
        for file in (*folder.glob("*.log"), *folder.glob("*.jsonl")):
            shutil.copy(file, kept)
        shutil.rmtree(folder, ignore_errors=True)
    if not report.tally.problem_count:
        shutil.rmtree(kept, ignore_errors=True)
    return report


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.8, help="for all runs together")
    parser.add_argument("--seconds", type=float, default=190.0, help="of load in one run with faults")
    parser.add_argument("--once", action="store_true", help="one run, however much time is left")
    parser.add_argument("--scenario", choices=SCENARIOS, help="the same for all runs; calm: no faults at all")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workspaces", type=int, default=2)
    parser.add_argument("--pause", type=float, default=1.0, help="average seconds between two actions of a device")
    parser.add_argument("--rest", type=float, default=9.0, help="average seconds between two faults of one part")
    parser.add_argument("--parts", default="servers,MongoDB,Redis", help="the parts that have faults")
    parser.add_argument("--alone", action="store_true", help="one fault at a time: its figures are its own")
    parser.add_argument("--without", nargs="*", default=[], help="faults to leave out, by a part of their names")
    parser.add_argument("--patience", type=float, default=40.0, help="seconds after the load until all has to be right")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", type=Path, default=Path(".chaos"), help="folder for histories and logs of bad runs")
    parser.add_argument("--judge", type=Path, help="judge a history.jsonl of an earlier run instead of running")
    return parser.parse_args()


if __name__ == "__main__":
    given = _parse_arguments()
    # On SIGTERM, and when its time is over, the program ends its servers and databases.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("the time for all runs is over"))
    signal.alarm(int(given.minutes * 60) + 10)
    raise SystemExit(1 if (judge(given.judge) if given.judge else main(given)) else 0)
