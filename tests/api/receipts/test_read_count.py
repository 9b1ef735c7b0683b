"""readCount: the messages up to readSeq that count as unread until they are read."""

from __future__ import annotations

import pytest

from tests.api.client import Api, private_id
from tests.api.conftest import Deployments, OpenApi


async def read_counts(api: Api, user: str, conversation: str) -> tuple[int, int, int]:
    """Return readSeq, readCount and unreadCount."""
    session = await api.own_session(user, conversation)
    return session["readSeq"], session["readCount"], session["unreadCount"]


async def test_read_count_counts_messages_of_everybody_up_to_the_read_position(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for sender, to in ((alice, bob), (alice, bob), (bob, alice), (alice, bob), (alice, bob)):
        await api.send(sender, to)
    assert await read_counts(api, bob, conversation) == (3, 3, 2)
    assert (await api.mark_read(bob, conversation, 4))["readCount"] == 4
    assert await read_counts(api, bob, conversation) == (4, 4, 1)
    assert await read_counts(api, alice, conversation) == (5, 5, 0)


async def test_read_count_leaves_out_system_messages(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.invite(alice, group, dave)
    await api.send(alice, group)
    # Messages from before the user joined count as read, as in writeSeq.
    assert await read_counts(api, dave, group) == (2, 1, 1)
    assert await read_counts(api, carol, group) == (0, 0, 2)
    assert (await api.mark_read(carol, group, 2))["readCount"] == 1


@pytest.mark.parametrize("is_lost", [pytest.param(False, marks=pytest.mark.long), True], ids=["kept", "lost"])
async def test_a_deletion_moves_read_count_with_read_seq(
    open_api: OpenApi, deployments: Deployments, is_lost: bool
) -> None:
    async with open_api("deleted") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        for _ in range(3):
            await api.send(alice, group)
        await api.mark_read(bob, group, 1)
        deleted = await api.delete(bob, group)
        assert (deleted["readSeq"], deleted["readCount"], deleted["unreadCount"]) == (3, 3, 0)
        await api.send(alice, group)
        await api.data(alice, "mutation ($id: ID!) { deleteConversation(conversationId: $id) }", id=group)
        await api.wait_until_idle()
        if is_lost:
            deployments.flush_redis("deleted")
        # A group that has ended is read to its end.
        for user in (bob, carol):
            assert await read_counts(api, user, group) == (4, 4, 0)
