"""Runs `confab serve --workers`, and finds its server processes and their connections. Reads /proc: Linux only."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from server.embedded import ports
from tests.processes import Addresses, ServerProcess, start_server, until_ready
from tests.waiting import wait_for

_ESTABLISHED = "01"
_START_SECONDS = 120.0


@asynccontextmanager
async def serving_workers(
    databases: Addresses, count: int, log: Path, database: str, *, settings: Mapping[str, str] | None = None
) -> AsyncIterator[ServerProcess]:
    """Run a server with several processes, all of which serve when the block begins. It ends if this process dies."""
    first = int((settings or {}).get("metrics_port", 0))
    port = ports.pick_free(*range(first, first + count))
    server = start_server(databases, port, log, database, settings=settings, workers=count)
    try:
        await until_ready(server, _START_SECONDS)
        await wait_for(lambda: bool(log_lines(server, "server_started")), _START_SECONDS)
        yield server
    finally:
        await asyncio.to_thread(server.stop)


def pick_consecutive_ports(count: int) -> int:
    """Return the first of some consecutive free ports."""
    while True:
        first = ports.pick_free()
        if all(ports.is_free(first + number) for number in range(count)):
            return first


def log_lines(server: ServerProcess, event: str) -> list[dict[str, Any]]:
    """Return the lines of an event in the log."""
    lines = [line for line in complete_lines(server) if f'"{event}"'.encode() in line]
    return [line for line in map(orjson.loads, lines) if line["event"] == event]


def complete_lines(server: ServerProcess) -> list[bytes]:
    """Return the lines of the log without the last one if it is not complete yet."""
    return server.log.read_bytes().rpartition(b"\n")[0].splitlines()


def worker_pids(parent: int) -> list[int]:
    """Return the ids of the server processes of a `confab serve --workers`, the oldest first."""
    return [child for child in child_pids(parent) if b"spawn_main" in _command_line(child)]


def child_pids(parent: int) -> list[int]:
    """Return the process ids of all children, the oldest first."""
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def worker_of_ports(workers: Sequence[int], port: int) -> Mapping[int, int]:
    """Return the process id of each connection to `port`, by the port of the client."""
    found: dict[int, int] = {}
    clients = _clients_of_sockets(port)
    for pid in workers:
        for inode in _socket_inodes(pid):
            if inode in clients:
                found[clients[inode]] = pid
    return found


def connection_counts(workers: Sequence[int], port: int) -> list[int]:
    """Return the number of connections of each server process."""
    held = list(worker_of_ports(workers, port).values())
    return [held.count(pid) for pid in workers]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _clients_of_sockets(port: int) -> dict[str, int]:
    """Return the client's port of each accepted connection to `port`, by the inode of the socket."""
    clients: dict[str, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_, inode = line.split()[:10]
        if state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port:
            clients[inode] = int(remote.rpartition(":")[2], 16)
    return clients


def _socket_inodes(pid: int) -> list[str]:
    inodes = []
    # Processes, and descriptors of a running process, come and go.
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    inodes.append(target.removeprefix("socket:[").removesuffix("]"))
    return inodes
