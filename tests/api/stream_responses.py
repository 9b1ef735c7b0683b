"""Awaits the responses of a subscription one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from subscriptions.transport.engine import EventStream, StreamEnded


async def iterate_responses(stream: EventStream) -> AsyncIterator[bytes]:
    """Yield a stream's responses until its end, and close it. Raises RequestRefused."""
    ready = asyncio.Event()
    stream.on_ready(ready.set)
    try:
        while True:
            ready.clear()
            response = stream.take()
            if response is None:
                await ready.wait()
            else:
                yield response
    except StreamEnded:
        return
    finally:
        stream.close()
