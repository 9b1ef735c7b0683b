"""Loads values by key in batches: all keys that are asked for in one turn of the event loop are read together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BatchLoader(Generic[K, V]):
    """Reads each key at most once, unless the read fails. For one operation: values are kept as long as the loader."""

    def __init__(self, read: Callable[[list[K]], Awaitable[Sequence[V]]]) -> None:
        """Create a loader. read: returns the values of some keys, in their order."""
        self._read = read
        self._known: dict[K, V] = {}
        self._futures: dict[K, asyncio.Future[V]] = {}
        self._requested: set[K] = set()
        self._batch: _Batch[K] | None = None

    def find(self, key: K) -> V | Awaitable[V]:
        """Return the value of a key if it has been read, else a future of it."""
        try:
            return self._known[key]
        except KeyError:
            return self.load(key)

    def load(self, key: K) -> asyncio.Future[V]:
        """Return a future of a key's value. It raises what the read raises."""
        future = self._futures.get(key)
        if future is None:
            future = self._futures[key] = asyncio.get_running_loop().create_future()
            if key in self._known:
                future.set_result(self._known[key])
            elif key not in self._requested:
                self._request(key)
        return future

    def prime(self, key: K, value: V) -> None:
        """Take a value that was read elsewhere, unless the key has been asked for."""
        if key not in self._requested:
            self._requested.add(key)
            self._known[key] = value

    def prefetch(self, keys: Iterable[K]) -> asyncio.Future[None] | None:
        """Begin to read keys, so that `find` returns their values without waiting.

        Returns:
            A future that ends when they were read, or could not be read; None if they have been asked for already.
        """
        requested = self._requested
        for key in keys:
            if key not in requested:
                self._request(key)
        return self._batch.done if self._batch is not None else None

    def _request(self, key: K) -> None:
        self._requested.add(key)
        if self._batch is None:
            batch: _Batch[K] = _Batch(asyncio.get_running_loop())
            self._batch = batch
            batch.task = asyncio.create_task(self._read_batch(batch))
        self._batch.keys.append(key)

    async def _read_batch(self, batch: _Batch[K]) -> None:
        # The first step of a task runs in the next turn of the loop. Later keys belong to another batch.
        self._batch = None
        try:
            values = await self._read(batch.keys)
        except BaseException as error:
            for key in batch.keys:
                self._requested.discard(key)
                future = self._futures.pop(key, None)
                if future is not None and not future.done():
                    future.cancel() if isinstance(error, asyncio.CancelledError) else future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for key, value in zip(batch.keys, values, strict=True):
                self._known[key] = value
                future = self._futures.get(key)
                if future is not None and not future.done():
                    future.set_result(value)
        finally:
            if not batch.done.done():
                batch.done.set_result(None)


class _Batch(Generic[K]):
    """Keys that are read together."""

    __slots__ = ("done", "keys", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.keys: list[K] = []
        self.done: asyncio.Future[None] = loop.create_future()
        self.task: asyncio.Task[None] | None = None
        """Held here while it runs."""
