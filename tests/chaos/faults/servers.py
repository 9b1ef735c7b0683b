"""The server processes of a run: killed, stopped, frozen and restarted, each with a clock of its own."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from server.embedded import ports
from server.settings import Settings, load_settings
from tests.chaos.faults.databases import DatabaseUrls, freeze_process
from tests.chaos.tally import RunTally
from tests.processes import ROOT, ServerProcess, start_server, until_ready
from tests.server.tokens import SECRET

SETTINGS = {"ws_max_queued_events": "100", "ws_ping_interval_seconds": "5"}
"""Small limits, which a stalled device reaches within the time of a run."""

_START_SECONDS = 150.0
"""A server is not ready while its databases are unavailable."""

_EXPECTED_ERRORS = frozenset({"redis_is_away"})
"""Error events that a server logs rightly."""

_SHUTDOWN_TIMEOUT = "timeout graceful shutdown exceeded"
"""Part of what uvicorn logs if a request takes longer than a shutdown may take. Clients repeat the request."""


class FaultyServers:
    """Server processes on one database. Each keeps its port."""

    def __init__(
        self,
        addresses: Sequence[DatabaseUrls],
        folder: Path,
        database: str,
        clocks: Sequence[float],
        tally: RunTally,
        sources: Path = ROOT,
    ) -> None:
        """Prepare the servers.

        Args:
            addresses: The databases' URLs for each server.
            folder: Where the logs go.
            database: Name of the database and prefix of the keys.
            clocks: Seconds by which each server's clock is ahead of the machine's.
            tally: Takes notes and problems.
            sources: The sources of Confab that the servers start with.
        """
        self.processes: list[ServerProcess] = []
        self.down: set[int] = set()
        self.tally = tally
        self._addresses = addresses
        self._folder = folder
        self._database = database
        self._started = 0
        self._ports: list[int] = []
        self._clocks = clocks
        self._sources = [sources for _ in clocks]
        for _ in clocks:
            self._ports.append(ports.pick_free(*self._ports))

    def settings(self) -> Settings:
        """Return the settings of commands on the same deployment."""
        databases = self._addresses[0]
        return load_settings(
            mongo_url=databases.mongo_url,
            mongo_database=self._database,
            redis_url=databases.redis_url,
            redis_prefix=f"{self._database}:",
            jwt_secret=SECRET,
        )

    def pick(self, rng: random.Random) -> ServerProcess:
        """Return any server, also one that is down, like a name with several addresses."""
        return rng.choice(self.processes)

    async def start(self) -> None:
        """Start all servers and wait until they are ready."""
        self.processes = [self._launch(index) for index in range(len(self._ports))]
        for server in self.processes:
            await until_ready(server, _START_SECONDS)

    async def stop(self) -> None:
        """End all servers and read their logs."""
        await asyncio.gather(*(self._stop(server) for server in self.processes if server.process.poll() is None))

    async def kill(self, index: int) -> None:
        """End a server like a machine that loses its power."""
        server = self.processes[index]
        self.down.add(index)
        server.process.kill()
        await asyncio.to_thread(server.process.wait)
        self._read_log(server)

    async def terminate(self, index: int) -> None:
        """End a server like a rolling restart does."""
        server = self.processes[index]
        self.down.add(index)
        await self._stop(server)

    async def freeze(self, index: int, seconds: float) -> None:
        """Freeze a server, which then goes on."""
        await freeze_process(self.processes[index].pid, seconds)

    async def replace(self, index: int, sources: Path) -> None:
        """End a server as an operator does, and start another version of Confab in its place."""
        await self.terminate(index)
        self._sources[index] = sources
        await self.restart(index)

    async def restart(self, index: int) -> None:
        """Start a server again, on the same port."""
        began = time.monotonic()
        server = self.processes[index] = self._launch(index)
        await until_ready(server, _START_SECONDS)
        self.down.discard(index)
        self.tally.note_duration("a started server was ready", time.monotonic() - began)

    def _launch(self, index: int) -> ServerProcess:
        self._started += 1
        log = self._folder / f"{self._database}-{index}-{self._started}.log"
        return start_server(
            self._addresses[index],
            self._ports[index],
            log,
            self._database,
            settings=SETTINGS,
            python=("-m", "tests.chaos.faults.skewed_server"),
            environment={
                "CHAOS_CLOCK_SECONDS": str(self._clocks[index]),
                "PYTHONPATH": str(self._sources[index]),
                # The current folder has the sources of this version.
                "PYTHONSAFEPATH": "1",
            },
        )

    async def _stop(self, server: ServerProcess) -> None:
        began = time.monotonic()
        code = await asyncio.to_thread(server.stop)
        took = time.monotonic() - began
        self.tally.note_duration("a stopped server had ended", took)
        if code != 0:
            self.tally.problem(f"a stopped server ended with {code} after {took:.1f} s")
        self._read_log(server)

    def _read_log(self, server: ServerProcess) -> None:
        for entry in _log_entries(server.log):
            if entry.get("event") in _EXPECTED_ERRORS:
                self.tally.notes[f"logged: {entry.get('event')}"] += 1
            elif _SHUTDOWN_TIMEOUT in str(entry):
                self.tally.notes["logged: a request was cancelled at a shutdown"] += 1
            elif entry.get("level") in ("error", "critical"):
                self.tally.problem(f"in the log of {server.log.name}: {str(entry)[:2000]}")
            elif entry.get("level") == "warning":
                self.tally.notes[f"warned: {entry.get('event')}"] += 1


def _log_entries(log: Path) -> list[dict[str, Any]]:
    """Return a server's log. A line that is not JSON counts as an error."""
    entries = []
    for line in log.read_text(errors="replace").splitlines():
        try:
            entries.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            entries.append({"level": "error", "event": line})
    return entries
