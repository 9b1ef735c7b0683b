"""A server whose calls of the databases fail, or whose Redis loses its contents, from a chosen step of a call on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pytest

from store.base.errors import Unreachable
from tests.api.client import Api


class Fault(Enum):
    """A fault before a step."""

    DEATH = "the server does nothing any more"
    REDIS_AWAY = "Redis does not answer the server any more"
    FLUSH = "Redis loses its contents"


_MONGO_STEPS = ("find", "write", "bulk_write", "insert_many", "update_one", "delete_one", "find_one_and_update")
_REDIS_STEPS = ("run", "one", "run_in_background", "attempt")


class Steps:
    """Counts the calls of databases that a server makes, and lets a fault happen before one of them."""

    def __init__(self, fault: Fault | None, at: int, flush: Callable[[], None]) -> None:
        """at: the step, from 1."""
        self.count = 0
        self._fault = fault
        self._at = at
        self._flush = flush

    def begin(self, *, is_redis: bool) -> None:
        """Note the begin of a step. Raises Unreachable."""
        if is_redis or self._fault is not Fault.REDIS_AWAY:
            self.count += 1
        if self._fault is Fault.FLUSH and self.count == self._at:
            self._flush()
        elif self.has_failed and (is_redis or self._fault is Fault.DEATH):
            raise Unreachable("the database does not answer this server")

    @property
    def has_failed(self) -> bool:
        """True from the fault on."""
        return self._fault is not None and self.count >= self._at


@contextmanager
def failing(
    api: Api, monkeypatch: pytest.MonkeyPatch, fault: Fault | None, at: int, flush: Callable[[], None]
) -> Iterator[Steps]:
    """Let a fault happen before a step that the server makes meanwhile."""
    steps, store = Steps(fault, at, flush), api.services.app.store
    with monkeypatch.context() as patch:
        for owner, names, is_redis in ((store.mongo, _MONGO_STEPS, False), (store.cache, _REDIS_STEPS, True)):
            for name in names:
                patch.setattr(owner, name, _counted(getattr(owner, name), steps, is_redis=is_redis))
        yield steps


def _counted(original: Callable[..., Any], steps: Steps, *, is_redis: bool) -> Callable[..., Any]:
    async def counted(*args: Any, **options: Any) -> Any:
        try:
            steps.begin(is_redis=is_redis)
        except Unreachable as error:
            if original.__name__ != "attempt":
                raise
            return [error for _ in args[0]]
        return await original(*args, **options)

    return counted
