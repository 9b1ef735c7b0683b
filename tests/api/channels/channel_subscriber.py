"""Subscriptions to channels, as tests use them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resolvers.live.live_stream import LiveEvent, LiveStream
from store.base.ids import UserId
from subscriptions.realtime.events.shared import WorkspaceUpdate
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Subscriber
from tests.api.sample_channels import SampleChannels

CHANNELS = """subscription ($channels: [Position!]!) { channelEvents(channels: $channels) {
    __typename
    ... on ChannelMessage { conversationId change rev message { seq content } }
    ... on TypingStarted { conversationId user { id } }
    ... on AccessEnded { conversationId }
    ... on ChannelCaughtUp { conversationId rev reset } } }"""


async def look_at(api: Api, user: str, *positions: str | tuple[str, int]) -> Subscriber:
    """Return a subscription to channels, each from now on or from a rev."""
    named = [{"id": p} if isinstance(p, str) else {"id": p[0], "rev": p[1]} for p in positions]
    return await api.subscribe(user, CHANNELS, channels=named)


async def live(api: Api, user: str, *channels: str) -> tuple[Subscriber, int]:
    """Return a subscription to channels from now on, after ChannelCaughtUp, and the rev."""
    subscriber = await look_at(api, user, *channels)
    events = [await subscriber.next() for _ in channels]
    assert [(e["__typename"], e["conversationId"], e["reset"]) for e in events] == [
        ("ChannelCaughtUp", channel, False) for channel in channels
    ]
    return subscriber, events[0]["rev"]


async def texts(subscriber: Subscriber, count: int) -> list[Any]:
    """Return change and content of the next messages."""
    events = [await subscriber.next() for _ in range(count)]
    return [(event["change"], event["message"]["content"]) for event in events]


async def tell(api: Api, workspace: SampleChannels, *members: str) -> None:
    """Announce the newest change of rights, as PolicyChanges does before the answer."""
    policy, users = workspace.policy, tuple(map(UserId, members))
    await api.services.app.shared_events.announce(
        WorkspaceUpdate(policy.workspace, policy.version, changes_rights=True, members=users)
    )


async def refused(api: Api, user: str, *positions: str) -> tuple[str, str]:
    with pytest.raises(RequestRefused) as refusal:
        await look_at(api, user, *positions)
    (error,) = refusal.value.errors
    return error["extensions"]["code"], error["extensions"]["field"]


async def take(stream: LiveStream) -> LiveEvent:
    """Return the next event of a stream."""
    ready = asyncio.Event()
    stream.on_ready(ready.set)
    while (event := stream.take()) is None:
        await ready.wait()
        ready.clear()
    return event
