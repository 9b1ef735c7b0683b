"""ASGI applications to compare with, served by the same libraries as Confab, each in its own process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from server.embedded import ports
from tests.processes import ROOT, ServerProcess, launch_server, until_ready

_OPTIONS = {
    "--host": "127.0.0.1",
    "--loop": "uvloop",
    "--http": "httptools",
    "--ws": "websockets-sansio",
    "--ws-per-message-deflate": "false",
    "--ws-ping-interval": "25",
    "--backlog": "4096",
    "--log-level": "warning",
    "--timeout-graceful-shutdown": "1",
}


@asynccontextmanager
async def serve_reference(
    application: str, log: Path, *, environment: Mapping[str, str] | None = None
) -> AsyncIterator[ServerProcess]:
    """Serve `module:name`, which answers /readyz, for the time of the block."""
    port = ports.pick_free()
    command = [sys.executable, "-m", "uvicorn", application, "--port", str(port), "--no-access-log"]
    for option, value in _OPTIONS.items():
        command += [option, value]
    server = launch_server(command, port, log, os.environ | {"PYTHONPATH": str(ROOT), **(environment or {})})
    try:
        await until_ready(server)
        yield server
    finally:
        await asyncio.to_thread(server.stop)
