"""Event streams of a process: their limits, and closing them at shutdown."""

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
from subscriptions.presence.connected_devices import DeviceConnection
from subscriptions.realtime.unsent_answers import UnsentAnswers


class SSEStreamRegistry:
    """All open event streams of a process."""

    def __init__(
        self,
        limits: StreamLimits,
        *,
        check: Callable[[Caller], None] = lambda caller: None,
        count: Callable[[Caller], None] = lambda caller: None,
        clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        unsent: UnsentAnswers | None = None,
        connect: Callable[[Caller, SSEStream], DeviceConnection] | None = None,
    ) -> None:
        """Create the registry.

        Args:
            limits: Limits of the process and of each stream.
            check: Raises Unauthenticated if the caller's token is no longer valid. A token may become invalid between
                the first byte of a request and its stream.
            count: Raises RateLimited if a user opens too many streams.
            clock: Returns seconds since the epoch.
            rng: Spreads the end of streams at shutdown.
            unsent: Bounds the answers that wait for clients.
            connect: Makes a stream one of its caller's devices; None: streams are of no device.
        """
        self.limits = limits
        self._check = check
        self._count = count
        self._clock = clock
        self._unsent = unsent or UnsentAnswers()
        self._rng = rng if rng is not None else random.Random()
        self._connect = connect
        self._streams: set[SSEStream] = set()
        self._count_by_user: Counter[UserId] = Counter()
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def count(self) -> int:
        """Number of open streams."""
        return len(self._streams)

    def open(
        self,
        caller: Caller | None,
        *,
        persistent: bool = False,
        is_device: bool = False,
        on_end: Callable[[], None] | None = None,
    ) -> SSEStream:
        """Return a new stream, which ends when the caller's token expires.

        Run it as an ASGI application, or close it. `on_end` is called once after its end. `persistent`: see SSEStream.
        `is_device`: the caller is there while it is open (ADR 80).
        Raises Unauthenticated, Unavailable and RateLimited.
        """
        if caller is not None:
            self._check(caller)
        if self._draining:
            raise Unavailable("The server is restarting, please try again.")
        if len(self._streams) >= self.limits.max_streams:
            raise Unavailable("The server has too many event streams, please try again later.")
        if caller is not None and self._count_by_user[caller.user_id] >= self.limits.max_streams_per_user:
            limit = self.limits.max_streams_per_user
            raise RateLimited(
                f"You may have {limit} event streams at a time. Close one first.", retry_after_ms=A_MOMENT_MS
            )
        if caller is not None and not persistent:
            self._count(caller)

        def ended(stream: SSEStream) -> None:
            self._forget(stream)
            if on_end is not None:
                on_end()

        stream = SSEStream(caller, self.limits, self._clock, ended, self._unsent, persistent=persistent)
        self._streams.add(stream)
        self._idle.clear()
        if is_device and caller is not None and self._connect is not None:
            stream.device = self._connect(caller, stream)
        if caller is not None:
            self._count_by_user[caller.user_id] += 1
        return stream

    def count_reservation(self, caller: Caller) -> None:
        """Count a reservation like an opened stream. Raises RateLimited."""
        self._count(caller)

    def _forget(self, stream: SSEStream) -> None:
        self._streams.discard(stream)
        if stream.device is not None:
            stream.device.end()
        if not self._streams:
            self._idle.set()
        if stream.caller is not None:
            user = stream.caller.user_id
            self._count_by_user[user] -= 1
            if not self._count_by_user[user]:
                del self._count_by_user[user]

    def end_where(self, is_invalid: Callable[[Caller], bool]) -> None:
        """End the streams of callers whose token is no longer valid."""
        for stream in list(self._streams):
            if stream.caller is not None and is_invalid(stream.caller):
                stream.end()

    async def drain(self) -> None:
        """End all streams in batches with jitter, so that clients do not reconnect all at once.

        Refuses new streams. Returns when all streams have ended.
        """
        self._draining = True
        streams = list(self._streams)
        self._rng.shuffle(streams)
        limits = self.limits
        batches = max(1, int(limits.drain_seconds / limits.drain_pause_seconds))
        size = max(limits.drain_batch, math.ceil(len(streams) / batches))
        for start in range(0, len(streams), size):
            if start:
                await asyncio.sleep(limits.drain_pause_seconds * self._rng.uniform(0.5, 1.5))
            for stream in streams[start : start + size]:
                stream.end()
        await self._idle.wait()
