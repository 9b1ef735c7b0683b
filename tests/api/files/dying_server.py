"""A server that dies at one of its writes: nothing that it wanted to do after it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from store.mongo.client import Mongo

WRITES = (
    "bulk_write",
    "delete_each",
    "delete_one",
    "find_one_and_update",
    "insert_many",
    "insert_one",
    "update_one",
    "write",
)


class Died(BaseException):
    """The server is dead."""


class Death:
    """Dies at a write, before or after it is executed. `step` None: never."""

    def __init__(self, step: int | None, *, after: bool = False) -> None:
        self._step = step
        self._after = after
        self.writes = 0
        self.is_dead = False

    async def run(self, write: Any, *args: Any, **options: Any) -> Any:
        if self.is_dead:
            raise Died
        self.writes += 1
        self.is_dead = self.writes == self._step
        if self.is_dead and not self._after:
            raise Died
        result = await write(*args, **options)
        if self.is_dead:
            raise Died
        return result


_death: ContextVar[Death | None] = ContextVar("death", default=None)


@contextmanager
def mortal(mongo: Mongo, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make writes of tasks with a death fail from its step on. Other tasks are other servers."""
    with patch.context() as patched:
        for name in WRITES:
            patched.setattr(mongo, name, partial(_write, getattr(mongo, name)))
        yield


async def _write(write: Any, *args: Any, **options: Any) -> Any:
    death = _death.get()
    return await (write(*args, **options) if death is None else death.run(write, *args, **options))


@contextmanager
def dying(death: Death) -> Iterator[None]:
    """Let what runs in the block die; the block ends then."""
    token = _death.set(death)
    try:
        yield
    except Died:
        pass
    finally:
        _death.reset(token)
