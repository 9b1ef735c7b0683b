"""Subscribers that stop reading, or read too slowly, with the smallest socket buffers that the system allows."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from typing import Any

from bench.subscriber import LONGEST_PING, PING, PONG, Opening, client_frame, server_frames, subscribe_frames

_LEAST_ROOM = 4096
_SEGMENT = 1400
"""Bytes per segment, as on the internet."""

_TURN_SECONDS = 0.1
_RESET = b'"reset":true'


class _Reader:
    def __init__(self, opening: Opening, bytes_a_second: int) -> None:
        self.code = ""
        self.resets = 0
        self._opening = opening
        self._bytes_a_turn = int(bytes_a_second * _TURN_SECONDS)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LEAST_ROOM)
        # Loopback segments are 64 kB and the send buffer is a multiple of them: 2.5 MB for a reader that stopped.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SEGMENT)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._buffer = b""
        self._awake = False

    async def run(self) -> None:
        """Catch up, then stall until `wake`, or read slowly until the server drops it."""
        try:
            await self._begin()
            while not self.code:
                await asyncio.sleep(0.001 if self._awake else _TURN_SECONDS)
                if self._awake:
                    self._take(65_536)
                elif self._bytes_a_turn:
                    self._take(self._bytes_a_turn)
        finally:
            self._socket.close()

    def wake(self) -> None:
        self._awake = True

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        host, _, port = self._opening.host.partition(":")
        await loop.sock_connect(self._socket, (host, int(port)))
        await loop.sock_sendall(self._socket, self._opening.request())
        await self._until(b"\r\n\r\n")
        self._buffer = b""
        assert self._opening.init is not None
        await loop.sock_sendall(self._socket, client_frame(self._opening.init.encode()))
        await self._until(b'"connection_ack"')
        await loop.sock_sendall(self._socket, subscribe_frames(self._opening.subscriptions))
        await self._until(b'"CaughtUp"')
        # The rest of a frame cut here is dropped with the bytes before it.
        _, self._buffer = server_frames(self._buffer)

    async def _until(self, word: bytes) -> None:
        loop = asyncio.get_running_loop()
        while word not in self._buffer:
            data = await loop.sock_recv(self._socket, 4096)
            if not data:
                raise ConnectionError("closed before it had caught up")
            self._buffer += data

    def _take(self, size: int) -> bool:
        """Read a number of bytes, if there are any. Return whether there may be more."""
        try:
            data = self._socket.recv(size)
        except BlockingIOError:
            return False
        except OSError:
            self.code = self.code or "1006"
            return False
        if not data:
            self.code = self.code or "1006"
            return False
        frames, self._buffer = server_frames(self._buffer + data)
        for opcode, payload in frames:
            if opcode == 0x8:
                self.code = f"{int.from_bytes(payload[:2], 'big')} {payload[2:].decode(errors='replace')}"
            elif _RESET in payload:
                self.resets += 1
            elif len(payload) < LONGEST_PING and PING in payload:
                self._pong()
        return True

    def _pong(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(PONG)


class StalledReaders:
    """A set of such readers."""

    def __init__(self, bytes_a_second: int) -> None:
        self._bytes_a_second = bytes_a_second
        self._readers: list[_Reader] = []
        self._tasks: list[asyncio.Task[None]] = []

    def open(self, opening: Opening) -> None:
        """Add a reader, which begins with `start`."""
        self._readers.append(_Reader(opening, self._bytes_a_second))

    def start(self) -> list[int]:
        """Start all. Return their ports."""
        self._tasks = [asyncio.create_task(reader.run()) for reader in self._readers]
        return [reader.port for reader in self._readers]

    def wake(self) -> dict[str, Any]:
        """Let them read everything from now on."""
        for reader in self._readers:
            reader.wake()
        return {}

    async def end(self) -> dict[str, Any]:
        """End them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return {}

    def report(self) -> dict[str, Any]:
        """Return how the finished ones ended."""
        failed = [repr(task.exception()) for task in self._tasks if task.done() and task.exception()]
        return {
            "readers": len(self._readers),
            "codes": Counter(reader.code for reader in self._readers if reader.code),
            "resets": sum(reader.resets for reader in self._readers),
            "failed": failed,
        }
