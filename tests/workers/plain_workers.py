"""Small processes for tests of the supervisor. They import almost nothing, so they start quickly."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

FAILURE = 7
"""Exit code of a process that fails at its start."""


def serve(folder: Path, reports: socket.socket) -> None:
    """Report that this process is ready, until a signal ends it. Append its id to the file `started`.

    If the file `broken` exists, the process fails at its start. While the file `slow` exists, it is not ready.
    """
    with (folder / "started").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if (folder / "broken").exists():
        sys.exit(FAILURE)
    while True:
        with contextlib.suppress(BlockingIOError):
            reports.send(b"." if (folder / "slow").exists() else b"r")
        time.sleep(0.05)


def serve_despite_sigterm(folder: Path, reports: socket.socket) -> None:
    """Serve, and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(folder, reports)
