"""A Redis for this process alone, started when the deployment's own is away: memory only, behind a socket that nobody else may open."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from server.embedded import launch
from server.embedded.binaries import Binary, find_redis
from server.embedded.errors import EmbeddedError
from store.base.errors import Unreachable

_START_SECONDS = 5.0
_STOP_SECONDS = 2.0
_MEGABYTES = 256


class FallbackRedisServer:
    """Started by the first `open`, stopped by `close`; it ends with this process, however that ends."""

    def __init__(self) -> None:
        self._binary: Binary | None = None
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # One thread, which lives as long as it should: for the kernel it is the parent, whose death ends the child.
        self._launcher = ThreadPoolExecutor(1, "spare-redis")
        self._lock = asyncio.Lock()

    async def open(self) -> str:
        """Its URL, once it serves. Idempotent. Raises Unreachable."""
        async with self._lock:
            if self._process is None or self._process.poll() is not None:
                await self._start()
            return f"unix://{self._socket}"

    async def close(self) -> None:
        """Stops it."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, _STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        self._launcher.shutdown()
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    @property
    def _socket(self) -> Path:
        assert self._home is not None
        return self._home / "redis.sock"

    async def _start(self) -> None:
        try:
            if self._binary is None:
                self._binary = await asyncio.to_thread(find_redis)
            binary = self._binary
        except EmbeddedError as error:
            raise Unreachable(f"no spare Redis can be started: {error}") from error
        if self._home is None:
            # Only its owner may enter a folder made like this.
            self._home = Path(tempfile.mkdtemp(prefix="confab-spare-"))
        self._socket.unlink(missing_ok=True)
        command = [
            str(binary.path),
            *("--port", "0"),
            *("--unixsocket", str(self._socket)),
            *("--dir", str(self._home)),
            *("--save", ""),
            *("--appendonly", "no"),
            # What requests leave behind goes when room is needed; scripts notice where it was still in use.
            *("--maxmemory", f"{_MEGABYTES}mb"),
            *("--maxmemory-policy", "allkeys-lru"),
        ]
        launched = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *command]
        self._process = await asyncio.get_running_loop().run_in_executor(self._launcher, _start, launched)
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._serves():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise Unreachable("the spare Redis does not start") from None

    async def _serves(self) -> bool:
        assert self._process is not None
        status = self._process.poll()
        if status is not None:
            raise Unreachable(f"the spare Redis ended with status {status}")
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            return False
        writer.write(b"PING\r\n")
        told = await reader.read(7)
        writer.close()
        return told == b"+PONG\r\n"


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
