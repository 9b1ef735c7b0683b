"""Prepares documents in a thread, so that the event loop does not wait for a long one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


class PreparationThread:
    """A thread for work that takes much CPU time. It does one thing at a time.

    The thread and the event loop share one interpreter lock, which changes hands after at most the switch interval
    (`server.process.interpreter_tuning`). So each step of the event loop waits so long, and not for all of the work.
    """

    def __init__(self) -> None:
        """Create the thread. It starts with the first work, and ends when this object is released."""
        self._executor = ThreadPoolExecutor(1, "documents")

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function that runs in the thread.

        If the caller is cancelled, this waits for the end of the function, so that the work is counted as its own.
        """
        result = asyncio.get_running_loop().run_in_executor(self._executor, function)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            while not result.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([result])
            # Nobody else reads the failure.
            result.cancelled() or result.exception()
            raise
