"""Repeats a read whose result this process keeps in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from store.base.errors import StoreError
from store.base.tasks import end_tasks

_log = structlog.get_logger()

CHECK_SECONDS = 30.0
"""Interval of the reads: the longest time until a server that missed the notice of a change applies it."""

_PAUSE_SECONDS = (0.1, 2.0)


class RepeatedRead:
    """Reads at the start, when asked to, and every CHECK_SECONDS."""

    def __init__(self, name: str, read: Callable[[], Awaitable[None]]) -> None:
        """Create it. name: of the data, for the log. read: may raise StoreError, and is repeated then."""
        self._name = name
        self._read = read
        self._known = asyncio.Event()
        self._stale = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def read_soon(self) -> None:
        """Read again: changes may have been missed."""
        self._stale.set()

    @property
    def is_known(self) -> bool:
        """True once a read has succeeded."""
        return self._known.is_set()

    async def open(self) -> None:
        """Begin to read. Return after the first read, which is repeated until MongoDB answers."""
        self._task = asyncio.create_task(self._repeat())
        await self._known.wait()

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await end_tasks([self._task])

    async def _repeat(self) -> None:
        pause, longest = _PAUSE_SECONDS
        while True:
            self._stale.clear()
            try:
                await self._read()
                self._known.set()
                wait, pause = CHECK_SECONDS, _PAUSE_SECONDS[0]
            except StoreError as error:
                _log.warning(f"{self._name}_not_read_yet", reason=str(error))
                wait, pause = pause, min(2 * pause, longest)
            except Exception:
                _log.exception(f"{self._name}_not_read")
                wait = CHECK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stale.wait()
