"""The event streams of a process: how many there may be, and how they end together."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable

from resolvers.base.errors import A_MOMENT_MS, RateLimited, Unavailable
from resolvers.users.callers import Caller
from server.sse.stream import SSEStream, StreamLimits
from store.base.ids import UserId


class SSEStreamRegistry:
    """All event streams of a process."""

    def __init__(
        self,
        limits: StreamLimits,
        *,
        check: Callable[[Caller], None] = lambda caller: None,
        count: Callable[[Caller], None] = lambda caller: None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
    ) -> None:
        """`check` raises Unauthenticated for a caller whose token is good no more: a request may take its time between its
        first byte and its stream. `count` raises RateLimited for users who open too many. `clock` answers
        seconds since the epoch, `rng` spreads the end of streams when the server stops."""
        self.limits = limits
        self._check = check
        self._count = count
        self._clock = clock
        self._rng = rng if rng is not None else random.Random()
        self._streams: set[SSEStream] = set()
        self._of_user: Counter[UserId] = Counter()
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        """Streams at work now."""
        return len(self._streams)

    def open(
        self, caller: Caller | None, *, lasting: bool = False, on_end: Callable[[], None] | None = None
    ) -> SSEStream:
        """A stream that ends with the caller's token. To be called as an ASGI application, or closed.

        lasting: see SSEStream. `on_end` is called once when it has ended. Raises Unauthenticated, Unavailable and
        RateLimited.
        """
        if caller is not None:
            self._check(caller)
        if self._draining:
            raise Unavailable("The server restarts, please try again.")
        if len(self._streams) >= self.limits.max_streams:
            raise Unavailable("The server has as many event streams as it can take, please try again later.")
        if caller is not None and self._of_user[caller.user_id] >= self.limits.max_streams_per_user:
            most = self.limits.max_streams_per_user
            raise RateLimited(f"You may have {most} event streams at a time.", retry_after_ms=A_MOMENT_MS)
        if caller is not None and not lasting:
            self._count(caller)

        def ended(stream: SSEStream) -> None:
            self._forget(stream)
            if on_end is not None:
                on_end()

        stream = SSEStream(caller, self.limits, self._clock, ended, lasting=lasting)
        self._streams.add(stream)
        self._idle.clear()
        if caller is not None:
            self._of_user[caller.user_id] += 1
        return stream

    def count_reserved(self, caller: Caller) -> None:
        """One that lasts is about to be reserved, which counts like opening one. Raises RateLimited."""
        self._count(caller)

    def _forget(self, stream: SSEStream) -> None:
        self._streams.discard(stream)
        if not self._streams:
            self._idle.set()
        if stream.caller is not None:
            user = stream.caller.user_id
            self._of_user[user] -= 1
            if not self._of_user[user]:
                del self._of_user[user]

    def end_where(self, refused: Callable[[Caller], bool]) -> None:
        """Ends the streams of callers whose token is good no more."""
        for stream in list(self._streams):
            if stream.caller is not None and refused(stream.caller):
                stream.end()

    async def drain(self) -> None:
        """Ends all streams, a jittered batch after the other, so that clients don't all come back at once. Returns when
        they have ended. There are no new ones from now on."""
        self._draining = True
        streams = list(self._streams)
        self._rng.shuffle(streams)
        limits = self.limits
        batches = max(1, int(limits.drain_seconds / limits.drain_pause))
        size = max(limits.drain_batch, math.ceil(len(streams) / batches))
        for start in range(0, len(streams), size):
            if start:
                await asyncio.sleep(limits.drain_pause * self._rng.uniform(0.5, 1.5))
            for stream in streams[start : start + size]:
                stream.end()
        await self._idle.wait()
