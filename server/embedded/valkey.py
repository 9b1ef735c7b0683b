"""Valkey or Redis without persistence: its data may be lost at any time."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from server.embedded.binaries import Binary
from server.embedded.child_process import ServerProgram

_PROCESS_ID = re.compile(rb"process_id:(\d+)\r\n")


def valkey(binary: Binary, home: Path) -> ServerProgram:
    """Return Valkey without persistence. `home` is its working directory."""

    def command(port: int) -> list[str]:
        return [
            str(binary.path),
            *("--dir", str(home)),
            *("--port", str(port)),
            *("--bind", "127.0.0.1"),
            *("--save", ""),
            *("--appendonly", "no"),
            # By default it overwrites its command line, which identifies leftover servers.
            *("--set-proc-title", "no"),
        ]

    # It stops at once, because it writes nothing. A signal during its start is lost, so do not wait long.
    return ServerProgram("Redis", "CONFAB_REDIS_URL", binary, home, command, _is_serving, 2.0)


def redis_url(port: int) -> str:
    """Return the URL of the server."""
    return f"redis://127.0.0.1:{port}/0"


def _is_serving(port: int, pid: int) -> bool:
    reply = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"INFO server\r\nQUIT\r\n")
            while chunk := connection.recv(65536):
                reply += chunk
    except OSError:
        return False
    found = _PROCESS_ID.search(reply)
    return found is not None and int(found[1]) == pid
