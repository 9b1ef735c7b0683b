"""Group changes that finish late, get lost, or are overtaken by a Redis that lost them."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, MessageId, UserId, group_id
from store.conversations.conversation import Member
from store.conversations.group_change import GroupEnd, ProposedChange
from store.conversations.group_info import GroupInfo
from store.messages.message import CommittedMessage, Message, MessageKind, ReservedMessage
from store.messages.outbox.places import Refusal
from store.mongo.collections import CONVERSATIONS, MEMBERS
from store.redis.cache import Call
from store.store import Store

ALICE, BOB, CAROL, DAVE = (UserId(name) for name in ("alice", "bob", "carol", "dave"))
NOW = 1_795_000_000_000

DAVE_JOINS = ProposedChange(joining=(DAVE,))
BOB_LEAVES = ProposedChange(leaving=(BOB,))


@pytest.fixture
async def group(store: Store) -> ConversationId:
    conversation = group_id(store.ids.next())
    info = GroupInfo("hikers", None, ALICE, full_history=False, created_at_ms=NOW)
    members = [Member(user, "MEMBER", ((1, None),), NOW) for user in (ALICE, BOB, CAROL)]
    assert await store.groups.insert(conversation, info, members, None)
    return conversation


async def _reserve(
    store: Store,
    group: ConversationId,
    change: ProposedChange,
    *,
    announced: bool = True,
) -> ReservedMessage | Refusal:
    standing = await store.conversations.find_group_snapshot(group, [DAVE])
    assert standing is not None
    message = Message(MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, "something happened")
    return await store.outbox.reserve_change(message, standing.version, change, announced=announced)


async def _reserved(
    store: Store,
    group: ConversationId,
    change: ProposedChange,
    *,
    announced: bool = True,
) -> ReservedMessage:
    place = await _reserve(store, group, change, announced=announced)
    assert isinstance(place, ReservedMessage)
    return place


async def _lose(store: Store, group: ConversationId, *which: int) -> None:
    """Delete keys as an eviction does: 0 head, 1 members, 2 outbox."""
    keys = store.keys.conversation(group)
    await store.cache.one(Call("DEL", tuple(keys[i] for i in which)))


async def test_a_change_is_known_as_made_after_any_later_change(store: Store, group: ConversationId) -> None:
    first = await _reserved(store, group, DAVE_JOINS)
    assert await store.groups.commit(first, NOW + 1) == NOW + 1
    # Its server died before the fan-out, and the head that made the next change wait was evicted.
    await _lose(store, group, 0, 1)
    second = await _reserved(store, group, BOB_LEAVES)
    assert await store.groups.commit(second, NOW + 2) == NOW + 2
    assert await store.groups.commit(first, NOW + 3) == NOW + 1
    assert await store.groups.commit(second, NOW + 4) == NOW + 2


async def test_a_change_lost_from_the_outbox_blocks_nothing_and_does_not_count(
    store: Store, group: ConversationId
) -> None:
    lost = await _reserved(store, group, DAVE_JOINS)
    assert await _reserve(store, group, BOB_LEAVES) is Refusal.BUSY
    await _lose(store, group, 2)
    assert await _reserve(store, group, BOB_LEAVES) is Refusal.NOT_LOADED
    standing = await store.conversations.find_group_snapshot(group, [BOB, DAVE])
    assert standing is not None and set(standing.members) == {BOB}
    made = await _reserved(store, group, BOB_LEAVES)
    assert await store.groups.commit(made, NOW + 1) == NOW + 1
    # The pending change is refused, so that it is decided again.
    assert await store.groups.commit(lost, NOW + 2) is None
    assert await store.mongo.find(MEMBERS, {"_id": f"{group} {DAVE}"}) == []


async def test_a_member_by_a_lost_change_may_not_write(store: Store, group: ConversationId) -> None:
    await _reserved(store, group, DAVE_JOINS)
    await _lose(store, group, 2)
    message = Message(MessageId(store.ids.next()), group, DAVE, MessageKind.TEXT, "I am in")
    assert await store.outbox.reserve(message) is Refusal.NOT_LOADED
    await store.conversations.load((group,), with_members=True)
    assert await store.outbox.reserve(message) is Refusal.NOT_A_MEMBER


@pytest.mark.parametrize("how", list(GroupEnd))
async def test_a_group_does_not_end_before_an_acknowledged_message(
    store: Store, group: ConversationId, how: GroupEnd
) -> None:
    end = await _reserved(store, group, ProposedChange(fields={"end": how}), announced=False)
    # Redis loses the mark that the group is about to end.
    await _lose(store, group, 0, 1, 2)
    await store.conversations.load((group,), with_members=True)
    message = await store.outbox.reserve(Message(MessageId(store.ids.next()), group, BOB, MessageKind.TEXT, "hello"))
    assert isinstance(message, ReservedMessage)
    await store.commits.commit([message], [NOW], messages_first=False)
    assert await store.groups.commit(end, NOW + 1) is None
    (head,) = await store.mongo.find(CONVERSATIONS, {"_id": group})
    assert (head["s"], head.get("st")) == (1, None)
    again = await _reserved(store, group, ProposedChange(fields={"end": how}), announced=False)
    assert await store.groups.commit(again, NOW + 2) == NOW + 2
    await store.cache.one(store.commits.newest_message_call(CommittedMessage(again, NOW + 2)))
    (head,) = await store.mongo.find(CONVERSATIONS, {"_id": group})
    assert (head["ds"], head["st"]) == (1, how)


async def test_the_next_change_waits_for_the_commit_and_not_for_the_fanout(store: Store, group: ConversationId) -> None:
    first = await _reserved(store, group, DAVE_JOINS)
    assert await store.groups.commit(first, NOW + 1) == NOW + 1
    assert await _reserve(store, group, BOB_LEAVES) is Refusal.BUSY
    await store.cache.one(store.commits.newest_message_call(CommittedMessage(first, NOW + 1)))
    second = await _reserved(store, group, BOB_LEAVES)
    assert await store.groups.commit(second, NOW + 2) == NOW + 2


@pytest.mark.parametrize("lost", [(0, 1), (1,)], ids=["all of it", "its members"])
async def test_a_pending_change_survives_a_reload_of_the_group(
    store: Store, group: ConversationId, lost: tuple[int, ...]
) -> None:
    made = await _reserved(store, group, BOB_LEAVES)
    await _lose(store, group, *lost)
    await store.conversations.load((group,), with_members=True)
    message = Message(MessageId(store.ids.next()), group, BOB, MessageKind.TEXT, "still here")
    assert await store.outbox.reserve(message) is Refusal.FORMER_MEMBER
    assert await _reserve(store, group, ProposedChange(leaving=(CAROL,))) is Refusal.BUSY
    assert await store.groups.commit(made, NOW + 1) == NOW + 1
