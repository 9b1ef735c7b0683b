"""The process of attackers. It runs the programs of attacks as commands on standard input say."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import uvloop

from bench.command_loop import run_command_loop
from tests.security.attacks.attacker import Attacker, AttackReport
from tests.security.attacks.registry import ATTACKS

_REST_SECONDS = 0.5


class Attacks:
    """Commands of the process."""

    async def lower_priority(self) -> dict[str, Any]:
        """Leave the CPU to the server, because a real attacker has another machine."""
        os.nice(10)
        return {}

    async def attack(self, *, port: int, seconds: float, plans: list[dict[str, Any]], repeat: bool) -> dict[str, Any]:
        """Run attacks at the same time, each once or until the time is over, and return their common report.

        Each plan has the name of an attack, its user, count and rate, and the result of its `prepare`.
        """
        deadline = time.monotonic() + seconds
        report = AttackReport()

        async def run(name: str, **plan: Any) -> None:
            while True:
                attacker = Attacker(port, deadline=deadline, report=report, **plan)
                try:
                    async with asyncio.timeout(attacker.seconds_left + 5):
                        await ATTACKS[name].run(attacker)
                except TimeoutError:
                    report.codes["unanswered"] += 1
                await asyncio.sleep(_REST_SECONDS * repeat)
                if not repeat or attacker.seconds_left <= 0:
                    return

        await asyncio.gather(*(run(**plan) for plan in plans))
        return report.to_json()


if __name__ == "__main__":
    uvloop.run(run_command_loop(Attacks()))
