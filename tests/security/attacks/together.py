"""All attacks at the same time, for a long time: by 20 users and over more than 200 anonymous connections."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from server.embedded import EmbeddedServers
from tests.security.attacks.attack import Json, Limits
from tests.security.attacks.outcome import Outcome, merge
from tests.security.attacks.people import ATTACKERS
from tests.security.attacks.registry import ATTACKS
from tests.security.attacks.stage import Stage, open_stage
from tests.security.attacks.table import row

_PROCESSES = 3
_ROUND_SECONDS = 60.0
_REST_SECONDS = 10.0
_STRENGTH = 0.1
"""Share of the rate that each attack has on its own."""

_MAX_CONNECTIONS = 40
"""Connections that each attack of `connections` holds."""

_LIMITS = Limits(kept_mb=200.0, peak_mb=400.0)


async def run_together(names: list[str], seconds: float, folder: Path) -> list[str]:
    """Run attacks in rounds of a minute, print a line for each and one for all, and return the violations."""
    with EmbeddedServers(folder / "databases") as databases:
        async with AsyncExitStack() as stack:
            stage = await open_stage(
                stack, databases, folder, "attack_all", attackers=_PROCESSES, people=len(ATTACKERS)
            )
            plans = [await _plan(stage, number, name) for number, name in enumerate(names)]
            rest = await stage.serve_bystander(_REST_SECONDS)
            outcomes: list[Outcome] = []
            while seconds > 0:
                length = min(seconds, _ROUND_SECONDS)
                name = f"minute {len(outcomes) + 1}"
                outcomes.append(await stage.run(name, plans, _LIMITS.kept_mb, length, repeat=True, rest=rest))
                print(row(outcomes[-1]), flush=True)
                seconds -= length
    total = merge(outcomes)
    print(row(total), flush=True)
    return total.violations(_LIMITS)


async def _plan(stage: Stage, number: int, name: str) -> Json:
    """Return the plan of an attack by one of the users."""
    attack = ATTACKS[name]
    count = min(attack.full, _MAX_CONNECTIONS) if name.startswith("connections/") else attack.full
    user = ATTACKERS[number % len(ATTACKERS)]
    return await stage.plan(name, attack, count=count, rate=max(1.0, _STRENGTH * attack.rate), user=user)
