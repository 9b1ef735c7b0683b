"""One worker process of `confab serve --workers N`: serves, and reports to the supervisor that started it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator
from types import FrameType

import structlog
import uvicorn

from server.observability.health import READINESS_STATE, Check
from server.process.supervisor import ALIVE, READY
from server.process.uvicorn_server import EventDrivenServer

BEAT_SECONDS = 1.0
"""Interval at which a worker reports that its event loop runs."""

_log = structlog.get_logger(__name__)


def run_worker(config: uvicorn.Config, sock: socket.socket, reports: socket.socket) -> None:
    """Serve on a listening socket until SIGTERM, or until the supervisor has ended.

    `reports` is a connection to the supervisor. The worker writes ALIVE or READY to it once a second.
    """
    config.configure_logging()
    server = EventDrivenServer(config)
    # asyncio.run has the argument loop_factory from Python 3.12 on.
    with ignore_repeated_signal(), asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(server, sock, reports))


async def _serve(server: EventDrivenServer, sock: socket.socket, reports: socket.socket) -> None:
    tasks = [asyncio.create_task(_report(server, reports)), asyncio.create_task(_stop_with_supervisor(reports))]
    try:
        await server.serve(sockets=[sock])
    finally:
        for task in tasks:
            task.cancel()


async def _report(server: EventDrivenServer, reports: socket.socket) -> None:
    ready = False
    while True:
        ready = ready or await _is_ready(server)
        # A supervisor that does not read must not block the worker.
        with contextlib.suppress(OSError):
            reports.send(READY if ready else ALIVE)
        await asyncio.sleep(BEAT_SECONDS if ready else BEAT_SECONDS / 10)


async def _is_ready(server: EventDrivenServer) -> bool:
    if not server.started:
        return False
    check: Check | None = server.lifespan.state.get(READINESS_STATE)
    if check is None:
        return True
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            return not any((await check()).values())
    except TimeoutError:
        return False
    except Exception:
        _log.exception("readiness_check_failed")
        return False


async def _stop_with_supervisor(reports: socket.socket) -> None:
    """Stop when the supervisor has ended: nobody would replace this worker, or tell it to stop."""
    reports.setblocking(False)
    with contextlib.suppress(OSError):
        # The supervisor sends nothing.
        while await asyncio.get_running_loop().sock_recv(reports, 64):
            continue
    _log.error("supervisor_ended")
    signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def ignore_repeated_signal() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM where uvicorn has no handler: at its end it raises the signal that stopped it again."""

    def ignore(_number: int, _frame: FrameType | None) -> None:
        return

    previous = {number: signal.signal(number, ignore) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
