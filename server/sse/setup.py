"""Builds the event streams of a process from services and settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from resolvers.base.rate_limits import check_rate
from resolvers.users.callers import Caller
from server.overload.queued_operations import QueuedOperations
from server.overload.shielded_mutations import ShieldedMutations
from server.services import Services
from server.settings import Settings
from server.sse.requests import StreamRequests
from server.sse.single_connection import SingleConnections
from server.sse.stream import SSEStream, StreamLimits
from server.sse.stream_registry import SSEStreamRegistry
from subscriptions.presence.connected_devices import DeviceConnection, GivenDevice
from subscriptions.realtime.unsent_answers import UnsentAnswers
from subscriptions.transport.engine import GraphQLEngine


@asynccontextmanager
async def open_event_streams(
    settings: Settings,
    services: Services,
    engine: GraphQLEngine,
    mutations: ShieldedMutations,
    max_streams: int,
    unsent: UnsentAnswers,
    queued: QueuedOperations,
    *,
    check: Callable[[Caller], None] = lambda caller: None,
) -> AsyncIterator[tuple[SSEStreamRegistry, StreamRequests]]:
    """Run event streams for the duration of the block, and close the open ones at its end.

    Returns the registry of streams and the handler of their requests. `check`: see SSEStreamRegistry.
    """
    limits = StreamLimits(
        max_streams=max_streams,
        max_streams_per_user=settings.sse_max_streams_per_user,
        max_operations=settings.ws_max_subscriptions,
        max_queued_events=settings.ws_max_queued_events,
    )
    store, devices = services.app.store, services.app.devices

    def count_stream(caller: Caller) -> None:
        check_rate(store.rate_limits.connections, caller.user_id)

    def connect(caller: Caller, stream: SSEStream) -> DeviceConnection:
        return devices.connect(caller.user_id, GivenDevice(), stream.end)

    streams = SSEStreamRegistry(limits, check=check, count=count_stream, unsent=unsent, connect=connect)
    single = SingleConnections(
        engine, streams, mutations, store.event_streams, store.deployment.owner, services.app.bus.calls, queued
    )
    await single.start()
    try:
        yield streams, StreamRequests(engine, streams, single, mutations, max_body_bytes=settings.max_body_bytes)
    finally:
        await streams.drain()
        await single.stop()
