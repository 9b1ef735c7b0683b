"""Runs `confab serve` in separate processes on free loopback ports."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
import jwt

from server.embedded import EmbeddedServers, launch, ports
from server.settings import UNLIMITED, variable
from tests.server.tokens import SECRET

ROOT = Path(__file__).parents[1]

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Shared, because creating a context reads the system's certificates, which takes long."""

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class Addresses(Protocol):
    """Addresses of the databases."""

    @property
    def mongo_url(self) -> str: ...

    @property
    def redis_url(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server."""

    port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self, user: str, *, timeout: float) -> httpx.AsyncClient:
        """Return a client with a kept-alive connection of a user."""
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"authorization": f"Bearer {token(user)}", "content-type": "application/json"},
            timeout=timeout,
            verify=_NO_TLS,
            trust_env=False,
        )

    def stop(self) -> int:
        """Stop the server like an orchestrator, and return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@asynccontextmanager
async def serving_processes(
    databases: EmbeddedServers, count: int, folder: Path, database: str, *, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Sequence[ServerProcess]]:
    """Run servers on one database for the duration of the block. They also end when this process dies.

    `settings` are by field name. By default there are no rate limits.
    """
    servers: list[ServerProcess] = []
    metrics_port = int((settings or {}).get("metrics_port", 0))
    try:
        for number in range(count):
            port = ports.pick_free(metrics_port, *(server.port for server in servers))
            log = folder / f"{database}-{number}.log"
            servers.append(start_server(databases, port, log, database, settings=settings))
        for server in servers:
            await until_ready(server)
        yield servers
    finally:
        await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))


def start_server(
    databases: Addresses,
    port: int,
    log: Path,
    database: str,
    *,
    settings: Mapping[str, str] | None = None,
    python: Sequence[str] = ("-m", "server.cli"),
    environment: Mapping[str, str] | None = None,
    workers: int = 1,
) -> ServerProcess:
    """Start a server without waiting for it. The caller stops it.

    `python` are the arguments of Python that run the command line. `environment` adds variables to the settings.
    """
    given = command_environment(databases, database, settings) | dict(environment or {})
    command = [sys.executable, *python, "serve", "--port", str(port), "--workers", str(workers)]
    return launch_server(command, port, log, given)


def command_environment(
    databases: Addresses, database: str, settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of commands of Confab on a database. `settings` are by field name."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("CONFAB_")}
    return given | {
        "PYTHONPATH": str(ROOT),
        "CONFAB_MONGO_URL": databases.mongo_url,
        "CONFAB_MONGO_DATABASE": database,
        "CONFAB_REDIS_URL": databases.redis_url,
        "CONFAB_REDIS_PREFIX": f"{database}:",
        "CONFAB_JWT_SECRET": SECRET,
        **{variable(field): str(value) for field, value in (UNLIMITED | dict(settings or {})).items()},
    }


def launch_server(command: Sequence[str], port: int, log: Path, environment: Mapping[str, str]) -> ServerProcess:
    """Start any server on a port without waiting for it. The caller stops it."""
    launcher = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*launcher, *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT, env=environment
        )
    return ServerProcess(port, log, process)


async def until_ready(server: ServerProcess, patience: float = _START_SECONDS) -> None:
    """Wait until a server is ready. Raises RuntimeError with its log after `patience` seconds."""
    deadline = time.monotonic() + patience
    async with httpx.AsyncClient(base_url=server.url, verify=False) as client:
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"a server did not start:\n{server.log.read_text()[-4000:]}")
            await asyncio.sleep(0.05)


def token(user: str, role: str = "user") -> str:
    """Return a JWT that these servers accept."""
    return jwt.encode({"sub": user, "role": role, "exp": time.time() + 24 * 3600}, SECRET, algorithm="HS256")


async def until_open(server: ServerProcess) -> None:
    """Wait until a server accepts connections. Raises RuntimeError, with the end of its log, if it does not."""
    for _ in range(600):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        except OSError:
            if server.process.poll() is not None:
                break
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError(f"the server did not start:\n{server.log.read_text()[-4000:]}")
