"""The servers that are tormented: killed, told to stop, held, started again, each with a clock of its own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

from server.embedded import ports
from tests.chaos.databases import Addresses, hold_process
from tests.chaos.wire import Tally, lines_of
from tests.processes import ServerProcess, start_server, until_ready

SETTINGS = {"ws_max_queued_events": "100", "ws_ping_interval_seconds": "5"}
"""Small enough for a stalled device to pass them within the time there is."""

_START_SECONDS = 150.0
"""Databases that are away keep a server from being ready."""

_DUE = ("Redis is away",)
"""What a server says as an error, and rightly so."""


class Fleet:
    """Server processes on one database, each on its port for good."""

    def __init__(
        self, addresses: Sequence[Addresses], folder: Path, database: str, clocks: Sequence[float], tally: Tally
    ) -> None:
        """Of each server, where it finds the databases, and how many seconds its clock is ahead of the machine's."""
        self.servers: list[ServerProcess] = []
        self.down: set[int] = set()
        self.tally = tally
        self._addresses = addresses
        self._folder = folder
        self._database = database
        self._started = 0
        self._ports: list[int] = []
        self._clocks = clocks
        for _ in clocks:
            self._ports.append(ports.pick_free(*self._ports))

    def pick(self, rng: random.Random) -> ServerProcess:
        """Any of them, as a name with several addresses gives it: one that is down too."""
        return rng.choice(self.servers)

    async def start(self) -> None:
        self.servers = [self._launch(index) for index in range(len(self._ports))]
        for server in self.servers:
            await until_ready(server, _START_SECONDS)

    async def stop(self) -> None:
        """Ends all of them, and reads their logs."""
        await asyncio.gather(*(self._stop(server) for server in self.servers if server.process.poll() is None))

    async def kill(self, index: int) -> None:
        """As a machine that loses its power."""
        server = self.servers[index]
        self.down.add(index)
        server.process.kill()
        await asyncio.to_thread(server.process.wait)
        self._read_log(server)

    async def terminate(self, index: int) -> None:
        """As a rolling restart does."""
        server = self.servers[index]
        self.down.add(index)
        await self._stop(server)

    async def hold(self, index: int, seconds: float) -> None:
        """It stands still, and goes on as if nothing had been."""
        await hold_process(self.servers[index].pid, seconds)

    async def restart(self, index: int) -> None:
        """On the same port."""
        began = time.monotonic()
        server = self.servers[index] = self._launch(index)
        await until_ready(server, _START_SECONDS)
        self.down.discard(index)
        self.tally.took("a server served", time.monotonic() - began)

    def _launch(self, index: int) -> ServerProcess:
        self._started += 1
        log = self._folder / f"{self._database}-{index}-{self._started}.log"
        return start_server(
            self._addresses[index],
            self._ports[index],
            log,
            self._database,
            settings=SETTINGS,
            python=("-m", "tests.chaos.skewed"),
            environment={"CHAOS_CLOCK_SECONDS": str(self._clocks[index])},
        )

    async def _stop(self, server: ServerProcess) -> None:
        began = time.monotonic()
        code = await asyncio.to_thread(server.stop)
        took = time.monotonic() - began
        self.tally.took("a server told to stop had ended", took)
        if code != 0:
            self.tally.problem(f"a server told to stop ended with {code} after {took:.1f} s")
        self._read_log(server)

    def _read_log(self, server: ServerProcess) -> None:
        for entry in lines_of(server.log):
            if str(entry.get("event")).startswith(_DUE):
                self.tally.notes[f"said: {entry.get('event')}"] += 1
            elif entry.get("level") in ("error", "critical"):
                self.tally.problem(f"in the log of {server.log.name}: {str(entry)[:2000]}")
            elif entry.get("level") == "warning":
                self.tally.notes[f"warned: {entry.get('event')}"] += 1
