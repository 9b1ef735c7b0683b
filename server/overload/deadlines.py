"""How long operations may take, at the price of an entry in a dict each: a timer for each costs ten times as much."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Deadlines:
    """All of a process have the same length, so those that began first end first, and one timer does for them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[Deadline, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Deadline:
        """For a block: `with deadlines.begin()`. Raises TimeoutError from it where it took too long; what it waited for was cancelled."""
        return Deadline(self)

    def add(self, deadline: Deadline) -> None:
        """Its time runs from now on."""
        loop = asyncio.get_running_loop()
        self._waiting[deadline] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def remove(self, deadline: Deadline) -> None:
        """It was in time, or was not."""
        self._waiting.pop(deadline, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for deadline, due in list(self._waiting.items()):
            if due > now:
                self._timer = loop.call_at(due, self._look)
                return
            del self._waiting[deadline]
            deadline.expire()


class Deadline:
    """One block's. As `asyncio.timeout`, and to be left in the task that entered it."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._expired = False
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()

    def expire(self) -> None:
        """Time is up."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> None:
        self._deadlines.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._expired:
            self._deadlines.remove(self)
        elif self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
