"""The slowest pace at which the body of an upload may arrive.

A slow body holds a place for uploads. Without a least pace, few accounts could hold all places of a server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from server.http.request import BadRequest

SLOWEST_BYTES_PER_SECOND = 16 * 1024

LATE_SECONDS = 20.0
"""Time by which a body may be late: it averages over slow seconds, and over short interruptions of a network."""


async def expect_progress(
    body: AsyncIterator[bytes], clock: Callable[[], float] = time.monotonic, late_seconds: float = LATE_SECONDS
) -> AsyncGenerator[bytes, None]:
    """Yield a body. Raises BadRequest with status 408 if it arrives more slowly than the slowest pace.

    Waiting for the client uses up the time by which the body may be late, and bytes that arrive give it back. The time
    in which this server stores bytes does not count.
    """
    left, is_whole = late_seconds, False
    while not is_whole:
        began = clock()
        try:
            async with asyncio.timeout(left):
                piece = await anext(body, None)
        except TimeoutError:
            raise _too_slow() from None
        is_whole = piece is None
        if piece is not None:
            left = min(late_seconds, left - (clock() - began) + len(piece) / SLOWEST_BYTES_PER_SECOND)
            if left <= 0:
                raise _too_slow()
            yield piece


def _too_slow() -> BadRequest:
    return BadRequest(
        f"The body arrives too slowly: at least {SLOWEST_BYTES_PER_SECOND // 1024} KiB a second are needed. "
        "Send it again over a faster connection.",
        status=408,
    )
