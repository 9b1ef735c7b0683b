"""The command line of `python -m bench`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench.suite.docs import write_docs
from bench.suite.profiles import FULL, QUICK
from bench.suite.report import print_tables, read_results, write_results
from bench.suite.run import run
from bench.suite.scenarios import SCENARIOS
from bench.suite.stage import CONTESTANTS

_OUT = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"all, or some of: {', '.join(SCENARIOS)}")
    parser.add_argument("--full", action="store_true", help="the largest sizes and more rounds")
    parser.add_argument("--out", type=Path, default=_OUT, help="the folder that results are written to")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=CONTESTANTS, help="who takes part")
    parser.add_argument("--show", action="store_true", help="run nothing: print what was found out before")
    parser.add_argument(
        "--write-docs", action="store_true", help="run nothing: write the last results into docs/benchmarks.md"
    )
    arguments = parser.parse_args()
    if arguments.write_docs:
        write_docs(read_results(arguments.out))
        return
    if arguments.show:
        print_tables(read_results(arguments.out))
        return
    if unknown := set(arguments.scenarios) - set(SCENARIOS):
        parser.error(f"no scenario is called {', '.join(sorted(unknown))}")
    scenarios = arguments.scenarios or list(SCENARIOS)
    profile = FULL if arguments.full else QUICK
    result = asyncio.run(run(profile, scenarios, tuple(name for name in CONTESTANTS if name in arguments.only)))
    print_tables(result)
    write_results(result, arguments.out)
