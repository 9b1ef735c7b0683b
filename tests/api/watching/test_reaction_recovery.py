"""The events of reactions reach everybody when a server dies between any two steps, and after Redis was lost."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.live import channel_sources
from store.base.ids import PARTITIONS, ConversationId
from store.redis.cache import Call
from subscriptions.delivery.coalescing import reaction_events
from tests.api.channels.conftest import workspace as workspace  # a fixture
from tests.api.client import Api, cancel_tasks, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.api.reactions.calls import react
from tests.api.sample_channels import SampleChannels
from tests.api.watching.events import counts, listen, look, published, set_interval, until


async def sweep(api: Api) -> int:
    """Do what housekeeping does for entries of the outbox that a server left."""
    return await api.services.housekeeper.sweep(range(PARTITIONS), 0)


async def waiting_entries(api: Api) -> int:
    keys = [api.services.app.store.keys.outbox(partition) for partition in range(PARTITIONS)]
    return sum(await api.services.app.store.cache.run([Call("XLEN", (key,)) for key in keys]))


@pytest.mark.parametrize("where", ["private", "channel"])
async def test_another_server_publishes_if_one_dies_after_the_write(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    to = workspace.general if where == "channel" else workspace.other
    sent = (await api.send(workspace.member, to))["message"]
    subscriber, _ = await look(other_api, workspace.member, sent["conversationId"])
    with monkeypatch.context() as dead:
        dead.setattr(api.services.app.reactions, "notify", lambda *_: None)
        await react(api, workspace.other, sent["id"])
    await subscriber.expect_no_event()
    assert await waiting_entries(api) == 1
    assert await sweep(other_api) == 1
    assert counts(await subscriber.next()) == {"👍": 1}
    await published(other_api)
    assert await waiting_entries(api) == 0


async def test_another_server_publishes_if_one_dies_while_it_waits_for_the_interval(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_interval(api, 60_000, monkeypatch)
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    subscriber = await listen(other_api, alice)
    await react(api, bob, sent["id"])
    assert counts(await subscriber.next()) == {"👍": 1}
    await published(api)
    await react(api, bob, sent["id"], "🎉")
    store = api.services.app.store
    window = store.keys.event_window(ConversationId(sent["conversationId"]), f"reactions:{sent['id'][2:]}")

    async def is_claimed() -> bool:
        return bool(await store.cache.one(Call("EXISTS", (window[1],))))

    await wait_until(is_claimed)
    await cancel_tasks(*api.services.app.reaction_events._coalesced._tasks)
    assert await waiting_entries(api) == 1
    # Both keys expire within some seconds.
    await store.cache.one(Call("DEL", window))
    assert await sweep(other_api) == 1
    assert counts(await subscriber.next()) == {"👍": 1, "🎉": 1}
    await published(other_api)
    assert await waiting_entries(api) == 0
    await subscriber.expect_no_event()


async def test_a_change_that_was_announced_and_not_written_is_no_event(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]
    subscriber = await listen(other_api, alice)
    reactions = api.services.app.store.reactions

    async def die(*_: Any) -> Any:
        raise RuntimeError("the server died")

    with monkeypatch.context() as dead:
        dead.setattr(type(reactions), "change", die)
        response = await api.run(
            bob, 'mutation ($id: ID!) { addReaction(messageId: $id, emoji: "👍") { id } }', id=sent["id"]
        )
        assert response["errors"]
    assert await waiting_entries(api) == 1
    await sweep(other_api)
    await published(other_api)
    await subscriber.expect_no_event()
    store = api.services.app.store
    await store.cache.run([Call("DEL", (store.keys.outbox(p),)) for p in range(PARTITIONS)])


async def test_users_who_look_at_a_large_group_get_reactions_after_a_loss_of_redis(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaction_events, "LARGEST_GROUP", 2)
    monkeypatch.setattr(channel_sources, "LARGEST_GROUP", 2)
    async with open_api("flushed reactions") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        sent = (await api.send(alice, group))["message"]
        subscriber, _ = await look(api, bob, group)
        await react(api, alice, sent["id"])
        assert counts(await subscriber.next()) == {"👍": 1}
        deployments.flush_redis("flushed reactions")
        await react(api, alice, sent["id"], "🎉")
        await api.services.housekeeper.check_redis()
        while not (event := await subscriber.next()).get("reset"):
            pass
        await react(api, carol, sent["id"])
        await until(subscriber, {"👍": 2, "🎉": 1})
        await subscriber.stop()
        await react(api, alice, sent["id"], "❤️")
        await published(api)
        again, _ = await look(api, bob, group, event["rev"])
        event = await again.next()
        assert counts(event) == {"👍": 2, "🎉": 1, "❤️": 1}
        assert (await again.next())["reset"] is False
