"""Repeats what was decided under rights that have changed before it was stored."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from store.base.errors import Superseded, Unreachable

T = TypeVar("T")

_PATIENCE_SECONDS = 10.0
"""Every attempt that fails is a change that another request has made, so this ends when the others pause."""

_ATTEMPTS_AT_ONCE = 3
"""Attempts without a pause between them."""

_LONGEST_PAUSE_SECONDS = 0.1
"""Pauses are random: so requests that collide do not all try again at the same time."""


async def repeat_while_superseded(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what an attempt returns. It decides and stores, and is repeated while it raises Superseded.

    Raises Unreachable after 10 s: nothing was stored.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    for attempts in count(1):
        try:
            return await attempt()
        except Superseded as error:
            if loop.time() > deadline:
                raise Unreachable("the workspace is being changed by others") from error
        if attempts >= _ATTEMPTS_AT_ONCE:
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))
    raise AssertionError("there is always another attempt")
