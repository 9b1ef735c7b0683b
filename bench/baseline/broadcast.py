"""Live events between servers and for the subscriptions of this server: one Redis channel per user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

Event = dict[str, Any]


class Broadcast:
    """One connection that listens for all users with subscriptions on this server."""

    def __init__(self, redis_url: str, prefix: str) -> None:
        self._prefix = prefix
        self._redis = Redis(connection_pool=BlockingConnectionPool.from_url(redis_url))
        # A timeout without messages is not a failure.
        self._listening = Redis.from_url(redis_url, socket_timeout=None)
        self._pubsub = self._listening.pubsub()
        self._queues: dict[str, set[asyncio.Queue[Event]]] = {}
        self._confirmed: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        # listen() ends if there are no subscriptions.
        await self._pubsub.subscribe(f"{self._prefix}:open")
        listener = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener
            await self._pubsub.aclose()  # type: ignore[no-untyped-call]
            await self._listening.aclose()
            await self._redis.aclose()

    async def publish(self, users: Iterable[str], event: Event) -> None:
        """Publish the same text to all users."""
        payload = orjson.dumps(event)
        await self._publish((user, payload) for user in users)

    async def publish_each(self, events: Mapping[str, Event]) -> None:
        """Publish a separate text to each user."""
        await self._publish((user, orjson.dumps(event)) for user, event in events.items())

    async def _publish(self, payloads: Iterable[tuple[str, bytes]]) -> None:
        pipeline = self._redis.pipeline(transaction=False)
        for user, payload in payloads:
            pipeline.publish(f"{self._prefix}:user:{user}", payload)
        await pipeline.execute()

    @asynccontextmanager
    async def subscribe(self, user: str) -> AsyncIterator[asyncio.Queue[Event]]:
        """Yield the texts published to the user from the start of the block."""
        channel = f"{self._prefix}:user:{user}"
        queue: asyncio.Queue[Event] = asyncio.Queue()
        queues = self._queues.setdefault(channel, set())
        queues.add(queue)
        try:
            if channel not in self._confirmed:
                self._confirmed[channel] = asyncio.Event()
                await self._pubsub.subscribe(channel)
            await self._confirmed[channel].wait()
            yield queue
        finally:
            queues.discard(queue)
            if not queues:
                del self._queues[channel], self._confirmed[channel]
                await self._pubsub.unsubscribe(channel)

    async def _listen(self) -> None:
        while True:
            try:
                async for message in self._pubsub.listen():
                    channel = message["channel"].decode()
                    if message["type"] == "message":
                        event = orjson.loads(message["data"])
                        for queue in self._queues.get(channel, ()):
                            queue.put_nowait(event)
                    elif message["type"] == "subscribe" and channel in self._confirmed:
                        self._confirmed[channel].set()
            except RedisError:
                await asyncio.sleep(1)
