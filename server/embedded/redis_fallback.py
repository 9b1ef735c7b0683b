"""The server of the Redis fallback: a Redis of this process alone, used while the shared Redis is unavailable (ADR 20).

It stores nothing on disk and listens on a Unix socket in a folder that only its user may enter.
"""

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
    """A Redis that the first `open` starts and `close` stops. It also ends when this process ends in any other way."""

    def __init__(self) -> None:
        self._binary: Binary | None = None
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel ends the child when the thread that started it ends, so that thread has to live as long.
        self._launcher = ThreadPoolExecutor(1, "redis-fallback")
        self._lock = asyncio.Lock()

    async def open(self) -> str:
        """Return its URL once it answers. Idempotent. Raises Unreachable if it cannot be started."""
        async with self._lock:
            if self._process is None or self._process.poll() is not None:
                await self._start()
            return f"unix://{self._socket}"

    async def close(self) -> None:
        """Stop the server and remove its folder."""
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
            raise Unreachable(f"the Redis fallback cannot be started: {error}") from error
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix="confab-redis-fallback-"))
        self._socket.unlink(missing_ok=True)
        command = [
            str(binary.path),
            *("--port", "0"),
            *("--unixsocket", str(self._socket)),
            *("--dir", str(self._home)),
            *("--save", ""),
            *("--appendonly", "no"),
            # Evicts what former requests have left. Scripts notice if a key that they still need is gone.
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
            raise Unreachable("the Redis fallback does not start") from None

    async def _serves(self) -> bool:
        assert self._process is not None
        status = self._process.poll()
        if status is not None:
            raise Unreachable(f"the Redis fallback ended with status {status}")
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            return False
        writer.write(b"PING\r\n")
        reply = await reader.read(7)
        writer.close()
        return reply == b"+PONG\r\n"


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
