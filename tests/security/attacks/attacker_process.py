"""The process of an attacker. It runs the program of one attack after another, as commands on standard input say."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import uvloop

from bench.command_loop import run_command_loop
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.registry import ATTACKS


class Attacks:
    """Commands of the process."""

    async def attack(
        self, *, name: str, port: int, user: str, count: int, rate: float, seconds: float, given: dict[str, Any]
    ) -> dict[str, Any]:
        """Run an attack to its end, and return its report."""
        attacker = Attacker(port, user, count, rate, time.monotonic() + seconds, given)
        try:
            async with asyncio.timeout(seconds + 5):
                await ATTACKS[name].run(attacker)
        except TimeoutError:
            attacker.report.codes["unanswered"] += 1
        return attacker.report.to_json()


if __name__ == "__main__":
    # A real attacker does not share the server's CPU.
    os.nice(10)
    uvloop.run(run_command_loop(Attacks()))
