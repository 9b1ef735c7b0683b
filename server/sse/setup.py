"""A process's event streams, put together from its parts and settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from resolvers.base.rate_limits import check_rate
from resolvers.users.callers import Caller
from server.overload.shielded_mutations import ShieldedMutations
from server.services import Services
from server.settings import Settings
from server.sse.requests import StreamRequests
from server.sse.single_connection import SingleConnections
from server.sse.stream import StreamLimits
from server.sse.stream_registry import SSEStreamRegistry
from subscriptions.transport.engine import GraphQLEngine


@asynccontextmanager
async def open_event_streams(
    settings: Settings,
    services: Services,
    engine: GraphQLEngine,
    mutations: ShieldedMutations,
    max_streams: int,
    *,
    check: Callable[[Caller], None] = lambda caller: None,
) -> AsyncIterator[tuple[SSEStreamRegistry, StreamRequests]]:
    """The streams and what answers requests for them, at work for the time of the block. What is open then is ended.

    `max_streams` at once. `check`: see SSEStreams.
    """
    limits = StreamLimits(
        max_streams=max_streams,
        max_streams_per_user=settings.sse_max_streams_per_user,
        max_operations=settings.ws_max_subscriptions,
        queue=settings.ws_max_queued_events,
    )
    store = services.app.store

    def count(caller: Caller) -> None:
        check_rate(store.rate_limits.connections, caller.user_id)

    streams = SSEStreamRegistry(limits, check=check, count=count)
    single = SingleConnections(
        engine, streams, mutations, store.event_streams, store.deployment.owner, services.app.bus.calls
    )
    await single.start()
    try:
        yield streams, StreamRequests(engine, streams, single, mutations, max_body_bytes=settings.max_body_bytes)
    finally:
        await streams.drain()
        await single.close()
