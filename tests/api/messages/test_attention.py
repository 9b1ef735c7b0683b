"""attention: the numbers that light a badge."""

from __future__ import annotations

import pytest

from store.base.ids import UserId
from store.redis.cache import Call
from tests.api.client import Api, private_id
from tests.api.conftest import Deployments, OpenApi


async def read_attention(api: Api, user: str) -> tuple[int, int]:
    """Return unread messages and mentions. Fail unless they are the sums of the list, and no thread is counted."""
    attention = (await api.data(user, "{ attention { unread mentions threads } }"))["attention"]
    unmuted = [session for session in await api.sessions(user) if not session["muteStatus"]]
    sums = [sum(session[name] for session in unmuted) for name in ("unreadCount", "unreadMentionCount")]
    assert attention == {"unread": await api.total_unread(user), "mentions": sums[1], "threads": 0}
    assert attention["unread"] == sums[0]
    return attention["unread"], attention["mentions"]


async def test_attention_of_a_new_user_is_zero(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    assert await read_attention(api, alice) == (0, 0)


async def test_attention_counts_mentions_where_not_muted_until_they_are_read(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    shop = await api.create_group(alice, bob, carol, subBiz="shop")
    await api.send(alice, bob, mentions=[bob])
    for conversation in (group, shop):
        await api.send(alice, conversation, mentionAll=True)
        await api.send(alice, conversation, mentions=[bob, carol])
        await api.send(alice, conversation, mentions=[carol])
    for process in (api, other_api):
        assert await read_attention(process, bob) == (7, 5)
    await api.mute(bob, group)
    assert await read_attention(api, bob) == (4, 3)
    await api.mute(bob, "b_shop")
    assert await read_attention(api, bob) == (1, 1)
    await api.unmute(bob, group)
    assert await read_attention(other_api, bob) == (4, 3)
    await api.mark_read(bob, group, 1)
    assert await read_attention(other_api, bob) == (3, 2)
    await api.unmute(bob, "b_shop")
    await api.mute(bob, shop)
    assert await read_attention(api, bob) == (3, 2)
    await api.unmute(bob, shop)
    await api.send(bob, shop)
    assert await read_attention(api, bob) == (3, 2)
    await api.delete(bob, group)
    assert await read_attention(api, bob) == (1, 1)
    await api.mark_all_read(bob)
    assert await read_attention(api, bob) == (0, 0)
    assert await read_attention(api, carol) == (7, 6)
    await api.data(alice, "mutation ($id: ID!) { dismissGroup(groupId: $id) }", id=group)
    await api.wait_until_idle()
    assert await read_attention(api, carol) == (4, 3)


@pytest.mark.parametrize("is_read_before", [True, False], ids=["read before", "not read before"])
async def test_attention_survives_the_loss_of_the_cache(
    open_api: OpenApi, deployments: Deployments, is_read_before: bool
) -> None:
    async with open_api("attention") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        for seq in range(4):
            await api.send(alice, group, mentions=[bob] if seq % 2 else [])
            await api.send(alice, bob, mentions=[bob], subBiz="shop")
        await api.mark_read(bob, group, 2)
        if is_read_before:
            assert await read_attention(api, bob) == (6, 5)
        await api.wait_until_idle()
        deployments.flush_redis("attention")
        # The first answer comes from the state as MongoDB has it, the others from Redis.
        for _ in range(3):
            assert await read_attention(api, bob) == (6, 5)
        await api.send(alice, group, mentionAll=True)
        assert await read_attention(api, bob) == (7, 6)
        await api.mark_read(bob, private_id(alice, bob, "shop"))
        assert await read_attention(api, bob) == (3, 2)


async def test_a_cached_state_of_a_version_without_threads_is_loaded_again(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, mentions=[bob])
    assert await read_attention(api, bob) == (1, 1)
    store = api.services.app.store
    meta = store.keys.of_user(UserId(bob), "meta")
    await store.cache.run(
        [
            Call("HSET", (meta,), ("stored", 1)),
            Call("HDEL", (meta,), ("records",)),
        ]
    )
    assert await read_attention(api, bob) == (1, 1)
    # Earlier versions look at this field, and drop a state that does not have it.
    assert await store.cache.one(Call("HMGET", (meta,), ("stored", "records", "mentions"))) == [None, b"1", b"1"]
