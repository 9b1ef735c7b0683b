"""Group commit: items that arrive while a batch is being written are the next batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from store.base.tasks import end_tasks

T = TypeVar("T")

SLOW_SECONDS = 1.0
"""After this time the next batch is written too, so that a locked row delays only its own batch."""


class GroupCommit(Generic[T]):
    """Writes batches of items, one after the other. A lone item is written at once."""

    def __init__(
        self,
        write: Callable[[list[T]], Awaitable[None]],
        limit: int,
        wait_for_others: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Create an empty queue.

        Args:
            write: Writes a batch. It handles its errors itself.
            limit: Largest number of items in a batch.
            wait_for_others: Awaited before each batch. Returns when no further item is about to come.
        """
        self._write = write
        self._limit = limit
        self._wait_for_others = wait_for_others
        self._waiting: deque[T] = deque()
        self._current: asyncio.Task[None] | None = None
        """The batch that the waiting items wait for."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return len(self._waiting)

    def push(self, items: Sequence[T]) -> None:
        """Add items at the end. If nothing is being written, the write begins in the next turn of the event loop."""
        self._waiting.extend(items)
        if self._current is None:
            self._begin()

    def discard(self, item: T) -> bool:
        """Remove an item if it still waits. Return whether it did."""
        is_waiting = item in self._waiting
        if is_waiting:
            self._waiting.remove(item)
        return is_waiting

    async def close(self) -> None:
        """Stop. Batches that are being written are cancelled, waiting items are left."""
        self._is_closed = True
        await end_tasks(self._tasks)

    def _begin(self) -> None:
        if not self._waiting or self._is_closed:
            return
        # A batch belongs to many requests, so it has the context of none.
        self._current = task = asyncio.get_running_loop().create_task(self._run(), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def _run(self) -> None:
        if self._wait_for_others is not None:
            await self._wait_for_others()
        batch = [self._waiting.popleft() for _ in range(min(self._limit, len(self._waiting)))]
        if not batch:
            return
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._stop_waiting_for, self._current)
        try:
            await self._write(batch)
        finally:
            timer.cancel()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._stop_waiting_for(task)

    def _stop_waiting_for(self, task: asyncio.Task[None] | None) -> None:
        if self._current is task:
            self._current = None
            self._begin()
