"""A server has Redis back later than another one: what it did in between is not lost."""

from __future__ import annotations

import pytest

from tests.api.client import EDIT, SEND, message_input
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel
from tests.invariants.two_servers import TwoServers

THREADS = "query ($id: ID!) { messages(conversationId: $id, last: 9) { edges { node { id thread { replyCount } } } } }"


async def test_a_late_change_during_a_recovery_starts_another_one(
    deployment: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = deployment.one, deployment.other
    alice, bob = await one.create_users("alice", "bob")
    sent = (await one.send(alice, bob, "first"))["message"]["id"]
    await deployment.lose_redis()
    late = other.services.housekeeper
    for server in (one, other):
        await server.services.housekeeper.close()
    await deployment.start_redis()
    await deployment.until(lambda api: api is other or api.services.app.store.cache.is_shared)
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
    await deployment.lose_redis()
    late = other.services.housekeeper
    for server in (one, other):
        await server.services.housekeeper.close()
    await deployment.start_redis()
    await deployment.until(lambda api: api is other or api.services.app.store.cache.is_shared)
    await one.services.housekeeper.check_redis()

    async def read() -> object:
        listed = (await one.data(bob, THREADS, id=channel))["messages"]["edges"]
        return [edge["node"]["thread"] for edge in listed if edge["node"]["id"] == sent]

    assert await read() == [None]
    await other.data(alice, SEND, input=message_input(sent, "late"))
    await late.check_redis()
    assert await read() == [{"replyCount": 1}]
