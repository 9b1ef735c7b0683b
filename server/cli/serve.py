"""Runs uvicorn: socket options, limits, several processes and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from server.errors import CommandError
from server.settings import Settings, load_settings, variable

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from server.process.uvicorn_server import EventDrivenServer

BACKLOG = 4096
"""Connections that wait to be accepted: after a restart all clients reconnect at once."""

GRACE_SECONDS = 10
"""Time for running requests at shutdown, in addition to the time for closing client connections."""

TCP_USER_TIMEOUT_SECONDS = 45
"""Time after which TCP drops a connection whose peer does not acknowledge data.

Event streams need it, because they have no pings.
"""

MAX_UNSENT_BYTES = 131_072
"""Bytes of a connection that the kernel buffers before they are sent."""

_RELEASE_SECONDS = 10
"""Time in which a process gives back what it holds in the databases, such as its worker number, until it is killed."""

_WATCH_INTERVAL = 0.1
_NOT_STARTED = "The server did not start: the log above says why."


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Bind it before anything slow is started. Raises CommandError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise CommandError(f"{host} is not an address of this machine ({error.strerror}).") from error
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _detect_dead_peers(sock)
        sock.bind(address)
        # A bound port without listener would look free to other processes.
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CommandError(_explain_bind_error(host, port, error)) from error
    sock.set_inheritable(True)
    return sock


def _detect_dead_peers(sock: socket.socket) -> None:
    """Close accepted connections whose peers have disappeared, also idle ones."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every platform has all options. The default timeouts may be hours.
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", TCP_USER_TIMEOUT_SECONDS * 1000),
        # Unread data waits in this process, where it is limited, instead of by the megabyte in the kernel.
        ("TCP_NOTSENT_LOWAT", MAX_UNSENT_BYTES),
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
    check: Callable[[], None] | None = None,
) -> None:
    """Serve in this process until SIGINT or SIGTERM.

    `on_ready` is called once the server answers requests. `check` is called repeatedly: an exception from it stops the
    server and is raised from here. Raises CommandError if the application does not start.
    """
    from server.process.interpreter_tuning import tune_interpreter
    from server.process.uvicorn_server import EventDrivenServer
    from server.process.worker_process import ignore_repeated_signal

    server = EventDrivenServer(_config(app, settings))
    tune_interpreter()
    # asyncio.run has the argument loop_factory from Python 3.12 on.
    runner = asyncio.Runner(loop_factory=server.config.get_loop_factory())
    with ignore_repeated_signal(), contextlib.closing(sock), runner:
        runner.run(_serve_and_check(server, sock, on_ready, check))


def serve_with_workers(
    factory: str, settings: Settings, sock: socket.socket, workers: int, *, on_ready: Callable[[], None]
) -> None:
    """Serve in several processes until SIGINT or SIGTERM. SIGHUP replaces them one after the other.

    Each reads the settings from the environment. `on_ready` is called once all of them answer requests. Raises
    CommandError if a process ends before any has answered.
    """
    from server.process.supervisor import Supervisor, Timing

    # The processes need the options of the command line as settings. Each needs a port for metrics.
    os.environ[variable("host")], os.environ[variable("port")] = settings.host, str(settings.port)
    os.environ.setdefault(variable("metrics_port_count"), str(workers))
    timing = Timing(stop_seconds=math.ceil(settings.ws_drain_seconds) + GRACE_SECONDS + _RELEASE_SECONDS)

    async def supervise() -> bool:
        return await Supervisor(partial(_serve_under_supervisor, factory, sock), workers, timing, on_ready).run()

    with contextlib.closing(sock):
        if not asyncio.run(supervise()):
            raise CommandError(_NOT_STARTED)


def _serve_under_supervisor(factory: str, sock: socket.socket, reports: socket.socket) -> None:
    """Serve in a process that a supervisor has started. The supervisor itself does not load the application."""
    from server.process.worker_process import serve_under_supervisor

    serve_under_supervisor(_config(factory, load_settings()), sock, reports)


def _config(app: ASGIApp | str, settings: Settings) -> uvicorn.Config:
    import uvicorn

    from server.process.uvicorn_shutdown import HttpProtocol, WebSocketProtocol
    from subscriptions.transport.host import UNACKNOWLEDGED_MESSAGE_BYTES

    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        host=settings.host,
        port=settings.port,
        workers=1,
        loop="uvloop",
        http=HttpProtocol,
        ws=WebSocketProtocol,
        ws_max_size=UNACKNOWLEDGED_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        # graphql-transport-ws has its own pings, and its close codes let clients reconnect.
        ws_ping_interval=None,
        backlog=BACKLOG,
        lifespan="on",
        # The application configures logging.
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        server_header=False,
        # Confab does not use the client's address.
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(settings.ws_drain_seconds) + GRACE_SECONDS,
    )


async def _serve_and_check(
    server: EventDrivenServer,
    sock: socket.socket,
    on_ready: Callable[[], None],
    check: Callable[[], None] | None,
) -> None:
    failures: list[Exception] = []

    async def watch() -> None:
        ready = False
        while True:
            try:
                if server.started and not ready:
                    ready = True
                    on_ready()
                if check is not None:
                    check()
                elif ready:
                    return
            except Exception as error:
                failures.append(error)
                # A graceful shutdown would wait for the database server that failed. Errors that uvicorn logs after
                # this are consequences and would hide the cause.
                logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
                server.should_exit = server.force_exit = True
                server.wake()
                return
            await asyncio.sleep(_WATCH_INTERVAL)

    watcher = asyncio.create_task(watch())
    try:
        await server.serve(sockets=[sock])
    except SystemExit:
        # uvicorn exits if the application fails to start, after logging the reason.
        raise CommandError(_NOT_STARTED) from None
    finally:
        watcher.cancel()
    if failures:
        raise failures[0]


def _explain_bind_error(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"Port {port} on {host} is in use: stop the other program, or choose another port with --port "
                "(make run PORT=…)."
            )
        case errno.EACCES | errno.EPERM:
            return f"Opening port {port} needs privileges: choose a port above 1023 with --port."
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine: choose another address with --host."
        case _:
            return f"Cannot listen on {host}, port {port}: {error.strerror}."
