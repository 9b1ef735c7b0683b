"""Time limits for operations. One costs an entry in a dict: a timer for each operation would cost ten times as much."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadlines:
    """Deadlines of one process. All have the same length, so the oldest ends first and one timer serves all."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_times: dict[Deadline, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """Return a context manager: `with deadlines.begin()`.

        If the block takes too long, what it awaits is cancelled and the block raises TimeoutError.
        """
        return Deadline(self)

    def add(self, deadline: Deadline) -> None:
        """Start the time of a deadline."""
        loop = asyncio.get_running_loop()
        self._due_times[deadline] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._expire_due)

    def remove(self, deadline: Deadline) -> None:
        """Forget a deadline. Idempotent."""
        self._due_times.pop(deadline, None)

    def _expire_due(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for deadline, due in list(self._due_times.items()):
            if due > now:
                self._timer = loop.call_at(due, self._expire_due)
                return
            del self._due_times[deadline]
            deadline.expire()


class Deadline:
    """Time limit of one block. Works like `asyncio.timeout`; the task that enters it also leaves it."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._expired = False
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()

    def expire(self) -> None:
        """Cancel the block."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        self._deadlines.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._expired:
            self._deadlines.remove(self)
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
