"""Reads that wait while a database restarts, so that subscribers do not have to subscribe again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from store.base.errors import StoreError
from store.base.request_user import request_user
from store.redis.request_scope import RequestScope

T = TypeVar("T")

_MAX_WAIT_SECONDS = 60.0
_PAUSE_SECONDS = (0.1, 1.0)


async def read_patiently(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `read`. It is repeated after a StoreError for up to 60 s, then the error is raised."""
    deadline = asyncio.get_running_loop().time() + _MAX_WAIT_SECONDS
    pause, longest = _PAUSE_SECONDS
    while True:
        try:
            with RequestScope(request_user.get()):
                return await read()
        except StoreError:
            if asyncio.get_running_loop().time() + pause > deadline:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, longest)
