"""One server has Redis back before another one. What the other one does until then is not lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.api.client import EDIT, RECALL, SEND, Api, Json, message_input
from tests.api.pins.calls import PIN
from tests.api.reactions.calls import ADD
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel
from tests.invariants.two_servers import TwoServers

THREADS = "query ($id: ID!) { messages(conversationId: $id, last: 9) { edges { node { id thread { replyCount } } } } }"
FOLLOW = "mutation ($id: ID!) { followChannel(channelId: $id) { id } }"
CHANNEL_EVENTS = """subscription ($id: ID!) { channelEvents(channels: [{id: $id}]) {
    __typename
    ... on ChannelCaughtUp { reset } } }"""
CHANGES: dict[str, Callable[[Api, str, str, str], Awaitable[Json]]] = {
    "edit": lambda api, user, _, message: api.data(user, EDIT, id=message, content="edited"),
    "recall": lambda api, user, _, message: api.data(user, RECALL, id=message),
    "react": lambda api, user, _, message: api.data(user, ADD, id=message, emoji="👍"),
    "pin": lambda api, user, _, message: api.data(user, PIN, id=message),
    "send": lambda api, user, channel, _: api.data(user, SEND, input=message_input(channel, "late")),
    "follow": lambda api, user, channel, _: api.data(user, FOLLOW, id=channel),
    "reply": lambda api, user, _, message: api.data(user, SEND, input=message_input(message, "late")),
}


async def bring_redis_back_to_one(deployment: TwoServers) -> None:
    """Lose Redis, and start it again. The other server has not noticed yet. No housekeeper runs any more."""
    await deployment.lose_redis()
    for server in (deployment.one, deployment.other):
        await server.services.housekeeper.close()
    await deployment.start_redis()
    await deployment.until(lambda api: api is deployment.other or api.services.app.store.cache.is_shared)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_late_change_of_a_channel_without_redis_reaches_devices(deployment: TwoServers, change: str) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    workspace = await create_workspace(one, alice)
    await add_members(one, workspace, bob)
    channel = await add_channel(one, workspace)
    for text in ("first", "second"):
        sent = (await one.send(alice, channel, text))["message"]["id"]
    await bring_redis_back_to_one(deployment)
    late_housekeeper = other.services.housekeeper
    housekeeper, generations = one.services.housekeeper, one.services.app.store.deployment.generations
    await housekeeper.check_redis()
    await housekeeper._loss_recovery.recover()
    assert not await generations.is_recovering()
    listening = await one.subscribe(bob, CHANNEL_EVENTS, id=channel)
    assert await listening.next() == {"__typename": "ChannelCaughtUp", "reset": False}
    assert not other.services.app.store.cache.is_shared
    await CHANGES[change](other, alice, channel, sent)
    await late_housekeeper.check_redis()
    assert await listening.next() == {"__typename": "ChannelCaughtUp", "reset": True}
    # A recovery repeats the work that follows a change of messages, such as webhooks.
    assert await generations.is_recovering() == (change != "follow")


async def test_a_late_change_during_a_recovery_starts_another_one(
    deployment: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    sent = (await one.send(alice, bob, "first"))["message"]["id"]
    await bring_redis_back_to_one(deployment)
    late = other.services.housekeeper
    housekeeper, store = one.services.housekeeper, one.services.app.store
    await housekeeper.check_redis()
    await housekeeper.check_redis()
    assert not other.services.app.store.cache.is_shared
    extend = store.index_states.extend

    async def change_afterwards(since_ms: int, unnoted_until_ms: int = 0) -> None:
        """The recovery has noted for webhooks and the index what was changed until now."""
        await extend(since_ms, unnoted_until_ms)
        await other.data(alice, EDIT, id=sent, content="edited")
        await late.check_redis()
        assert other.services.app.store.cache.is_shared

    with monkeypatch.context() as patch:
        patch.setattr(store.index_states, "extend", change_afterwards)
        await housekeeper._loss_recovery.recover()
    assert await store.deployment.generations.is_recovering()


async def test_a_late_first_reply_shows_its_thread_under_the_parent_message(deployment: TwoServers) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    workspace = await create_workspace(one, alice)
    await add_members(one, workspace, bob)
    channel = await add_channel(one, workspace)
    sent = (await one.send(alice, channel, "parent"))["message"]["id"]
    await bring_redis_back_to_one(deployment)
    late = other.services.housekeeper
    await one.services.housekeeper.check_redis()

    async def read() -> object:
        listed = (await one.data(bob, THREADS, id=channel))["messages"]["edges"]
        return [edge["node"]["thread"] for edge in listed if edge["node"]["id"] == sent]

    assert await read() == [None]
    await other.data(alice, SEND, input=message_input(sent, "late"))
    await late.check_redis()
    assert await read() == [{"replyCount": 1}]
