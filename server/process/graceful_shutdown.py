"""The application's part in a graceful shutdown: closing client connections in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

SHUTDOWN_STATE = "confab.shutdown"
"""Key of the application's GracefulShutdown in the lifespan state, where the HTTP server finds it."""

log = structlog.get_logger(__name__)


class GracefulShutdown:
    """Steps between the decision to stop and the end of all connections. The HTTP server begins them."""

    def __init__(self) -> None:
        self._drains: list[Callable[[], Awaitable[None]]] = []
        self._drain_task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """True if the shutdown has begun, and the server accepts no new connections."""
        return self._drain_task is not None

    def add_drain(self, drain: Callable[[], Awaitable[None]]) -> None:
        """Add a step that runs before connections are closed, concurrently with others. It limits its own duration."""
        self._drains.append(drain)

    def begin(self) -> asyncio.Future[None]:
        """Begin the shutdown. The future is done when connections may be closed. Idempotent."""
        if self._drain_task is None:
            self._drain_task = asyncio.create_task(self._drain())
        return self._drain_task

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        log.info("shutdown_started")
        for outcome in await asyncio.gather(*(drain() for drain in self._drains), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("drain_failed", exc_info=outcome)
        log.info("clients_disconnected", duration_ms=round((loop.time() - began) * 1000))
