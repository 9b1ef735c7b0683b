"""Valkey (or Redis), which keeps nothing: what is in it alone may be lost."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from server.embedded.binaries import Binary
from server.embedded.child_process import ServerProgram

_PROCESS_ID = re.compile(rb"process_id:(\d+)\r\n")


def valkey(binary: Binary, home: Path) -> ServerProgram:
    """Valkey without persistence. `home` is where it would write."""

    def command(port: int) -> list[str]:
        return [
            str(binary.path),
            *("--dir", str(home)),
            *("--port", str(port)),
            *("--bind", "127.0.0.1"),
            *("--save", ""),
            *("--appendonly", "no"),
            # Else it writes over its command line, and a leftover could not be told from another's server.
            *("--set-proc-title", "no"),
        ]

    # It has nothing to write down; and asked while it starts, it forgets that it was.
    return ServerProgram("Redis", "CONFAB_REDIS_URL", binary, home, command, _serves, 2.0)


def redis_url(port: int) -> str:
    """Where a client finds it."""
    return f"redis://127.0.0.1:{port}/0"


def _serves(port: int, pid: int) -> bool:
    told = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"INFO server\r\nQUIT\r\n")
            while chunk := connection.recv(65536):
                told += chunk
    except OSError:
        return False
    found = _PROCESS_ID.search(told)
    return found is not None and int(found[1]) == pid
