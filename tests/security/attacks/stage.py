"""Runs attacks: a server, a bystander, an attacker, and the measurements."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from bench.load_process import LoadProcess
from server.embedded import ports
from server.settings import UNLIMITED, Settings
from tests.processes import Addresses, ServerProcess, start_server, token, until_ready
from tests.security.attacks.attack import Attack, Json, Prepare
from tests.security.attacks.bystander import USER
from tests.security.attacks.identity_provider import IdentityProvider, identity_provider
from tests.security.attacks.measurement import watching
from tests.security.attacks.outcome import Outcome, Service
from tests.security.attacks.people import ATTACKERS, insert_all
from tests.security.attacks.world import World

_SHORT_LIMITS = dict.fromkeys(("head_timeout_seconds", "body_timeout_seconds", "ws_init_timeout_seconds"), "1")
"""Settings for the short forms, which are over when the server has closed the attacker's connections."""

_LONG_FORM = {"rate": 20.0, "at_once": 100, "patience": 10.0}
_SHORT_FORM = {"rate": 20.0, "at_once": 1, "patience": 60.0}
"""Load of the bystander."""

_SETTLE_SECONDS = 3.0
_SHORTEST_SECONDS = 0.3
"""Shortest time for which the bystander sends."""


@asynccontextmanager
async def attacked_server(
    databases: Addresses, folder: Path, database: str, settings: dict[str, str], max_files: int | None, people: int
) -> AsyncIterator[ServerProcess]:
    """Run a server with default rates, and the people that attacks need."""
    await asyncio.to_thread(insert_all, databases.mongo_url, database, ATTACKERS[:people])
    rates = {rate: str(Settings.model_fields[rate].default) for rate in UNLIMITED}
    python = ("-m", "server.cli") if max_files is None else ("-m", "tests.security.attacks.limited_server")
    server = start_server(
        databases, ports.pick_free(), folder / f"{database}.log", database, python=python,
        settings={"log_level": "WARNING", **rates, **settings}, environment={"ATTACK_MAX_FILES": str(max_files)},
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
    has_key_set: bool = False,
    attackers: int = 1,
    people: int = 1,
) -> Stage:
    """Start all processes of a stage, for the short forms or for the long ones. They end with the stack.

    attackers: number of processes. people: number of users that attack.
    """
    provider = stack.enter_context(identity_provider()) if has_key_set else None
    settings = _SHORT_LIMITS if short else provider.settings if provider is not None else {}
    serving = attacked_server(databases, folder, database, settings, max_files, people)
    server = await stack.enter_async_context(serving)
    bystander = await stack.enter_async_context(LoadProcess("tests.security.attacks.bystander"))
    processes = [
        await stack.enter_async_context(LoadProcess("tests.security.attacks.attacker_process"))
        for _ in range(attackers)
    ]
    if not short:
        for process in processes:
            await process.ask("lower_priority")
    return Stage(server, bystander, processes, short, provider)


@dataclass(frozen=True, slots=True)
class Stage:
    """One server with a bystander and attackers, for one attack after another."""

    server: ServerProcess
    bystander: LoadProcess
    attackers: list[LoadProcess]
    is_short: bool
    provider: IdentityProvider | None = None
    prepared: dict[tuple[Prepare, str], Json] = field(default_factory=dict)

    async def serve_bystander(self, seconds: float) -> Service:
        """Return what the bystander gets without an attack."""
        await self._begin(_LONG_FORM)
        await asyncio.sleep(seconds)
        return Service.of(await self.bystander.ask("end"))

    async def run_short(self, name: str, attack: Attack) -> Outcome:
        """Run the short form of an attack."""
        plan = await self.plan(name, attack, count=attack.short, rate=0.0)
        return await self.run(name, [plan], attack.limits.kept_mb, attack.short_seconds, _SHORT_FORM)

    async def plan(self, name: str, attack: Attack, *, count: int, rate: float, user: str = ATTACKERS[0]) -> Json:
        """Return the plan of an attack for the process of an attacker, and create the state that it needs.

        Attacks of a user that share a `prepare` share its result.
        """
        given: Json = {}
        if attack.prepare is not None:
            key = (attack.prepare, user)
            if key not in self.prepared:
                world = World(self.server.port, user, is_short=self.is_short)
                self.prepared[key] = await attack.prepare(world)
            given = self.prepared[key]
        return {"name": name, "user": user, "count": count, "rate": rate, "given": given}

    async def run(
        self,
        name: str,
        plans: list[Json],
        kept_mb: float,
        seconds: float,
        form: dict[str, float] = _LONG_FORM,
        *,
        repeat: bool = False,
        rest: Service | None = None,
    ) -> Outcome:
        """Run attacks, distributed over the processes, each once or until the time is over, and measure."""
        logged = len(self._errors())
        shares = [plans[number :: len(self.attackers)] for number in range(len(self.attackers))]
        async with watching(self.server.pid, kept_mb, _SETTLE_SECONDS) as watch:
            await self._begin(form)
            *reports, _ = await asyncio.gather(
                *(
                    process.ask("attack", port=self.server.port, seconds=seconds, plans=share, repeat=repeat)
                    for process, share in zip(self.attackers, shares, strict=True)
                ),
                asyncio.sleep(_SHORTEST_SECONDS),
            )
            meanwhile = Service.of(await self.bystander.ask("end"))
        has_died = self.server.process.poll() is not None
        fetches = self.provider.fetches if self.provider is not None else 0
        return Outcome(
            name, watch=watch, meanwhile=meanwhile, rest=rest, died=has_died, log=self._errors()[logged:],
            fetches=fetches, **_sum_of(reports),
        )  # fmt: skip

    async def _begin(self, form: dict[str, float]) -> None:
        bearer = token(USER) if self.provider is None else self.provider.token(USER)
        await self.bystander.ask("begin", port=self.server.port, token=bearer, **form)

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


def _sum_of(reports: list[Json]) -> Json:
    """Return the sums of attackers' reports."""
    codes: Counter[str] = Counter()
    for report in reports:
        codes.update(report["codes"])
    summed = {name: sum(report[name] for report in reports) for name in ("requests", "received", "open_after")}
    return {**summed, "codes": codes, "largest": max(report["largest"] for report in reports)}
