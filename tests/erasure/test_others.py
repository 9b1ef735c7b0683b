"""Erasures of users whose ids look like something else: nothing of others changes."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, UserId, partition_of
from store.erasure.renaming import Renaming
from tests.api.channels.calls import Made, make_workspace
from tests.api.client import Api, make_caller
from tests.api.devices.calls import REGISTER, list_devices
from tests.api.reactions.calls import react, reactions_of
from tests.api.search.calls import found, wait_until_indexed
from tests.checking import find_differences
from tests.conftest import redis_client
from tests.erasure.test_erasing import erase


async def sign_in(api: Api, user: str) -> str:
    """Return the user, who exists afterwards."""
    await api.services.sign_in(make_caller(user))
    return user


async def test_devices_of_others_with_the_same_id_stay(api: Api) -> None:
    (bob,) = await api.create_users("bob")
    user = await sign_in(api, f"tablet-{bob}")
    await api.data(bob, REGISTER, input={"id": user, "type": "MOBILE"})
    await api.data(bob, REGISTER, input={"id": f"my {user} here", "type": "MOBILE"})
    await erase(api, user)
    assert {device["id"] for device in await list_devices(api, bob)} == {user, f"my {user} here"}


async def test_reactions_of_others_with_the_id_as_emoji_stay(api: Api) -> None:
    bob, carol = await api.create_users("bob", "carol")
    user = await sign_in(api, "🦀")
    message = (await api.send(bob, carol))["message"]["id"]
    for reacting in (bob, carol):
        await react(api, reacting, message, user)
    await erase(api, user)
    assert await reactions_of(api, bob, message) == [(user, 2, True)]
    assert await find_differences(api.services.app.store) == []


async def test_words_in_messages_of_others_are_found(api: Api) -> None:
    bob, carol = await api.create_users("bob", "carol")
    user = await sign_in(api, f"word{bob.replace('-', '')}".lower())
    group = await api.create_group(bob, carol, user)
    await api.send(user, group, "something")
    await api.send(bob, group, f"{user} is a word")
    await wait_until_indexed(api)
    await erase(api, user)
    assert await found(api, carol, user) == [f"{user} is a word"]


async def test_idempotency_keys_of_others_stay(api: Api) -> None:
    bob, carol, dave = await api.create_users("bob", "carol", "dave")
    user = await sign_in(api, f"key-{bob}")
    group = await api.create_group(bob, carol, dave)
    sent = await api.send(bob, group, "once", idempotencyKey=user)
    await erase(api, user)
    again = await api.send(bob, group, "once", idempotencyKey=user)
    assert again["replayed"] and again["message"]["id"] == sent["message"]["id"]


@pytest.mark.parametrize("kind", ["group", "workspace", "channel", "audit log"])
async def test_groups_workspaces_and_channels_with_the_same_id_stay(api: Api, kind: str) -> None:
    bob, carol, dave = await api.create_users("bob", "carol", "dave")
    group = await api.create_group(bob, carol, dave)
    made = await make_workspace(api)
    channel = (await made.create())["id"]
    for place, sender in ((group, bob), (channel, made.owner)):
        await api.send(sender, place, "hello")
    user = await sign_in(api, {"group": group, "workspace": made.id, "channel": channel, "audit log": "-"}[kind])
    audit = api.database["audit"].count_documents({})
    await erase(api, user)
    assert [m["content"] for m in await api.history(carol, group) if m["contentType"] == "TEXT"] == ["hello"]
    await expect_channel(api, made, channel)
    assert api.database["audit"].count_documents({}) > audit
    assert await find_differences(api.services.app.store) == []


async def expect_channel(api: Api, made: Made, channel: str) -> None:
    """Fail unless the message in a channel is there, and the channel is."""
    assert [m["content"] for m in await api.history(made.member, channel)] == ["hello"]
    assert (await api.send(made.owner, channel, "again"))["message"]["seq"] == 2


async def test_an_erasure_does_not_wait_for_users_whose_ids_begin_with_the_id(api: Api) -> None:
    bob, carol, dave = await api.create_users("bob", "carol", "dave")
    user, other = await sign_in(api, f"{bob}-1"), await sign_in(api, f"{bob}-10")
    group = await api.create_group(other, carol, dave)
    sent = await api.send(other, group, "once", idempotencyKey="k")
    store = api.services.app.store
    outbox = store.keys.outbox(partition_of(ConversationId(group)))
    with redis_client(store.cache.url) as redis:
        entry = redis.xadd(outbox, {"m": f'{{"u":"{other}"}}'})
        waits = await store.user_erasure.clearing.clear(Renaming(UserId(user), UserId("erased-1")), no_step)
        redis.xdel(outbox, entry)
    assert waits == 0
    again = await api.send(other, group, "once", idempotencyKey="k")
    assert again["replayed"] and again["message"]["id"] == sent["message"]["id"]


async def no_step() -> None:
    """Do nothing."""
