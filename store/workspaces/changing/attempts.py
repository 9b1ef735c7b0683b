"""Repeats what was decided under rights that have changed before it was stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from store.base.errors import Superseded, Unreachable

T = TypeVar("T")

_PATIENCE_SECONDS = 10.0
"""Every attempt that fails is a change that another server has made, so this ends when the others pause."""


async def repeat_while_superseded(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what an attempt returns. It decides and stores, and is repeated while it raises Superseded.

    Raises Unreachable after 10 s: nothing was stored.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    while True:
        try:
            return await attempt()
        except Superseded as error:
            if loop.time() > deadline:
                raise Unreachable("the workspace is being changed by others") from error
