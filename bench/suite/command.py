"""The command line of `python -m bench`."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench.peers import ejabberd, node
from bench.suite.docs import write_docs
from bench.suite.profiles import FULL, QUICK
from bench.suite.profiles import GROWTH as GROWTH_PROFILE
from bench.suite.report import print_tables, read_results, write_results
from bench.suite.run import run
from bench.suite.scenarios import COMPARISON, GROWTH, SCENARIOS
from bench.suite.stage import CONFAB, CONTESTANTS, EJABBERD, NODE, PEERS

_INSTALLATION_CHECKS = {NODE: node.ensure_installed, EJABBERD: ejabberd.check_installed}
"""Return why a peer cannot take part, by its name; empty if it can."""

_OUT = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"all of {', '.join(COMPARISON)}, or some; `growth` first: with growing sizes, of {', '.join(GROWTH)}",
    )
    parser.add_argument("--full", action="store_true", help="the largest sizes and more rounds")
    parser.add_argument("--out", type=Path, help="the folder that results are written to")
    parser.add_argument("--only", nargs="+", choices=(*CONTESTANTS, *PEERS), help="the servers that take part")
    parser.add_argument("--peers", action="store_true", help="with other chat servers, if they can be installed")
    parser.add_argument("--show", action="store_true", help="run nothing: print what was found out before")
    parser.add_argument(
        "--write-docs", action="store_true", help="run nothing: write the last results into the documents"
    )
    arguments = parser.parse_args()
    growth = arguments.scenarios[:1] == [GROWTH_PROFILE.name]
    if growth:
        del arguments.scenarios[0]
    out = arguments.out or (_OUT / GROWTH_PROFILE.name if growth else _OUT)
    if arguments.write_docs:
        write_docs(read_results(out))
        return
    if arguments.show:
        print_tables(read_results(out))
        return
    if unknown := set(arguments.scenarios) - set(SCENARIOS):
        parser.error(f"no scenario is called {', '.join(sorted(unknown))}")
    scenarios = arguments.scenarios or (GROWTH if growth else COMPARISON)
    profile = GROWTH_PROFILE if growth else FULL if arguments.full else QUICK
    only = arguments.only or ([CONFAB] if growth else None)
    result = asyncio.run(run(profile, scenarios, _taking_part(only, arguments.peers)))
    print_tables(result)
    write_results(result, out)


def _taking_part(only: Sequence[str] | None, peers: bool) -> tuple[str, ...]:
    """Return the servers that are asked for and installed. Say which are not there."""
    asked = [name for name in (*CONTESTANTS, *PEERS) if (name in only if only else peers or name in CONTESTANTS)]
    reasons = {name: _INSTALLATION_CHECKS[name]() for name in asked if name in _INSTALLATION_CHECKS}
    for name, reason in reasons.items():
        if reason:
            print(f"{name} is not there: {reason}", flush=True)
    return tuple(name for name in asked if not reasons.get(name))
