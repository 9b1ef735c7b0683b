"""Redis may evict any key of a conversation at any time: answers and counts stay the same."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import ConversationId
from tests.api.client import (
    CREATE_GROUP,
    HISTORY,
    INVITE,
    MESSAGE,
    SEND,
    Api,
    message_input,
)
from tests.api.recovery.sample_conversation import GROUP, KEYS, SampleConversation, check_counts, evict
from tests.api.session_calls import MARK_READ, SESSION

CONVERSATION = (
    f"query ($id: ID!) {{ conversation(id: $id) {{ __typename id title lastMessage {{ {MESSAGE} "
    f"}} session {{ {SESSION} }} }} }}"
)
ONE_SESSION = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
LIST = f"{{ sessions(first: 50) {{ totalUnread edges {{ node {{ {SESSION} }} }} }} }}"
READS = {"messages": HISTORY, "conversation": CONVERSATION, "group": GROUP, "session": ONE_SESSION, "sessions": LIST}


@pytest.fixture(params=["group", "private"])
async def conversation(api: Api, request: pytest.FixtureRequest) -> SampleConversation:
    sample = SampleConversation(api, request.param)
    await sample.create()
    return sample


@pytest.fixture(scope="module", params=["group", "private"])
async def unchanging_conversation(process: Api, request: pytest.FixtureRequest) -> SampleConversation:
    """A conversation for tests that change nothing."""
    sample = SampleConversation(process, request.param)
    await sample.create()
    return sample


@pytest.mark.parametrize("evicted", KEYS)
@pytest.mark.parametrize("read", READS)
async def test_reads_return_the_same_after_an_eviction(
    unchanging_conversation: SampleConversation, read: str, evicted: str
) -> None:
    alice, bob, _, dave, erin = unchanging_conversation.users
    for user in (alice, bob, dave, erin):
        variables = {} if read == "sessions" else {"id": unchanging_conversation.id}
        before = await unchanging_conversation.api.run(user, READS[read], **variables)
        await evict(unchanging_conversation.api, unchanging_conversation.id, evicted)
        assert await unchanging_conversation.api.run(user, READS[read], **variables) == before, user


@pytest.mark.parametrize("evicted", KEYS)
async def test_messages_after_an_eviction_take_the_next_seq_and_count(
    conversation: SampleConversation, evicted: str
) -> None:
    api, bob = conversation.api, conversation.users[1]
    listener = await api.listen(conversation.users[0])
    for number in range(3):
        await evict(api, conversation.id, evicted)
        mentions = conversation.members if conversation.kind == "group" else [conversation.users[0]]
        sent = (await api.data(bob, SEND, input=message_input(conversation.id, mentions=mentions)))["sendMessage"]
        seq = (7 if conversation.kind == "group" else 6) + number
        assert (sent["message"]["seq"], sent["session"]["writeSeq"]) == (seq, seq)
        event = await listener.next()
        # Sending also reads, so the authors of the read messages receive a receipt.
        event = event if event["__typename"] == "MessageCreated" else await listener.next()
        assert event["message"] == sent["message"]
        await api.wait_until_idle()
        listener.pop_events()
    await check_counts(api, conversation.id, conversation.members)


@pytest.mark.parametrize("evicted", KEYS)
async def test_refusals_are_the_same_after_an_eviction(
    unchanging_conversation: SampleConversation, evicted: str
) -> None:
    erin = unchanging_conversation.users[4]
    await evict(unchanging_conversation.api, unchanging_conversation.id, evicted)
    assert (await unchanging_conversation.api.expect_send_refusal(erin, unchanging_conversation.id)).code == "NOT_FOUND"
    if unchanging_conversation.kind == "group":
        await evict(unchanging_conversation.api, unchanging_conversation.id, evicted)
        refusal = await unchanging_conversation.api.expect_send_refusal(
            unchanging_conversation.users[1], unchanging_conversation.id, mentions=[erin]
        )
        assert (refusal.code, refusal.field) == ("INVALID_INPUT", "mentions")


@pytest.mark.parametrize("evicted", KEYS)
async def test_reading_after_an_eviction_clears_counts_and_sends_receipts(
    conversation: SampleConversation, evicted: str
) -> None:
    api, (alice, bob, *_) = conversation.api, conversation.users
    listener = await api.listen(alice)
    await evict(api, conversation.id, evicted)
    session = (await api.data(bob, MARK_READ, id=conversation.id, seq=None))["markRead"]
    assert (session["unreadCount"], session["readSeq"]) == (0, session["writeSeq"])
    assert session["lastMessage"]["content"] == "newest"
    assert (await listener.next())["seq"] == session["readSeq"]


@pytest.mark.parametrize("evicted", KEYS)
async def test_invitations_work_after_an_eviction(api: Api, evicted: str) -> None:
    conversation = SampleConversation(api, "group")
    await conversation.create()
    erin = conversation.users[4]
    await evict(api, conversation.id, evicted)
    bob = conversation.users[1]
    assert (await api.data(bob, INVITE, id=conversation.id, users=[erin]))["inviteMembers"]["memberCount"] == 5
    await evict(api, conversation.id, evicted)
    assert [message["seq"] for message in await api.history(erin, conversation.id)] == [7]
    assert (await api.send(erin, conversation.id))["message"]["seq"] == 8
    await check_counts(api, conversation.id, conversation.users)


@pytest.mark.parametrize("evicted", KEYS)
async def test_the_key_of_create_group_works_after_an_eviction(api: Api, evicted: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    fields = {"name": "Group", "memberIds": [bob, carol], "idempotencyKey": "k"}
    created = await api.data(alice, CREATE_GROUP, input=fields)
    await evict(api, created["createGroup"]["id"], evicted)
    assert await api.data(alice, CREATE_GROUP, input=fields) == created


@pytest.mark.parametrize("evicted", ["head", "members"])
async def test_keys_evicted_between_load_and_read_are_loaded_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, evicted: str
) -> None:
    conversation = SampleConversation(api, "group")
    await conversation.create()
    store = api.services.app.store
    conversation_id = ConversationId(conversation.id)
    members = await store.conversations.list_members(conversation_id)
    heads = await store.conversations.find_with_member(members[0].user, [conversation_id])
    await evict(api, conversation.id, *KEYS)
    load, loads = store.conversations._loader._load_batch, []

    async def load_and_evict(*args: Any, **options: Any) -> Any:
        result = await load(*args, **options)
        loads.append(args)
        if len(loads) % 3:
            await evict(api, conversation.id, evicted)
        return result

    monkeypatch.setattr(store.conversations._loader, "_load_batch", load_and_evict)
    assert await store.conversations.list_members(conversation_id) == members
    await evict(api, conversation.id, *KEYS)
    loads.clear()
    assert await store.conversations.find_with_member(members[0].user, [conversation_id]) == heads
    await evict(api, conversation.id, *KEYS)
    loads.clear()
    assert await store.conversations.find(conversation_id) == heads[conversation_id][0]


async def test_permanent_eviction_is_unavailable_and_not_a_missing_conversation(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = SampleConversation(api, "group")
    await conversation.create()
    store = api.services.app.store
    load = store.conversations._loader._load_batch

    async def load_and_evict(*args: Any, **options: Any) -> Any:
        result = await load(*args, **options)
        await evict(api, conversation.id, "head", "members")
        return result

    monkeypatch.setattr(store.conversations._loader, "_load_batch", load_and_evict)
    await evict(api, conversation.id, *KEYS)
    for query in (GROUP, CONVERSATION, HISTORY):
        assert (await api.expect_refusal(conversation.users[0], query, id=conversation.id)).code == "UNAVAILABLE"
