"""`python -m tests.security.attacks`: run attacks on a server of its own, one after another, and print a table.

Everything stays on this machine. Each attack is bounded in count and time, and has a fresh server.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from server.embedded import EmbeddedServers
from tests.security.attacks.outcome import Outcome
from tests.security.attacks.registry import ATTACKS, NOT_HELD
from tests.security.attacks.stage import open_stage

_WARM_UP_SECONDS, _REST_SECONDS = 2.0, 5.0
_HEAD = (
    f"{'attack':<32} {'sent':>6} {'rest p50':>8} {'p99 ms':>6} {'att. p50':>8} {'p99 ms':>7} {'fail':>9} "
    f"{'MB':>5} {'peak':>5} {'after':>5} {'files':>5} {'peak':>5} {'after':>5} {'CPU s':>6} {'largest':>10}  codes"
)


def row(outcome: Outcome) -> str:
    """Return one line of the table."""
    rest, meanwhile, watch = outcome.rest, outcome.meanwhile, outcome.watch
    assert rest is not None
    failed = f"{sum(meanwhile.failures.values())}/{meanwhile.count}"
    codes = ", ".join(f"{code} {count:,}" for code, count in sorted(outcome.codes.items())) or "none"
    return (
        f"{outcome.name:<32} {outcome.requests:>6} {rest.milliseconds(0.5):>8.0f} {rest.milliseconds(0.99):>6.0f} "
        f"{meanwhile.milliseconds(0.5):>8.0f} {meanwhile.milliseconds(0.99):>7.0f} {failed:>9} "
        f"{watch.before.mb:>5.0f} {watch.peak_mb:>5.0f} {watch.after.mb:>5.0f} "
        f"{watch.before.files:>5} {watch.peak_files:>5} {watch.after.files:>5} {watch.cpu:>6.1f} "
        f"{outcome.largest:>10,}  {codes}"
    )


async def _run(names: list[str], seconds: float, folder: Path) -> list[Outcome]:
    outcomes = []
    with EmbeddedServers(folder / "databases") as databases:
        for number, name in enumerate(names):
            attack = ATTACKS[name]
            async with AsyncExitStack() as stack:
                stage = await open_stage(stack, databases, folder, f"attack_{number}", max_files=attack.max_files)
                await stage.serve_bystander(_WARM_UP_SECONDS)
                rest = await stage.serve_bystander(_REST_SECONDS)
                outcomes.append(await stage.run(name, attack, seconds=seconds, rest=rest))
            print(row(outcomes[-1]), flush=True)
    return outcomes


def main(arguments: argparse.Namespace) -> int:
    """Return the number of attacks that the server did not hold, without the known ones."""
    folder = Path(tempfile.mkdtemp(prefix="confab-attacks-"))
    print(_HEAD, flush=True)
    try:
        outcomes = asyncio.run(_run(arguments.names or list(ATTACKS), arguments.seconds, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    bad = 0
    for outcome in outcomes:
        violations = outcome.violations(ATTACKS[outcome.name].limits)
        bad += bool(violations) and outcome.name not in NOT_HELD
        known = " (known)" if outcome.name in NOT_HELD else ""
        print(f"{outcome.name}{known}: {'; '.join(violations) or 'holds'}")
    return bad


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"attacks to run: {', '.join(ATTACKS)}")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack; some take a fixed time more")
    return parser.parse_args()


if __name__ == "__main__":
    # On SIGTERM the program ends its servers and removes their files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    raise SystemExit(1 if main(_parse_arguments()) else 0)
