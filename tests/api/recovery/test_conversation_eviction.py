"""Redis may evict any key of a conversation at any time: answers and counts stay what they are."""

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
    """Deletes keys of a conversation, and nothing else. None of them needs to be there."""
    keys = dict(zip(KEYS, api.services.app.store.keys.conversation(ConversationId(conversation)), strict=True))
    await api.services.app.store.cache.one(Call("DEL", tuple(keys[name] for name in names)))


def expected_unread(messages: Sequence[Json], user: str, read_seq: int) -> int:
    """What counting gives."""
    return sum(
        message["seq"] > read_seq and message["contentType"] != "SYSTEM" and message["sender"]["id"] != user
        for message in messages
    )


async def check_counts(api: Api, conversation: str, users: Iterable[str]) -> None:
    """I3 for one conversation of each user's, and that everybody's write position is the newest message's."""
    for user in users:
        messages = await api.history(user, conversation)
        session = await api.session(user, conversation)
        assert session is not None
        assert session["unreadCount"] == expected_unread(messages, user, session["readSeq"]), user
        assert session["writeSeq"] == messages[-1]["seq"], user


async def check_stored(api: Api, conversation: str) -> int:
    """Places without a hole, each with the number of countable messages up to it. Answers how many."""
    messages = (await api.stored_documents())["messages"].values()
    rows = sorted((row for row in messages if row["c"] == conversation), key=lambda row: int(row["s"]))
    assert [row["s"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["n"] for row in rows] == list(accumulate(row["k"] != "S" for row in rows))
    return len(rows)


class Talk:
    """A conversation with a few messages of both kinds."""

    def __init__(self, api: Api, kind: str) -> None:
        self.api = api
        self.kind = kind
        self.people: list[str] = []
        self.id = ""

    async def begin(self) -> None:
        self.people = await self.api.create_users("alice", "bob", "carol", "dave", "erin")
        alice, bob, carol, dave, _ = self.people
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
        return self.people[: 4 if self.kind == "group" else 2]


@pytest.fixture(params=["group", "private"])
async def talk(api: Api, request: pytest.FixtureRequest) -> Talk:
    begun = Talk(api, request.param)
    await begun.begin()
    return begun


@pytest.fixture(scope="module", params=["group", "private"])
async def quiet_talk(process: Api, request: pytest.FixtureRequest) -> Talk:
    """For tests that change nothing."""
    begun = Talk(process, request.param)
    await begun.begin()
    return begun


@pytest.mark.parametrize("evicted", KEYS)
@pytest.mark.parametrize("read", READS)
async def test_what_is_read_stays_the_same(quiet_talk: Talk, read: str, evicted: str) -> None:
    alice, bob, _, dave, erin = quiet_talk.people
    for user in (alice, bob, dave, erin):
        variables = {} if read == "sessions" else {"id": quiet_talk.id}
        before = await quiet_talk.api.run(user, READS[read], **variables)
        await evict(quiet_talk.api, quiet_talk.id, evicted)
        assert await quiet_talk.api.run(user, READS[read], **variables) == before, user


@pytest.mark.parametrize("evicted", KEYS)
async def test_a_message_takes_the_next_place_and_counts(talk: Talk, evicted: str) -> None:
    api, bob = talk.api, talk.people[1]
    listener = await api.listen(talk.people[0])
    for number in range(3):
        await evict(api, talk.id, evicted)
        mentions = talk.members if talk.kind == "group" else [talk.people[0]]
        sent = (await api.data(bob, SEND, input=message_input(talk.id, mentions=mentions)))["sendMessage"]
        place = (7 if talk.kind == "group" else 6) + number
        assert (sent["message"]["seq"], sent["session"]["writeSeq"]) == (place, place)
        event = await listener.next()
        # Sending reads, which whoever wrote what it covers is told.
        event = event if event["__typename"] == "MessageCreated" else await listener.next()
        assert event["message"] == sent["message"]
        await api.wait_until_idle()
        listener.pop_events()
    await check_counts(api, talk.id, talk.members)


@pytest.mark.parametrize("evicted", KEYS)
async def test_who_may_not_write_is_told_the_same(quiet_talk: Talk, evicted: str) -> None:
    erin = quiet_talk.people[4]
    await evict(quiet_talk.api, quiet_talk.id, evicted)
    assert (await quiet_talk.api.expect_send_refusal(erin, quiet_talk.id)).code == "NOT_FOUND"
    if quiet_talk.kind == "group":
        await evict(quiet_talk.api, quiet_talk.id, evicted)
        refusal = await quiet_talk.api.expect_send_refusal(quiet_talk.people[1], quiet_talk.id, mentions=[erin])
        assert (refusal.code, refusal.field) == ("INVALID_INPUT", "mentions")


@pytest.mark.parametrize("evicted", KEYS)
async def test_reading_clears_and_tells_the_sender(talk: Talk, evicted: str) -> None:
    api, (alice, bob, *_) = talk.api, talk.people
    listener = await api.listen(alice)
    await evict(api, talk.id, evicted)
    session = (await api.data(bob, MARK_READ, id=talk.id, seq=None))["markRead"]
    assert (session["unreadCount"], session["readSeq"]) == (0, session["writeSeq"])
    assert session["lastMessage"]["content"] == "newest"
    assert (await listener.next())["seq"] == session["readSeq"]


@pytest.mark.parametrize("evicted", KEYS)
async def test_who_is_invited_joins(api: Api, evicted: str) -> None:
    talk = Talk(api, "group")
    await talk.begin()
    erin = talk.people[4]
    await evict(api, talk.id, evicted)
    bob = talk.people[1]
    assert (await api.data(bob, INVITE, id=talk.id, users=[erin]))["inviteMembers"]["memberCount"] == 5
    await evict(api, talk.id, evicted)
    assert [message["seq"] for message in await api.history(erin, talk.id)] == [7]
    assert (await api.send(erin, talk.id))["message"]["seq"] == 8
    await check_counts(api, talk.id, talk.people)


@pytest.mark.parametrize("evicted", KEYS)
async def test_the_same_key_still_stands_for_the_group_that_was_made(api: Api, evicted: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    fields = {"name": "Group", "memberIds": [bob, carol], "idempotencyKey": "k"}
    made = await api.data(alice, CREATE_GROUP, input=fields)
    await evict(api, made["createGroup"]["id"], evicted)
    assert await api.data(alice, CREATE_GROUP, input=fields) == made


# --- evicted while somebody looks


@pytest.mark.parametrize("evicted", ["head", "members"])
async def test_what_vanishes_between_its_loading_and_its_reading_is_loaded_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, evicted: str
) -> None:
    talk = Talk(api, "group")
    await talk.begin()
    store = api.services.app.store
    conversation = ConversationId(talk.id)
    members = await store.conversations.list_members(conversation)
    heads = await store.conversations.find_with_member(members[0].user, [conversation])
    await evict(api, talk.id, *KEYS)
    load, loads = store.conversations._loader._load_batch, []

    async def loading(*args: Any, **options: Any) -> Any:
        found = await load(*args, **options)
        loads.append(args)
        if len(loads) % 3:
            await evict(api, talk.id, evicted)
        return found

    monkeypatch.setattr(store.conversations._loader, "_load_batch", loading)
    assert await store.conversations.list_members(conversation) == members
    await evict(api, talk.id, *KEYS)
    loads.clear()
    assert await store.conversations.find_with_member(members[0].user, [conversation]) == heads
    await evict(api, talk.id, *KEYS)
    loads.clear()
    assert await store.conversations.find(conversation) == heads[conversation][0]


async def test_a_cache_that_keeps_nothing_is_no_conversation_that_does_not_exist(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Talk(api, "group")
    await talk.begin()
    store = api.services.app.store
    load = store.conversations._loader._load_batch

    async def loading(*args: Any, **options: Any) -> Any:
        found = await load(*args, **options)
        await evict(api, talk.id, "head", "members")
        return found

    monkeypatch.setattr(store.conversations._loader, "_load_batch", loading)
    await evict(api, talk.id, *KEYS)
    for query in (GROUP, CONVERSATION, HISTORY):
        assert (await api.expect_refusal(talk.people[0], query, id=talk.id)).code == "UNAVAILABLE"


# --- evicted while messages have a place and are not durable


class Commits:
    """Holds messages back that have a place, before they are stored."""

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

    async def reach(self, count: int) -> None:
        """Waits until so many are held."""
        async with asyncio.timeout(5):
            while len(self.held) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    def release(self) -> None:
        self.holds = False
        while self.held:
            self._push(self.held.pop(0))


@pytest.fixture
def commits(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    held = Commits(api, monkeypatch)
    yield held
    held.release()


@pytest.mark.parametrize("evicted", [("head",), ("members",), ("head", "members"), ("loading",)], ids="+".join)
async def test_messages_under_way_keep_their_places_and_count(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, evicted: tuple[str, ...]
) -> None:
    place = "+".join(evicted)
    async with open_api(place) as api:
        talk = Talk(api, "group")
        await talk.begin()
        alice, bob, carol, dave, erin = talk.people
        (frank,) = await api.create_users("frank")
        for user in (erin, frank):
            await api.sessions(user)
        commits = Commits(api, monkeypatch)
        commits.hold()
        under_way = [asyncio.create_task(api.send(alice, talk.id, "before"))]
        await commits.reach(1)
        under_way.append(asyncio.create_task(api.invite(alice, talk.id, erin)))
        await commits.reach(2)
        under_way.append(asyncio.create_task(api.send(bob, talk.id, "before too")))
        await commits.reach(3)
        await evict(api, talk.id, *evicted)
        under_way += [asyncio.create_task(api.send(user, talk.id, "after")) for user in (carol, dave, bob)]
        await commits.reach(6)
        # The next change of the group waits for the one that is under way.
        under_way.append(asyncio.create_task(api.invite(bob, talk.id, frank)))
        await asyncio.sleep(0.05)
        assert len(commits.held) == 6
        commits.release()
        await asyncio.gather(*under_way)
        await api.wait_until_idle()
        assert await check_stored(api, talk.id) == 13
        for _ in range(2):
            await check_counts(api, talk.id, [*talk.people, frank])
            group = (await api.data(alice, GROUP, id=talk.id))["group"]
            assert group["memberCount"] == len(group["members"]["edges"]) == 6
            deployments.flush_redis(place)


async def test_a_private_conversations_messages_under_way_keep_their_places(api: Api, commits: Commits) -> None:
    talk = Talk(api, "private")
    await talk.begin()
    alice, bob, *_ = talk.people
    commits.hold()
    under_way = []
    for number in range(4):
        under_way.append(asyncio.create_task(api.send((alice, bob)[number % 2], talk.id)))
        await commits.reach(number + 1)
        if number == 0:
            await evict(api, talk.id, "head")
    commits.release()
    sent = await asyncio.gather(*under_way)
    assert [payload["message"]["seq"] for payload in sent] == [6, 7, 8, 9]
    await api.wait_until_idle()
    assert await check_stored(api, talk.id) == 9
    await check_counts(api, talk.id, talk.members)


async def test_another_conversations_messages_under_way_are_not_counted(
    api: Api, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outboxes are shared: here all conversations have one."""
    keys = api.services.app.store.keys
    monkeypatch.setattr("store.redis.keys.partition_of", lambda _: 0)
    one, other = Talk(api, "private"), Talk(api, "private")
    for talk in (one, other):
        await talk.begin()
    commits.hold()
    assert keys.conversation(ConversationId(one.id))[2] == keys.conversation(ConversationId(other.id))[2]
    under_way = [asyncio.create_task(api.send(one.people[0], one.id)) for _ in range(5)]
    await commits.reach(5)
    await evict(api, other.id, "head")
    under_way.append(asyncio.create_task(api.send(other.people[0], other.id, "alone")))
    await commits.reach(6)
    commits.release()
    sent = await asyncio.gather(*under_way)
    assert sent[-1]["message"]["seq"] == 6
    await api.wait_until_idle()
    for talk in (one, other):
        await check_counts(api, talk.id, talk.members)


async def test_a_head_that_goes_while_the_members_are_loaded_is_not_stored_as_it_was(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages became durable, and left the outbox, after MongoDB was read."""
    talk = Talk(api, "group")
    await talk.begin()
    alice, bob, carol, *_ = talk.people
    store = api.services.app.store
    message = (await api.send(alice, talk.id))["message"]
    await api.wait_until_idle()
    read, reads = store.conversations._loader._read_mongo, 0

    async def reading(*args: Any) -> Any:
        nonlocal reads
        rows, members = await read(*args)
        reads += 1
        if reads == 1:
            # As it was before that message.
            for row in rows.values():
                row |= {"s": row["s"] - 1, "n": row["n"] - 1, "newest": []}
            await evict(api, talk.id, "head")
        return rows, members

    await evict(api, talk.id, "members")
    monkeypatch.setattr(store.conversations._loader, "_read_mongo", reading)
    sent = await gather_all(*(api.send(user, talk.id) for user in (bob, carol)))
    assert reads == 2
    assert sorted(payload["message"]["seq"] for payload in sent) == [message["seq"] + 1, message["seq"] + 2]
    await api.wait_until_idle()
    assert await check_stored(api, talk.id) == message["seq"] + 2
    await check_counts(api, talk.id, talk.members)
