"""A server with the API of S3, by moto, in a process of its own.

It accepts any signature, and ignores the headers that an address has signed. It stores checksums without comparing
them. `docs/operations/files-and-pictures.md` says what this leaves untested.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from server.embedded.ports import pick_free

_START_SECONDS = 60


@contextmanager
def moto_server() -> Iterator[str]:
    """Run a server on loopback. Provides its address."""
    port = pick_free()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.wait()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "moto's server has ended"
        try:
            httpx.get(f"{address}/moto-api/data.json", trust_env=False)
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise TimeoutError("moto's server does not answer")
