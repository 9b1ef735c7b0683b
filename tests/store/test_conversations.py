"""Heads and memberships: read from MongoDB on a miss, and by whom they are kept."""

from __future__ import annotations

from store.ids import ConversationId, MessageId, UserId, group_id, private_id
from store.records import GroupInfo, Member, Message, MessageKind, Reserved
from store.store import Store

ALICE, BOB, CAROL, DAVE = (UserId(name) for name in ("alice", "bob", "carol", "dave"))
UNKNOWN = private_id(ALICE, UserId("nobody"))
NOW = 1_795_000_000_000


async def _group(store: Store) -> ConversationId:
    conversation = group_id(store.ids.next())
    info = GroupInfo("hikers", None, ALICE, full_history=False, created_at_ms=NOW)
    members = [Member(user, "MEMBER", ((1, None),), NOW) for user in (ALICE, BOB, CAROL)]
    assert await store.groups.insert(conversation, info, members, None)
    return conversation


async def test_one_that_does_not_exist_hides_none_of_those_that_are_not_cached(store: Store) -> None:
    existing = [private_id(ALICE, BOB), private_id(ALICE, CAROL)]
    for conversation in existing:
        await store.conversations.open_private(conversation, NOW)
    heads = await store.conversations.find_many([existing[0], UNKNOWN, existing[1]])
    assert list(heads) == existing


async def test_that_holds_for_groups_with_ones_membership(store: Store) -> None:
    private, groups = private_id(ALICE, BOB), [await _group(store), await _group(store)]
    await store.conversations.open_private(private, NOW)
    wanted = [groups[0], UNKNOWN, group_id(store.ids.next()), private, groups[1]]
    trips = store.mongo.trips
    found = await store.conversations.find_with_member(ALICE, wanted)
    assert set(found) == {private, *groups}
    assert [found[group][1] is not None for group in groups] == [True, True]
    # What was not there is not looked for again: once for the heads without members, and once for each group.
    assert store.mongo.trips - trips == 1 + 3


async def test_a_membership_of_unknown_version_is_never_taken_from_memory(store: Store) -> None:
    group = await _group(store)
    message = Message(MessageId(store.ids.next()), group, ALICE, MessageKind.SYSTEM, "Alice added Dave")
    assert await store.conversations.list_recipients(group, "", 10) == [ALICE, BOB, CAROL]
    assert isinstance(await store.messages.reserve_join(message, [DAVE], limit=9, now_ms=NOW), Reserved)
    assert await store.conversations.list_recipients(group, "", 10) == [ALICE, BOB, CAROL, DAVE]
