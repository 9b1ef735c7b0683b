"""Redis may evict any key of a conversation at any time: answers and counts stay the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from tests.api.client import (
    CREATE_GROUP,
    HISTORY,
    INVITE,
    MESSAGE,
    SEND,
    TIMEOUT_SECONDS,
    Api,
    Json,
    gather_all,
    message_input,
    private_id,
)
from tests.api.conftest import Deployments, OpenApi
from tests.api.session_calls import MARK_READ, SESSION

KEYS = ("head", "members", "outbox", "loading")

GROUP = f"""query ($id: ID!) {{ group(id: $id) {{ id title memberCount viewerRole visibleRanges {{ fromSeq toSeq }}
    owner {{ id }} session {{ {SESSION} }} lastMessage {{ {MESSAGE} }}
    members(first: 50) {{ edges {{ node {{ user {{ id }} role }} }} }} }} }}"""
CONVERSATION = f"query ($id: ID!) {{ conversation(id: $id) {{ __typename id title lastMessage {{ {MESSAGE} }} session {{ {SESSION} }} }} }}"
ONE_SESSION = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
LIST = f"{{ sessions(first: 50) {{ totalUnread edges {{ node {{ {SESSION} }} }} }} }}"
READS = {"messages": HISTORY, "conversation": CONVERSATION, "group": GROUP, "session": ONE_SESSION, "sessions": LIST}


async def evict(api: Api, conversation: str, *names: str) -> None:
    """Delete some keys of a conversation, whether they exist or not."""
    keys = dict(zip(KEYS, api.services.app.store.keys.conversation(ConversationId(conversation)), strict=True))
    await api.services.app.store.cache.one(Call("DEL", tuple(keys[name] for name in names)))


def expected_unread(messages: Sequence[Json], user: str, read_seq: int) -> int:
    """Return the unread count by counting the messages."""
    return sum(
        message["seq"] > read_seq and message["contentType"] != "SYSTEM" and message["sender"]["id"] != user
        for message in messages
    )


async def check_counts(api: Api, conversation: str, users: Iterable[str]) -> None:
    """Check that every user's unread count equals the number of unread messages, and writeSeq that of the newest message."""
    for user in users:
        messages = await api.history(user, conversation)
        session = await api.session(user, conversation)
        assert session is not None
        assert session["unreadCount"] == expected_unread(messages, user, session["readSeq"]), user
        assert session["writeSeq"] == messages[-1]["seq"], user


async def check_stored(api: Api, conversation: str) -> int:
    """Check that the stored messages have no gap in seq and the right n. Return their number."""
    messages = (await api.stored_documents())["messages"].values()
    rows = sorted((row for row in messages if row["c"] == conversation), key=lambda row: int(row["s"]))
    assert [row["s"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["n"] for row in rows] == list(accumulate(row["k"] != "S" for row in rows))
    return len(rows)


class SampleConversation:
    """A conversation with a few messages, in a group also a SYSTEM message."""

    def __init__(self, api: Api, kind: str) -> None:
        self.api = api
        self.kind = kind
        self.users: list[str] = []
        self.id = ""

    async def create(self) -> None:
        self.users = await self.api.create_users("alice", "bob", "carol", "dave", "erin")
        alice, bob, carol, dave, _ = self.users
        if self.kind == "private":
            self.id = private_id(alice, bob)
        else:
            self.id = await self.api.create_group(alice, bob, carol)
        for _ in range(3):
            await self.api.send(alice, bob if self.kind == "private" else self.id)
        await self.api.send(bob, self.id)
        if self.kind == "group":
            await self.api.invite(alice, self.id, dave)
        await self.api.send(alice, self.id, "newest")
        for user in self.members:
            await self.api.sessions(user)
        await self.api.wait_until_idle()

    @property
    def members(self) -> list[str]:
        return self.users[: 4 if self.kind == "group" else 2]


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
@pytest.mark.parametrize("read_mongo", READS)
async def test_reads_return_the_same_after_an_eviction(
    unchanging_conversation: SampleConversation, read_mongo: str, evicted: str
) -> None:
    alice, bob, _, dave, erin = unchanging_conversation.users
    for user in (alice, bob, dave, erin):
        variables = {} if read_mongo == "sessions" else {"id": unchanging_conversation.id}
        before = await unchanging_conversation.api.run(user, READS[read_mongo], **variables)
        await evict(unchanging_conversation.api, unchanging_conversation.id, evicted)
        assert await unchanging_conversation.api.run(user, READS[read_mongo], **variables) == before, user


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
    load, loads = store.conversations._load_batch, []

    async def load_and_evict(*args: Any, **options: Any) -> Any:
        result = await load(*args, **options)
        loads.append(args)
        if len(loads) % 3:
            await evict(api, conversation.id, evicted)
        return result

    monkeypatch.setattr(store.conversations, "_load_batch", load_and_evict)
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
    load = store.conversations._load_batch

    async def load_and_evict(*args: Any, **options: Any) -> Any:
        result = await load(*args, **options)
        await evict(api, conversation.id, "head", "members")
        return result

    monkeypatch.setattr(store.conversations, "_load_batch", load_and_evict)
    await evict(api, conversation.id, *KEYS)
    for query in (GROUP, CONVERSATION, HISTORY):
        assert (await api.expect_refusal(conversation.users[0], query, id=conversation.id)).code == "UNAVAILABLE"


class HeldCommits:
    """Holds back messages after their reservation, before they are stored."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        queue = api.services.app.delivery.commit_stage.queue
        self._push = queue.push
        self.held: list[Any] = []
        self.holds = False
        monkeypatch.setattr(queue, "push", self._hold)

    def _hold(self, messages: Any) -> None:
        if self.holds:
            self.held.append(messages)
        else:
            self._push(messages)

    def hold(self) -> None:
        self.holds = True

    async def wait_for(self, count: int) -> None:
        """Wait until this many messages are held."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self.held) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    def release(self) -> None:
        self.holds = False
        while self.held:
            self._push(self.held.pop(0))


@pytest.fixture
def commits(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldCommits]:
    held = HeldCommits(api, monkeypatch)
    yield held
    held.release()


@pytest.mark.parametrize("evicted", [("head",), ("members",), ("head", "members"), ("loading",)], ids="+".join)
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
    read_mongo, reads = store.conversations._read_mongo, 0

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
    monkeypatch.setattr(store.conversations, "_read_mongo", read_and_evict)
    sent = await gather_all(*(api.send(user, conversation.id) for user in (bob, carol)))
    assert reads == 2
    assert sorted(payload["message"]["seq"] for payload in sent) == [message["seq"] + 1, message["seq"] + 2]
    await api.wait_until_idle()
    assert await check_stored(api, conversation.id) == message["seq"] + 2
    await check_counts(api, conversation.id, conversation.members)
