"""I5 at whole processes that die: a short form of the torture. The long one is `python -m tests.invariants.torture`."""

from __future__ import annotations

from pathlib import Path

from server.embedded import EmbeddedServers
from tests.invariants.torture import Plan, run_torture


async def test_devices_show_what_the_server_shows_though_a_server_dies_and_the_cache_is_lost(
    own_servers: EmbeddedServers, tmp_path: Path
) -> None:
    plan = Plan(4.0, seed=5, clients=10, servers=2, pause=0.5, fault_pause=4.0, large_group=0, script=True)
    report = await run_torture(own_servers, tmp_path, plan)
    told = "\n".join(report.lines())
    tally = report.tally
    assert tally.problems == [], told
    assert (tally.notes["servers killed"], tally.notes["cache lost: everything"]) == (1, 1), told
    assert tally.notes["resets of messageEvents"] and tally.closes["1006"], told
    assert tally.operations["sendMessage"]["answered"] > 5 and tally.events["MessageCreated"] > 10, told
