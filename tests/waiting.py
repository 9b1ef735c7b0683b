"""Waiting for a condition, not for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TIMEOUT_SECONDS = 60.0
"""A wait that takes longer than this fails the test. Long enough for a busy machine."""


async def wait_for(check: Callable[[], bool], within: float = TIMEOUT_SECONDS) -> None:
    """Wait until a check returns true."""
    async with asyncio.timeout(within):
        while not check():  # noqa: ASYNC110  # the checked objects have no events
            await asyncio.sleep(0.005)
