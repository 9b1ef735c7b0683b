"""Runs the services of docker-compose.yml as local processes, with the same commands, environment and order.

Host names become ports of the loopback address, and folders of containers become local folders. Nothing else differs.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from server.embedded.binaries import find_mongod, find_redis
from server.embedded.ports import pick_free
from server.healthcheck import is_healthy
from tests.deployment.compose_file import ROOT, SERVERS, compose_file
from tests.processes import ServerProcess, launch_server

PROXY_PATH = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"))
"""Search path for HAProxy: Debian installs it in a folder that is only in the PATH of root."""

_PATIENCE = 180.0
_CONFAB = (sys.executable, "-m", "server.cli")
"""The image installs it as `confab`."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """All services of docker-compose.yml, running."""

    address: str
    """Host and port of the proxy."""
    processes: dict[str, ServerProcess]
    """Processes by service name."""
    _compose: dict[str, Any]
    _ports: dict[str, int]
    _folder: Path

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def token(self, user: str) -> str:
        """Return the output of `docker compose exec server-1 confab token USER`."""
        command = [*_CONFAB, "token", user]
        environment = self._environment("server-1")
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    async def start(self, server: str) -> None:
        """Start a server, and wait until its health check passes."""
        self._launch(server, [*_CONFAB, "serve"], self._environment(server))
        checked, module, path = self._compose["services"][server]["healthcheck"]["test"][2:]
        assert (checked, module) == ("-m", "server.healthcheck")
        await self._until(server, lambda: is_healthy(path, self._ports[server]))

    def stop(self, service: str) -> int:
        """Stop a service like `docker compose stop`, and return its exit code."""
        return self.processes.pop(service).stop()

    def kill(self, service: str) -> None:
        """Kill a service."""
        process = self.processes.pop(service).process
        process.kill()
        process.wait()

    def log(self, service: str) -> str:
        """Return the output of a service."""
        return (self._folder / f"{service}.log").read_text()

    async def start_all(self) -> None:
        services = self._compose["services"]
        secret = [part.replace("/run/confab", str(self._folder)) for part in services["secret"]["command"]]
        await asyncio.to_thread(subprocess.run, secret, check=True, timeout=_PATIENCE)
        self._start_mongo(services["mongo"])
        redis = services["redis"]["command"]
        self._launch(
            "redis",
            [str(find_redis().path), *redis[1:], "--bind", "127.0.0.1", "--port", str(self._ports["redis"])],
            {},
        )
        await self._make_primary(services["mongo"]["healthcheck"]["test"][-1])
        await asyncio.gather(*(self.start(server) for server in SERVERS))
        await self._start_proxy(services["proxy"])

    def _start_mongo(self, service: dict[str, Any]) -> None:
        home = self._folder / "mongo"
        home.mkdir()
        options = [option for option in service["command"][1:] if option != "--bind_ip_all"]
        options += ["--bind_ip", "127.0.0.1", "--port", str(self._ports["mongo"]), "--dbpath", str(home)]
        self._launch("mongo", [str(find_mongod().path), *options], {})

    async def _make_primary(self, check: str) -> None:
        """Do the work of its health check, which uses mongosh."""
        written = re.search(r"rs\.initiate\((\{.*\})\) }", check)
        assert written is not None, check
        configuration = yaml.safe_load(self._here(written[1]))
        url = f"mongodb://127.0.0.1:{self._ports['mongo']}/?directConnection=true&serverSelectionTimeoutMS=200"
        deadline = time.monotonic() + _PATIENCE
        async with AsyncMongoClient[dict[str, Any]](url) as client:
            initiated = False
            while time.monotonic() < deadline:
                try:
                    if not initiated:
                        await client.admin.command("replSetInitiate", configuration)
                        initiated = True
                    if (await client.admin.command("hello"))["isWritablePrimary"]:
                        return
                except PyMongoError:
                    pass
                await asyncio.sleep(0.05)
        raise RuntimeError(f"MongoDB has no primary:\n{self.log('mongo')[-2000:]}")

    async def _start_proxy(self, service: dict[str, Any]) -> None:
        haproxy = shutil.which("haproxy", path=PROXY_PATH)
        assert haproxy is not None
        (mounted,) = (volume.partition(":")[0] for volume in service["volumes"])
        text = self._here((ROOT / mounted).read_text())
        (self._folder / "haproxy.cfg").write_text(text.replace("bind :8000", f"bind {self.address}"))
        self._launch("proxy", [haproxy, "-W", "-db", "-f", str(self._folder / "haproxy.cfg")], {})
        path = service["healthcheck"]["test"][-1].removeprefix("http://127.0.0.1:8000")
        await self._until("proxy", lambda: is_healthy(path, self._ports["proxy"]))

    def _environment(self, server: str) -> dict[str, str]:
        service = self._compose["services"][server]
        given = {name: self._here(_as_text(value)) for name, value in service["environment"].items()}
        given["CONFAB_PORT"] = str(self._ports[server])
        given["CONFAB_JWT_SECRET_FILE"] = given["CONFAB_JWT_SECRET_FILE"].replace("/run/confab", str(self._folder))
        return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **given}

    def _here(self, text: str) -> str:
        """Replace the host names of services by local addresses."""
        for service, port in self._ports.items():
            text = re.sub(rf"\b{service}:\d+", f"127.0.0.1:{port}", text)
        return text

    def _launch(self, service: str, command: list[str], environment: dict[str, str]) -> None:
        log = self._folder / f"{service}.log"
        self.processes[service] = launch_server(command, self._ports[service], log, environment)

    async def _until(self, service: str, well: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not await asyncio.to_thread(well):
            if self.processes[service].process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{service} did not start:\n{self.log(service)[-4000:]}")
            await asyncio.sleep(0.1)


@asynccontextmanager
async def deployed(folder: Path) -> AsyncIterator[Deployment]:
    """Run all services for the duration of the block. They also end when this process dies."""
    ports: dict[str, int] = {}
    for service in ("mongo", "redis", *SERVERS, "proxy"):
        ports[service] = pick_free(*ports.values())
    deployment = Deployment(f"127.0.0.1:{ports['proxy']}", {}, compose_file(), ports, folder)
    try:
        await deployment.start_all()
        yield deployment
    finally:
        for services in (("proxy",), SERVERS, ("mongo", "redis")):
            left = [service for service in services if service in deployment.processes]
            await asyncio.gather(*(asyncio.to_thread(deployment.stop, service) for service in left))


def client(deployment: Deployment, token: str) -> httpx.AsyncClient:
    """Return a client that connects to the proxy."""
    headers = {"authorization": f"Bearer {token}"}
    return httpx.AsyncClient(base_url=deployment.url, headers=headers, timeout=15, trust_env=False)


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
