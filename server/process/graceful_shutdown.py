"""The application's part in the end of its server: seeing clients off while they are still connected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

SHUTDOWN_STATE = "confab.shutdown"
"""Key in the lifespan's state for the application's Stopping, where its server finds it."""

log = structlog.get_logger(__name__)


class GracefulShutdown:
    """What has to happen between the decision to stop and the end of connections. Begun by the server."""

    def __init__(self) -> None:
        self._drains: list[Callable[[], Awaitable[None]]] = []
        self._ending: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the server takes no new connections any more."""
        return self._ending is not None

    def drain_by(self, drain: Callable[[], Awaitable[None]]) -> None:
        """Await this, along with the others, before connections are closed. It bounds its own time."""
        self._drains.append(drain)

    def begin(self) -> asyncio.Future[None]:
        """Start to see clients off, if that was not done before. Done when connections may be closed."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._drain())
        return self._ending

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        log.info("stopping")
        for outcome in await asyncio.gather(*(drain() for drain in self._drains), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("drain_failed", exc_info=outcome)
        log.info("clients_seen_off", duration_ms=round((loop.time() - began) * 1000))
