"""Devices show a change of a channel that a server makes in its fallback, while another server uses Redis again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import EDIT, RECALL, SEND, Api, Json, message_input
from tests.api.pins.calls import PIN
from tests.api.reactions.calls import ADD
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel
from tests.invariants.two_servers import TwoServers

CHANNEL_EVENTS = """subscription ($id: ID!) { channelEvents(channels: [{id: $id}]) {
    __typename
    ... on ChannelCaughtUp { reset } } }"""
CHANGES: dict[str, Callable[[Api, str, str, str], Awaitable[Json]]] = {
    "edit": lambda api, user, _, message: api.data(user, EDIT, id=message, content="edited"),
    "recall": lambda api, user, _, message: api.data(user, RECALL, id=message),
    "react": lambda api, user, _, message: api.data(user, ADD, id=message, emoji="👍"),
    "pin": lambda api, user, _, message: api.data(user, PIN, id=message),
    "send": lambda api, user, channel, _: api.data(user, SEND, input=message_input(channel, "late")),
    "reply": lambda api, user, _, message: api.data(user, SEND, input=message_input(message, "late")),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_late_change_of_a_channel_without_redis_reaches_devices(deployment: TwoServers, change: str) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    workspace = await create_workspace(one, alice)
    await add_members(one, workspace, bob)
    channel = await add_channel(one, workspace)
    for text in ("first", "second"):
        sent = (await one.send(alice, channel, text))["message"]["id"]
    await deployment.lose_redis()
    late_housekeeper = other.services.housekeeper
    for server in (one, other):
        await server.services.housekeeper.close()
    await deployment.start_redis()
    await deployment.until(lambda api: api is other or api.services.app.store.cache.is_shared)
    housekeeper, generations = one.services.housekeeper, one.services.app.store.deployment.generations
    await housekeeper.check_redis()
    await housekeeper._loss_recovery.recover()
    assert not await generations.is_recovering()
    listening = await one.subscribe(bob, CHANNEL_EVENTS, id=channel)
    assert await listening.next() == {"__typename": "ChannelCaughtUp", "reset": False}
    assert not other.services.app.store.cache.is_shared
    await CHANGES[change](other, alice, channel, sent)
    await late_housekeeper.check_redis()
    # Housekeepers do this every few seconds.
    await housekeeper._shared_hub.check_feeds()
    assert await listening.next() == {"__typename": "ChannelCaughtUp", "reset": True}
    # A recovery repeats the work that follows a change, such as webhooks.
    assert await generations.is_recovering()
