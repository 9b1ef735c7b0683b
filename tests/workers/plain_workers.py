"""Small worker processes for tests of the supervisor. Each imports almost nothing, so that it starts quickly."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from pathlib import Path

FAILURE = 7
"""Exit code of a worker that fails at its start."""


def serve(folder: Path, reports: socket.socket) -> None:
    """Report that it is ready, until a signal. The file `broken` makes it fail at its start, `slow` never be ready.

    Several `serve` processes write their process ids to the file `started`.
    """
    with (folder / "started").open("a") as file:
        file.write(f"{os.getpid()}\n")
    if (folder / "broken").exists():
        sys.exit(FAILURE)
    while True:
        with contextlib.suppress(BlockingIOError):
            reports.send(b"." if (folder / "slow").exists() else b"r")
        time.sleep(0.05)


def serve_in_spite_of_sigterm(folder: Path, reports: socket.socket) -> None:
    """Serve, and ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(folder, reports)
