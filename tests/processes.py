"""`confab serve` as processes of their own, on free loopback ports, ended by their own handles."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import jwt

from server.embedded import EmbeddedServers, launch, ports
from tests.server.tokens import SECRET

ROOT = Path(__file__).parents[1]

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Making one reads the system's certificates, which takes longer than the whole set-up otherwise."""

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server at work."""

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
        """A kept-alive connection of a user."""
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"authorization": f"Bearer {token(user)}", "content-type": "application/json"},
            timeout=timeout,
            verify=_NO_TLS,
            trust_env=False,
        )

    def stop(self) -> int:
        """Ends it as an orchestrator does. Answers its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@asynccontextmanager
async def serving_processes(
    databases: EmbeddedServers, count: int, folder: Path, database: str
) -> AsyncIterator[Sequence[ServerProcess]]:
    """Servers on one database, for the time of the block. They also end when this process dies."""
    servers: list[ServerProcess] = []
    try:
        for number in range(count):
            port = ports.pick_free(*(server.port for server in servers))
            servers.append(_start(databases, port, folder / f"{database}-{number}.log", database))
        for server in servers:
            await _until_ready(server)
        yield servers
    finally:
        await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))


def _start(databases: EmbeddedServers, port: int, log: Path, database: str) -> ServerProcess:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONFAB_")}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "CONFAB_MONGO_URL": databases.mongo_url,
        "CONFAB_MONGO_DATABASE": database,
        "CONFAB_REDIS_URL": databases.redis_url,
        "CONFAB_REDIS_PREFIX": f"{database}:",
        "CONFAB_JWT_SECRET": SECRET,
    }
    command = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid())]
    command += [sys.executable, "-m", "server.cli", "serve", "--port", str(port)]
    with log.open("wb") as told:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=told, stderr=told, cwd=ROOT, env=environment
        )
    return ServerProcess(port, log, process)


async def _until_ready(server: ServerProcess) -> None:
    deadline = time.monotonic() + _START_SECONDS
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
    """A JWT that such servers take."""
    return jwt.encode({"sub": user, "role": role, "exp": time.time() + 24 * 3600}, SECRET, algorithm="HS256")
