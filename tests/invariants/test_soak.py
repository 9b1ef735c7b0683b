"""I1 to I5 and I7 at whole processes: a short form of the soak. The long one is `python -m tests.invariants.soak`."""

from __future__ import annotations

from pathlib import Path

from server.embedded import EmbeddedServers
from tests.invariants.soak import Plan, run_soak

SECONDS = 4.0


async def test_what_is_shown_after_a_load_is_what_counting_gives(own_servers: EmbeddedServers, tmp_path: Path) -> None:
    """While the cache is lost at times; the long form runs without that too."""
    plan = Plan(SECONDS, True, seed=7, users=16, servers=2, listeners=4, pause=0.35)
    report = await run_soak(own_servers, tmp_path, plan)
    told = "\n".join(report.lines())
    assert report.tally.problems == [], told
    assert {code for _, code in report.tally.errors} <= {"UNAVAILABLE"}, told
    for kind in (
        "sendMessage",
        "markRead",
        "deleteSession",
        "muteSession",
        "pinSession",
        "setUnread",
        "assignCategory",
    ):
        assert report.tally.asked[kind] > 10, told
