"""Heads and memberships: loaded from MongoDB on a miss, and which copies of them stay valid."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import ConversationId, MessageId, UserId, group_id, partition_of, private_id
from store.conversations.conversation import Member
from store.conversations.group_change import ProposedChange
from store.conversations.group_info import GroupInfo
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.messages.outbox.places import Refusal
from store.messages.system_events import SystemEvent, SystemEventKind
from store.mongo.collections import CONVERSATIONS, MEMBERS
from store.redis.cache import Call
from store.store import Store
from tests.conftest import send_to_redis

ALICE, BOB, CAROL, DAVE = (UserId(name) for name in ("alice", "bob", "carol", "dave"))
UNKNOWN = private_id(ALICE, UserId("nobody"))
NOW = 1_795_000_000_000


async def _group(store: Store) -> ConversationId:
    conversation = group_id(store.ids.next())
    info = GroupInfo("hikers", None, ALICE, full_history=False, created_at_ms=NOW)
    members = [Member(user, "MEMBER", ((1, None),), NOW) for user in (ALICE, BOB, CAROL)]
    assert await store.groups.insert(conversation, info, members, None)
    return conversation


async def test_a_missing_conversation_does_not_hide_uncached_ones(store: Store) -> None:
    existing = [private_id(ALICE, BOB), private_id(ALICE, CAROL)]
    for conversation in existing:
        await store.conversations.open_private(conversation, NOW)
    heads = await store.conversations.find_many([existing[0], UNKNOWN, existing[1]])
    assert list(heads) == existing


async def test_a_missing_group_does_not_hide_uncached_memberships(store: Store) -> None:
    private, groups = private_id(ALICE, BOB), [await _group(store), await _group(store)]
    await store.conversations.open_private(private, NOW)
    wanted = [groups[0], UNKNOWN, group_id(store.ids.next()), private, groups[1]]
    trips = store.mongo.trips
    found = await store.conversations.find_with_member(ALICE, wanted)
    assert set(found) == {private, *groups}
    assert [found[group][1] is not None for group in groups] == [True, True]
    # A missing row is not looked up again: one query for the heads without members, and one for each group.
    assert store.mongo.trips - trips == 1 + 3


async def test_a_membership_of_unknown_version_is_never_served_from_memory(store: Store) -> None:
    group = await _group(store)
    message = Message(MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, "Alice added Dave")
    assert await store.conversations.list_recipients(group, "", 10) == [ALICE, BOB, CAROL]
    assert isinstance(await _reserve_join(store, message, DAVE), ReservedMessage)
    assert await store.conversations.list_recipients(group, "", 10) == [ALICE, BOB, CAROL, DAVE]


async def _reserve_join(store: Store, message: Message, user: UserId) -> ReservedMessage | Refusal:
    standing = await store.conversations.find_group_snapshot(message.conversation, [user])
    assert standing is not None
    return await store.outbox.reserve_change(message, standing.version, ProposedChange(joining=(user,)), announced=True)


async def test_of_concurrent_group_changes_one_is_made_and_the_next_waits(store: Store) -> None:
    group = await _group(store)
    first = Message(MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, "Alice added Dave")
    second = Message(MessageId(store.ids.next()), group, BOB, MessageKind.SYSTEM, "Bob added Dave")
    standing = await store.conversations.find_group_snapshot(group, [DAVE])
    assert standing is not None and standing.members == {}
    places = [
        await store.outbox.reserve_change(message, standing.version, ProposedChange(joining=(DAVE,)), announced=True)
        for message in (first, second)
    ]
    (made, refused) = places
    assert isinstance(made, ReservedMessage) and made.change is not None and made.change.joined == (DAVE,)
    assert refused is Refusal.BUSY
    assert await store.groups.commit(made, NOW) == NOW
    await store.cache.one(store.commits.newest_message_call(CommittedMessage(made, NOW)))
    assert (
        await store.outbox.reserve_change(second, standing.version, ProposedChange(joining=(DAVE,)), announced=True)
        is Refusal.OUTDATED
    )


async def test_a_pending_change_survives_the_eviction_of_head_and_members(store: Store) -> None:
    group = await _group(store)
    event = SystemEvent(SystemEventKind.MEMBERS_JOINED)
    message = Message(
        MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, "Alice added Dave", system_event=event
    )
    made = await _reserve_join(store, message, DAVE)
    assert isinstance(made, ReservedMessage)
    head, members, *_ = store.keys.conversation(group)
    await store.cache.one(Call("DEL", (head, members)))
    standing = await store.conversations.find_group_snapshot(group, [DAVE])
    assert standing is not None and standing.members == {
        DAVE: Member(DAVE, "MEMBER", ((1, None),), message.created_at_ms)
    }
    assert standing.head.member_count == 4
    refused = await store.outbox.reserve_change(
        message, standing.version, ProposedChange(leaving=(BOB,)), announced=True
    )
    assert refused is Refusal.BUSY
    (left,) = await store.outbox.list_waiting([partition_of(group)], -60_000, 10)
    assert (left.message, left.change) == (made.message, made.change)


async def test_a_change_of_a_group_that_is_not_in_mongodb_stores_nothing(store: Store) -> None:
    group = await _group(store)
    messages = [Message(MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, name) for name in "ab"]
    ahead = await _reserve_join(store, messages[0], DAVE)
    assert isinstance(ahead, ReservedMessage)
    # Redis loses its data, and gives the same seq and version to another change.
    send_to_redis(store.cache.url, "FLUSHALL")
    behind = await _reserve_join(store, messages[1], UserId("erin"))
    assert isinstance(behind, ReservedMessage)
    assert await store.groups.commit(behind, NOW) == NOW
    before = await store.mongo.find(MEMBERS, {}), await store.mongo.find(CONVERSATIONS, {})
    assert await store.groups.commit(ahead, NOW + 1) is None
    assert (await store.mongo.find(MEMBERS, {}), await store.mongo.find(CONVERSATIONS, {})) == before
    # Repeating a change that was made changes nothing, and returns the time when it was made.
    assert await store.groups.commit(behind, NOW + 2) == NOW
    assert [row["u"] for row in await store.mongo.find("messages", {"c": group})] == [ALICE]


async def test_a_message_that_took_a_used_seq_restarts_a_head_load(
    store: Store,
) -> None:
    conversation = private_id(ALICE, BOB)
    await store.conversations.open_private(conversation, NOW)
    read, reads = store.conversations._loader.read, 0

    async def reading(*args: Any) -> Any:
        nonlocal reads
        reads += 1
        found = await read(*args)
        if reads == 1:
            await store.conversations.drop(conversation, 1)
        return found

    store.conversations._loader.read = reading  # type: ignore[method-assign]
    assert await store.conversations.find(conversation) is not None
    assert reads == 2


async def test_a_message_committed_during_a_head_load_restarts_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = private_id(ALICE, BOB)
    await store.conversations.open_private(conversation, NOW)
    await store.conversations.find(conversation)
    message = Message(MessageId(store.ids.next()), conversation, ALICE, MessageKind.TEXT, "hello")
    reserved = await store.outbox.reserve(message)
    assert isinstance(reserved, ReservedMessage)
    await store.cache.one(Call("DEL", store.keys.conversation(conversation)[:1]))
    read, reads = store.conversations._loader.read, 0

    async def reading(*args: Any) -> Any:
        nonlocal reads
        reads += 1
        found = await read(*args)
        if reads == 1:
            (durable,), _ = await store.commits.commit([reserved], [NOW], messages_first=False)
            await store.cache.run([store.commits.newest_message_call(durable), store.outbox.clear_call(reserved)])
        return found

    monkeypatch.setattr(store.conversations._loader, "read", reading)
    head = await store.conversations.find(conversation)
    assert head is not None and head.newest is not None
    assert head.newest.id == message.id


@pytest.mark.parametrize(("stored", "expected"), [((0, 0), (2, 2)), ((5, 0), (6, 1))], ids=["new place", "taken place"])
async def test_seqs_in_the_outbox_count_unless_mongodb_has_other_messages(
    store: Store, stored: tuple[int, int], expected: tuple[int, int]
) -> None:
    """An outbox message at a seq that is taken gets another seq, and counts there."""
    conversation = private_id(ALICE, BOB)
    await store.conversations.open_private(conversation, NOW)
    await store.conversations.find(conversation)
    places = []
    for _ in range(2):
        message = Message(MessageId(store.ids.next()), conversation, ALICE, MessageKind.TEXT, "hello")
        reserved = await store.outbox.reserve(message)
        assert isinstance(reserved, ReservedMessage)
        places.append((reserved.message.seq, reserved.message.n))
        head = {"s": stored[0], "n": stored[1]}
        await store.mongo.update_one(CONVERSATIONS, {"_id": conversation}, {"$set": head})
        await store.cache.one(Call("DEL", store.keys.conversation(conversation)[:1]))
        await store.conversations.find(conversation)
    assert places == [(1, 1), expected]


async def test_a_user_who_left_during_the_member_load_is_no_member(store: Store) -> None:
    group = await _group(store)
    message = Message(MessageId(store.ids.next()), group, BOB, MessageKind.SYSTEM, "Bob left")
    standing = await store.conversations.find_group_snapshot(group, [BOB])
    assert standing is not None
    left = await store.outbox.reserve_change(message, standing.version, ProposedChange(leaving=(BOB,)), announced=True)
    assert isinstance(left, ReservedMessage)
    _, members, *_ = store.keys.conversation(group)
    await store.cache.one(Call("DEL", (members,)))
    read, reads = store.conversations._loader.read, 0

    async def reading(*args: Any) -> Any:
        nonlocal reads
        reads += 1
        found = await read(*args)
        if reads == 1:
            # The loaded head is older than a message that is committed, applied and removed from the outbox meanwhile.
            assert await store.groups.commit(left, NOW) == NOW
            await store.cache.run(
                [store.commits.newest_message_call(CommittedMessage(left, NOW)), store.outbox.clear_call(left)]
            )
        return found

    store.conversations._loader.read = reading  # type: ignore[method-assign]
    assert [m.user for m in await store.conversations.list_members(group) if m.is_current] == [ALICE, CAROL]
    assert reads == 2


async def test_a_known_membership_is_read_again_after_a_change(store: Store) -> None:
    group = await _group(store)

    async def membership(user: UserId) -> Member | None:
        found = await store.conversations.find_with_member(user, [group])
        return found[group][1] if group in found else None

    for _ in range(2):
        bob = await membership(BOB)
        assert bob is not None and bob.is_current
        assert await membership(DAVE) is None
    message = Message(MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, "Dave for Bob")
    standing = await store.conversations.find_group_snapshot(group, [BOB, DAVE])
    assert standing is not None
    change = ProposedChange(joining=(DAVE,), leaving=(BOB,))
    reserved = await store.outbox.reserve_change(message, standing.version, change, announced=True)
    assert isinstance(reserved, ReservedMessage)
    for _ in range(2):
        bob, dave = await membership(BOB), await membership(DAVE)
        assert bob is not None and not bob.is_current
        assert dave is not None and dave.is_current


async def test_a_known_membership_takes_one_round_trip(store: Store) -> None:
    groups = [await _group(store), await _group(store)]
    for _ in range(3):
        await store.conversations.find_with_member(ALICE, groups)
    trips = store.cache.trips
    found = await store.conversations.find_with_member(ALICE, groups)
    assert [found[group][1] is not None for group in groups] == [True, True]
    assert store.cache.trips - trips == 1


async def test_a_conversation_without_its_sessions_does_not_exist(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = private_id(ALICE, BOB)

    async def fail(*_: Any) -> int:
        raise Unreachable("MongoDB elects a primary")

    with monkeypatch.context() as patch:
        patch.setattr(store.mongo, "bulk_write", fail)
        with pytest.raises(Unreachable):
            await store.conversations.open_private(conversation, NOW)
    # Nobody would open a conversation that exists, and its sessions would be missing for ever.
    assert not await store.conversations.load((conversation,), with_members=True)
    await store.conversations.open_private(conversation, NOW)
    assert await store.conversations.load((conversation,), with_members=True)
    assert await store.sessions.find(BOB, conversation) is not None
