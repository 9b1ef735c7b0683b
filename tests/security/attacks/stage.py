"""Runs attacks: a server, a bystander, an attacker, and the measurements."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.load_process import LoadProcess
from server.embedded import ports
from server.settings import UNLIMITED, Settings
from tests.processes import Addresses, ServerProcess, start_server, until_ready
from tests.security.attacks.attack import Attack, Prepare
from tests.security.attacks.measurement import Watch, watching
from tests.security.attacks.outcome import Outcome, Service
from tests.security.attacks.world import World, insert_users

ATTACKER = "attacker"
_SHORT_LIMITS = dict.fromkeys(("head_timeout_seconds", "body_timeout_seconds", "ws_init_timeout_seconds"), "1")
"""Settings for the short forms, which are over when the server has closed the attacker's connections."""

_LONG_FORM = {"rate": 20.0, "at_once": 100, "patience": 10.0}
_SHORT_FORM = {"rate": 20.0, "at_once": 1, "patience": 60.0}
"""Load of the bystander."""

_SETTLE_SECONDS = 3.0
_SHORTEST_SECONDS = 0.3
"""The bystander sends at least so long."""


@asynccontextmanager
async def attacked_server(
    databases: Addresses, folder: Path, database: str, *, short: bool, max_files: int | None = None
) -> AsyncIterator[ServerProcess]:
    """Run a server with default rates, and the people that attacks need. short: with short time limits."""
    await asyncio.to_thread(insert_users, databases.mongo_url, database, ATTACKER)
    settings = {"log_level": "WARNING", **{rate: str(Settings.model_fields[rate].default) for rate in UNLIMITED}}
    settings |= _SHORT_LIMITS if short else {}
    python = ("-m", "server.cli") if max_files is None else ("-m", "tests.security.attacks.limited_server")
    server = start_server(
        databases, ports.pick_free(), folder / f"{database}.log", database, settings=settings, python=python,
        environment={"ATTACK_MAX_FILES": str(max_files)},
    )  # fmt: skip
    try:
        await until_ready(server)
        yield server
    finally:
        await asyncio.to_thread(server.stop)


async def open_stage(
    stack: AsyncExitStack,
    databases: Addresses,
    folder: Path,
    database: str,
    *,
    short: bool = False,
    max_files: int | None = None,
) -> Stage:
    """Start all processes of a stage. They end with the stack."""
    serving = attacked_server(databases, folder, database, short=short, max_files=max_files)
    server = await stack.enter_async_context(serving)
    bystander = await stack.enter_async_context(LoadProcess("tests.security.attacks.bystander"))
    attacker = await stack.enter_async_context(LoadProcess("tests.security.attacks.attacker_process"))
    return Stage(server, bystander, attacker)


@dataclass(frozen=True, slots=True)
class Stage:
    """One server with a bystander and an attacker, for one attack after another."""

    server: ServerProcess
    bystander: LoadProcess
    attacker: LoadProcess
    prepared: dict[Prepare, dict[str, Any]] = field(default_factory=dict)

    async def serve_bystander(self, seconds: float) -> Service:
        """Return what the bystander gets without an attack."""
        await self._begin(_LONG_FORM)
        await asyncio.sleep(seconds)
        return Service.of(await self.bystander.ask("end"))

    async def run(self, name: str, attack: Attack, *, seconds: float | None, rest: Service | None = None) -> Outcome:
        """Run an attack. seconds: of the long form; None runs the short form."""
        given = await self._prepare(attack)
        logged = len(self._errors())
        async with watching(self.server.pid, attack.limits.kept_mb, _SETTLE_SECONDS) as watch:
            await self._begin(_SHORT_FORM if seconds is None else _LONG_FORM)
            attacking = self._attack(name, attack, given, seconds)
            report, _ = await asyncio.gather(attacking, asyncio.sleep(_SHORTEST_SECONDS))
            meanwhile = Service.of(await self.bystander.ask("end"))
        return self._outcome(name, report, watch, meanwhile, rest, logged)

    async def _begin(self, form: dict[str, float]) -> None:
        await self.bystander.ask("begin", port=self.server.port, **form)

    async def _attack(self, name: str, attack: Attack, given: dict[str, Any], seconds: float | None) -> dict[str, Any]:
        is_short = seconds is None
        return await self.attacker.ask(
            "attack", name=name, port=self.server.port, user=ATTACKER, given=given,
            count=attack.short if is_short else attack.full, rate=0.0 if is_short else attack.rate,
            seconds=attack.short_seconds if seconds is None else seconds + attack.extra_seconds,
        )  # fmt: skip

    def _outcome(
        self, name: str, report: dict[str, Any], watch: Watch, meanwhile: Service, rest: Service | None, logged: int
    ) -> Outcome:
        has_died = self.server.process.poll() is not None
        return Outcome(
            name, watch=watch, meanwhile=meanwhile, rest=rest, died=has_died, log=self._errors()[logged:],
            **report | {"codes": Counter(report["codes"])},
        )  # fmt: skip

    async def _prepare(self, attack: Attack) -> dict[str, Any]:
        """Return the result of the attack's `prepare`. Attacks that share the function share its result."""
        if attack.prepare is None:
            return {}
        if attack.prepare not in self.prepared:
            world = World(self.server, ATTACKER)
            try:
                self.prepared[attack.prepare] = await attack.prepare(world)
            finally:
                await world.close()
        return self.prepared[attack.prepare]

    def _errors(self) -> list[str]:
        """Return the lines of the server's log with level error, and tracebacks."""
        found = []
        for line in self.server.log.read_text().splitlines():
            with suppress(orjson.JSONDecodeError):
                if orjson.loads(line).get("level") in ("error", "critical"):
                    found.append(line)
                continue
            if line.startswith("Traceback"):
                found.append(line)
        return found
