"""The short form of each attack. It judges counts, refusals and memory, but no times. Long form: `make attack`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from server.embedded import RunningServers
from tests.security.attacks.registry import ATTACKS
from tests.security.attacks.stage import Stage, open_stage

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and files are read from /proc")


@pytest.fixture(scope="module")
async def stage(database_servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        folder = tmp_path_factory.mktemp("attacks")
        yield await open_stage(stack, database_servers, folder, "test_attacks", short=True)


_LONGEST = {
    "users/nested-mentions",
    "users/many-documents",
    "users/unknown-operations",
    "users/huge-variables",
    "users/long-errors",
}
"""Only `make long` runs them. Other tests of tests/security and tests/schema are about the same limits."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in _LONGEST else name for name in ATTACKS]
)
async def test_the_server_holds_against_the_short_form_of_an_attack(stage: Stage, name: str) -> None:
    outcome = await stage.run_short(name, ATTACKS[name])
    assert outcome.requests, "the attack did nothing"
    violations = outcome.violations(ATTACKS[name].limits)
    assert not violations, "; ".join(violations)
