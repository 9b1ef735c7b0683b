"""Worker processes of `confab serve --workers`, and the connections that each of them has. Reads /proc: Linux only."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

_ESTABLISHED = "01"


def worker_pids(parent: int) -> list[int]:
    """Return the process ids of the workers of a `confab serve --workers`, the oldest first."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in _command_line(int(child))]


def worker_of_ports(workers: list[int], port: int) -> Mapping[int, int]:
    """Return the worker of each connection to `port`, by the port of the client."""
    found: dict[int, int] = {}
    clients = _clients_of_sockets(port)
    for pid in workers:
        for inode in _socket_inodes(pid):
            if inode in clients:
                found[clients[inode]] = pid
    return found


def connection_counts(workers: list[int], port: int) -> list[int]:
    """Return the number of connections of each worker."""
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
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        # Descriptors of a running process come and go.
        with contextlib.suppress(OSError):
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.append(target.removeprefix("socket:[").removesuffix("]"))
    return inodes
