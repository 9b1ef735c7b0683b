"""Serving HTTP and WebSocket with uvicorn: the limits, the socket, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from server.errors import CommandError
from server.process.gc_tuning import tune_garbage_collection
from server.settings import Settings, variable

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

BACKLOG = 4096
"""Connections waiting to be accepted: after a restart all clients come back at once."""

GRACE_SECONDS = 10
"""How long requests under way may take once the server is told to stop, beside the time for seeing clients off."""

UNHEARD_SECONDS = 45
"""How long TCP waits for a peer to take what was written, before it drops the connection: for what no ping of ours
reaches, such as server-sent events."""

UNSENT_BYTES = 131_072
"""What the kernel takes of a connection beyond what it has on its way."""

_WATCH_INTERVAL = 0.1
_NOT_STARTED = "The server did not start: the log above says why."


def bind(host: str, port: int) -> socket.socket:
    """A socket for the server, before anything slow is started. Raises CommandError with one sentence."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise CommandError(f"{host} is no address of this machine ({error.strerror}).") from error
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _clear_half_open(sock)
        sock.bind(address)
        # Bound alone, the port would still look free to others.
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CommandError(_why_not_bound(host, port, error)) from error
    sock.set_inheritable(True)
    return sock


def _clear_half_open(sock: socket.socket) -> None:
    """Let connections accepted from this socket end where their peers vanish without a word, silent ones too."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every platform has them all; its own limits hold then, which may be hours.
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", UNHEARD_SECONDS * 1000),
        # What a peer doesn't read waits here, where it is counted, not by the megabyte in the kernel.
        ("TCP_NOTSENT_LOWAT", UNSENT_BYTES),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def serve(
    app: ASGIApp,
    settings: Settings,
    sock: socket.socket,
    *,
    on_ready: Callable[[], None],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Serve in this process until SIGINT or SIGTERM, then return.

    `on_ready` is called once requests are answered, `check` all the time: what it raises stops the server and is
    raised from here. Raises CommandError if the application doesn't start.
    """
    import uvicorn

    server = uvicorn.Server(_config(app, settings, workers=1))
    tune_garbage_collection()
    # asyncio.run takes a loop factory only from Python 3.12 on.
    runner = asyncio.Runner(loop_factory=server.config.get_loop_factory())
    with _no_second_signal(), contextlib.closing(sock), runner:
        runner.run(_serve_watched(server, sock, on_ready, check))


def serve_with_workers(factory: str, settings: Settings, sock: socket.socket, workers: int) -> None:
    """Serve in several processes, each with settings from the environment, until SIGINT or SIGTERM.

    Raises CommandError if the application doesn't start.
    """
    from uvicorn.config import STARTUP_FAILURE

    from server.process.uvicorn_shutdown import Supervisor

    # They are alike, and cannot all listen on one port.
    os.environ.setdefault(variable("metrics_port_count"), str(workers))
    with contextlib.closing(sock):
        supervisor = Supervisor(_config(factory, settings, workers), sockets=[sock])
        supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise CommandError(_NOT_STARTED)


def _config(app: ASGIApp | str, settings: Settings, workers: int) -> uvicorn.Config:
    import uvicorn

    from server.process.uvicorn_shutdown import HttpProtocol, WebSocketProtocol
    from subscriptions.transport.host import UNACKNOWLEDGED_MESSAGE_BYTES

    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=settings.host,
        port=settings.port,
        workers=workers,
        loop="uvloop",
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_max_size=UNACKNOWLEDGED_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        # The subprotocol has pings of its own, and closes in a way after which clients come back.
        ws_ping_interval=None,
        backlog=BACKLOG,
        lifespan="on",
        # Logging is the application's: structured, with a request id.
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        server_header=False,
        # Nothing here looks at the client's address.
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(settings.ws_drain_seconds) + GRACE_SECONDS,
    )


async def _serve_watched(
    server: uvicorn.Server,
    sock: socket.socket,
    on_ready: Callable[[], None],
    check: Callable[[], None],
) -> None:
    failures: list[Exception] = []

    async def watch() -> None:
        ready = False
        while True:
            try:
                if server.started and not ready:
                    ready = True
                    on_ready()
                check()
            except Exception as error:
                failures.append(error)
                # Forced: an orderly end would wait for the very server that died. What uvicorn then complains of
                # is a consequence, and would hide the cause.
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
                server.should_exit = server.force_exit = True
                return
            await asyncio.sleep(_WATCH_INTERVAL)

    watcher = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[sock])
    except SystemExit:
        # How uvicorn says that the application's start failed, after having logged why.
        raise CommandError(_NOT_STARTED) from None
    finally:
        watcher.cancel()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _no_second_signal() -> Iterator[None]:
    # uvicorn raises the signal that stopped it once more when done; by then it has been obeyed.
    def obeyed(_number: int, _frame: FrameType | None) -> None:
        return

    before = {number: signal.signal(number, obeyed) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _why_not_bound(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"Port {port} on {host} is taken: stop what listens there, or choose another one with --port "
                "(make run PORT=…)."
            )
        case errno.EACCES | errno.EPERM:
            return f"Port {port} is not for everybody to open: choose one above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine: choose another one with --host."
        case _:
            return f"Cannot listen on {host}, port {port}: {error.strerror}."
