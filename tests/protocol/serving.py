"""A uvicorn server in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import uvicorn

PATIENCE = 60.0
"""Seconds after which a test fails because what it waits for did not happen. A busy machine starts a server slowly."""


class QuietServer(uvicorn.Server):
    """A uvicorn that leaves signals to the test runner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class Served:
    """A running uvicorn on a free loopback port."""

    server: QuietServer
    port: int
    ended: asyncio.Task[None]
    """The task that ends when the server has stopped."""

    def tell_to_stop(self) -> None:
        self.server.should_exit = True


async def until(condition: Callable[[], object]) -> None:
    """Return once `condition` holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def open_listener() -> socket.socket:
    """Return a socket that listens on a free loopback port."""
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio sets it only on sockets that it opened itself. Without it every second small frame waits 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


@contextlib.asynccontextmanager
async def serving(config: uvicorn.Config, listener: socket.socket | None = None) -> AsyncIterator[Served]:
    """Serve for the time of the block. A server that does not start or stop fails the test."""
    listener = listener or open_listener()
    server = QuietServer(config)
    served = Served(server, listener.getsockname()[1], asyncio.create_task(server.serve(sockets=[listener])))
    try:
        await until(lambda: server.started or served.ended.done())
        yield served
    finally:
        served.tell_to_stop()
        async with asyncio.timeout(PATIENCE):
            await served.ended
