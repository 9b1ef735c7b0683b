"""`python -m tests.chaos`: one run after another, each with the next seed, until the time is over."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.databases import Databases
from tests.chaos.faults import Weather
from tests.chaos.history import load_history
from tests.chaos.judge_messages import KNOWN_LIMIT, judge_messages
from tests.chaos.judge_sessions import judge_sessions
from tests.chaos.record import Record
from tests.chaos.recovery import recoveries, table
from tests.chaos.run import LATEST_END, Plan, Report, run_chaos

_BESIDE_SECONDS = LATEST_END + 15.0
"""What a run takes beside its load at most."""


def main(arguments: argparse.Namespace) -> int:
    """How many runs had problems."""
    ends = time.monotonic() + arguments.minutes * 60
    bad, seed = 0, arguments.seed
    while True:
        seconds = min(arguments.seconds, ends - time.monotonic() - _BESIDE_SECONDS)
        if seconds < 20:
            return bad
        weather = Weather(
            arguments.rest,
            lanes=tuple(arguments.lanes.split(",")),
            without=tuple(arguments.without),
            alone=arguments.alone,
        )
        plan = Plan(
            seconds,
            seed,
            arguments.clients,
            arguments.servers,
            arguments.pause,
            weather=weather,
            patience=arguments.patience,
        )
        report = _run(plan, arguments.keep)
        print("\n".join(report.lines()), flush=True)
        bad += report.tally.problem_count > 0
        if arguments.once:
            return bad
        seed += 1


def judge(path: Path) -> int:
    """Of the history of an earlier run: how much is wrong."""
    lines = load_history(path)
    record = Record.of(lines)
    found = [*judge_messages(record), *judge_sessions(record)]
    if not any(line["what"] == "stored" for line in lines):
        print("the run broke off: what is stored at the end is not known")
        found = [violation for violation in found if violation.kind not in ("lost", "vanished", "outside")]
    print("\n".join([f"{violation.kind}: {violation.text}" for violation in found] + table(recoveries(lines, record))))
    return len([violation for violation in found if violation.kind != KNOWN_LIMIT])


def _run(plan: Plan, keep: Path) -> Report:
    folder = Path(tempfile.mkdtemp(prefix="confab-chaos-"))
    try:
        with Databases(folder / "databases", plan.servers) as databases:
            report = asyncio.run(run_chaos(databases, folder, plan))
    finally:
        # What is left of a run that went wrong is worth more than its disk space.
        kept = keep / f"seed-{plan.seed}"
        kept.mkdir(parents=True, exist_ok=True)
        for file in (*folder.glob("*.log"), *folder.glob("*.jsonl")):
            shutil.copy(file, kept)
        shutil.rmtree(folder, ignore_errors=True)
    if not report.tally.problem_count:
        shutil.rmtree(kept, ignore_errors=True)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.8, help="for all runs together")
    parser.add_argument("--seconds", type=float, default=190.0, help="of load in one run")
    parser.add_argument("--once", action="store_true", help="one run, however much time is left")
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between what a device does, on average")
    parser.add_argument("--rest", type=float, default=9.0, help="seconds between two faults of one part, on average")
    parser.add_argument("--lanes", default="servers,MongoDB,Redis", help="which parts are hurt")
    parser.add_argument("--alone", action="store_true", help="one fault at a time: its figures are its own")
    parser.add_argument("--without", nargs="*", default=[], help="faults to leave out, by a part of their names")
    parser.add_argument("--patience", type=float, default=40.0, help="seconds of quiet for all to be right")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", type=Path, default=Path(".chaos"), help="where histories and logs of bad runs go")
    parser.add_argument("--judge", type=Path, help="no run: a history.jsonl of an earlier one")
    given = parser.parse_args()
    # Told to stop, or when its time is over, it lets go of whatever it holds, and ends its servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("the time for all runs is over"))
    signal.alarm(int(given.minutes * 60) + 10)
    raise SystemExit(1 if (judge(given.judge) if given.judge else main(given)) else 0)
