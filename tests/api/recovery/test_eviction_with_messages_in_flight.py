"""Redis evicts keys of a conversation while messages are in flight: no place and no count is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.ids import ConversationId
from tests.api.client import Api, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.recovery.held_commits import HeldCommits
from tests.api.recovery.sample_conversation import GROUP, SampleConversation, check_counts, check_stored, evict


@pytest.mark.parametrize(
    "evicted",
    [
        pytest.param(("head",), marks=pytest.mark.long),
        pytest.param(("members",), marks=pytest.mark.long),
        ("head", "members"),
        ("loading",),
    ],
    ids="+".join,
)
async def test_in_flight_messages_keep_their_seq_and_count(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, evicted: tuple[str, ...]
) -> None:
    seq = "+".join(evicted)
    async with open_api(seq) as api:
        conversation = SampleConversation(api, "group")
        await conversation.create()
        alice, bob, carol, dave, erin = conversation.users
        (frank,) = await api.create_users("frank")
        for user in (erin, frank):
            await api.sessions(user)
        commits = HeldCommits(api, monkeypatch)
        commits.hold()
        tasks = [asyncio.create_task(api.send(alice, conversation.id, "before"))]
        await commits.wait_for(1)
        tasks.append(asyncio.create_task(api.invite(alice, conversation.id, erin)))
        await commits.wait_for(2)
        tasks.append(asyncio.create_task(api.send(bob, conversation.id, "before too")))
        await commits.wait_for(3)
        await evict(api, conversation.id, *evicted)
        tasks += [asyncio.create_task(api.send(user, conversation.id, "after")) for user in (carol, dave, bob)]
        await commits.wait_for(6)
        # The next change of the group waits for the one in flight.
        tasks.append(asyncio.create_task(api.invite(bob, conversation.id, frank)))
        await asyncio.sleep(0.05)
        assert len(commits.held) == 6
        commits.release()
        await asyncio.gather(*tasks)
        await api.wait_until_idle()
        assert await check_stored(api, conversation.id) == 13
        for _ in range(2):
            await check_counts(api, conversation.id, [*conversation.users, frank])
            group = (await api.data(alice, GROUP, id=conversation.id))["group"]
            assert group["memberCount"] == len(group["members"]["edges"]) == 6
            deployments.flush_redis(seq)


async def test_in_flight_messages_of_a_private_conversation_keep_their_seq(api: Api, commits: HeldCommits) -> None:
    conversation = SampleConversation(api, "private")
    await conversation.create()
    alice, bob, *_ = conversation.users
    commits.hold()
    tasks = []
    for number in range(4):
        tasks.append(asyncio.create_task(api.send((alice, bob)[number % 2], conversation.id)))
        await commits.wait_for(number + 1)
        if number == 0:
            await evict(api, conversation.id, "head")
    commits.release()
    sent = await asyncio.gather(*tasks)
    assert [payload["message"]["seq"] for payload in sent] == [6, 7, 8, 9]
    await api.wait_until_idle()
    assert await check_stored(api, conversation.id) == 9
    await check_counts(api, conversation.id, conversation.members)


async def test_in_flight_messages_of_other_conversations_are_not_counted(
    api: Api, commits: HeldCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All conversations share one outbox in this test."""
    keys = api.services.app.store.keys
    monkeypatch.setattr("store.redis.keys.partition_of", lambda _: 0)
    first, second = SampleConversation(api, "private"), SampleConversation(api, "private")
    for conversation in (first, second):
        await conversation.create()
    commits.hold()
    assert keys.conversation(ConversationId(first.id))[2] == keys.conversation(ConversationId(second.id))[2]
    tasks = [asyncio.create_task(api.send(first.users[0], first.id)) for _ in range(5)]
    await commits.wait_for(5)
    await evict(api, second.id, "head")
    tasks.append(asyncio.create_task(api.send(second.users[0], second.id, "alone")))
    await commits.wait_for(6)
    commits.release()
    sent = await asyncio.gather(*tasks)
    assert sent[-1]["message"]["seq"] == 6
    await api.wait_until_idle()
    for conversation in (first, second):
        await check_counts(api, conversation.id, conversation.members)


async def test_a_head_evicted_during_a_load_is_not_cached_stale(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages were committed and left the outbox after MongoDB was read."""
    conversation = SampleConversation(api, "group")
    await conversation.create()
    alice, bob, carol, *_ = conversation.users
    store = api.services.app.store
    message = (await api.send(alice, conversation.id))["message"]
    await api.wait_until_idle()
    read_mongo, reads = store.conversations._loader.read, 0

    async def read_and_evict(*args: Any) -> Any:
        nonlocal reads
        rows, members = await read_mongo(*args)
        reads += 1
        if reads == 1:
            # The rows as they were before that message.
            for row in rows.values():
                row |= {"s": row["s"] - 1, "n": row["n"] - 1, "newest": []}
            await evict(api, conversation.id, "head")
        return rows, members

    await evict(api, conversation.id, "members")
    monkeypatch.setattr(store.conversations._loader, "read", read_and_evict)
    sent = await gather_all(*(api.send(user, conversation.id) for user in (bob, carol)))
    assert reads == 2
    assert sorted(payload["message"]["seq"] for payload in sent) == [message["seq"] + 1, message["seq"] + 2]
    await api.wait_until_idle()
    assert await check_stored(api, conversation.id) == message["seq"] + 2
    await check_counts(api, conversation.id, conversation.members)
