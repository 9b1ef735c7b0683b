"""Two servers on the same databases for the public clients of `bench/clients`, which stop and start them.

Reads commands from standard input, one JSON object per line ({"do": "stop", "server": 0}), answers each with one
line, and ends with its input. The first line it writes: the addresses of the servers, the secret of their tokens,
and their settings.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from server.embedded import EmbeddedServers, ports
from server.settings import Settings
from tests.processes import ROOT, ServerProcess, start_server, until_ready
from tests.server.tokens import SECRET

_NAME = "bench_clients"

_SETTINGS = {
    "introspection": "true",
    "ws_init_timeout_seconds": "1",
    "ws_ping_interval_seconds": "1",
    "ws_max_queued_events": "100",
    "ws_max_connections_per_user": "5",
}
"""Short times, so that tests do not wait long; only settings that this version has."""

_SERVER = ("-m", "server.cli")
_DEFECTIVE = ("-m", "bench.defective_server")


class Servers:
    """The two servers, and a third one with a bug, by number."""

    def __init__(self, databases: EmbeddedServers, folder: Path) -> None:
        self._databases = databases
        self._folder = folder
        self._servers: dict[int, ServerProcess] = {}
        self._ports: list[int] = []
        while len(self._ports) < 3:
            self._ports.append(ports.pick_free(*self._ports))
        self.settings = {name: value for name, value in _SETTINGS.items() if name in Settings.model_fields}

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}/graphql" for port in self._ports]

    async def start(self, server: int) -> None:
        """Start a server, always at the same address."""
        python: Sequence[str] = _DEFECTIVE if server == 2 else _SERVER
        log = self._folder / f"{server}.log"
        started = start_server(self._databases, self._ports[server], log, _NAME, settings=self.settings, python=python)
        self._servers[server] = started
        await until_ready(started)

    async def stop(self, server: int) -> None:
        """Stop a server as an orchestrator does."""
        await asyncio.to_thread(self._servers.pop(server).stop)

    async def kill(self, server: int) -> None:
        """Kill a server."""
        killed = self._servers.pop(server).process
        killed.kill()
        await asyncio.to_thread(killed.wait)

    async def revoke(self, user: str) -> None:
        """Revoke all tokens of a user issued until now."""
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "CONFAB_MONGO_URL": self._databases.mongo_url,
            "CONFAB_MONGO_DATABASE": _NAME,
            "CONFAB_REDIS_URL": self._databases.redis_url,
            "CONFAB_REDIS_PREFIX": f"{_NAME}:",
            "CONFAB_JWT_SECRET": SECRET,
        }
        command = [sys.executable, *_SERVER, "revoke", user]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stderr)

    async def close(self) -> None:
        await asyncio.gather(*(self.stop(server) for server in list(self._servers)))


def _say(**what: Any) -> None:
    sys.stdout.buffer.write(orjson.dumps(what) + b"\n")
    sys.stdout.buffer.flush()


async def _main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder / "databases") as databases:
            servers = Servers(databases, folder)
            try:
                for server in range(3):
                    await servers.start(server)
                _say(urls=servers.urls, secret=SECRET, settings=servers.settings)
                while line := await asyncio.to_thread(sys.stdin.buffer.readline):
                    command = orjson.loads(line)
                    try:
                        await getattr(servers, command.pop("do"))(**command)
                        _say(done=True)
                    except Exception as error:
                        _say(error=repr(error))
            finally:
                await servers.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(_main())
