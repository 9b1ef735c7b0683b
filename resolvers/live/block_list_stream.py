"""Keeps the list of users that a subscriber has blocked in memory while a subscription is open (ADR 95)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from resolvers.base.app import Confab
from resolvers.live.live_stream import LiveStream
from resolvers.live.patient_reads import read_patiently
from store.base.ids import UserId


async def open_with_block_list(
    app: Confab, user: UserId, open_stream: Callable[[], Awaitable[LiveStream]]
) -> LiveStream:
    """Open a stream, and keep the block list of its user until it is closed. Both are read at the same time.

    So no event has to wait for the list. Raises what `open_stream` raises.
    """
    blocks, stream = app.subscriber_blocks, None

    async def open_now() -> None:
        nonlocal stream
        stream = await open_stream()

    blocks.keep(user)
    try:
        await app.store.cache.gather(open_now(), read_patiently(partial(blocks.read, user)))
    except BaseException:
        if stream is not None:
            stream.close()
        blocks.release(user)
        raise
    assert stream is not None
    stream.on_close(partial(blocks.release, user))
    return stream
