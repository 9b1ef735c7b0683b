"""I1 to I5 and I7 at whole processes: a short form of the soak. The long one is `python -m tests.invariants.soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.embedded import EmbeddedServers
from tests.invariants.soak import Plan, run_soak

SECONDS = 4.0


@pytest.mark.parametrize("lossy", [False, True], ids=["nothing lost", "cache lost at times"])
async def test_what_is_shown_after_a_load_is_what_counting_gives(
    own_servers: EmbeddedServers, tmp_path: Path, lossy: bool
) -> None:
    report = await run_soak(own_servers, tmp_path, Plan(SECONDS, lossy, seed=7, listeners=4, pause=0.5))
    told = "\n".join(report.lines())
    assert report.tally.problems == [], told
    assert {code for _, code in report.tally.errors} <= ({"UNAVAILABLE"} if lossy else set()), told
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
