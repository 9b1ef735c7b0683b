"""Groups with more members than are served before the sender has the answer, and than receive receipts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from subscriptions.delivery import large_group_stage
from tests.api.client import CREATE_GROUP, INVITE, LIVE_SESSIONS, Api, Refusal, wait_until
from tests.api.conftest import HeldLargeGroupQueue, OpenApi

SIZE = 450
MEMBERS = """query ($id: ID!, $after: String) { group(id: $id) { memberCount members(first: 100, after: $after) {
    pageInfo { hasNextPage endCursor } edges { node { user { id } } } } } }"""


@dataclass(frozen=True)
class LargeGroup:
    api: Api
    members: list[str]
    group: str


@pytest.fixture(scope="module")
async def large_group(process: Api) -> LargeGroup:
    (prefix,) = await process.create_users("crowd")
    members = await process.create_many_users(prefix, SIZE)
    return LargeGroup(process, members, await process.create_group(*members))


async def test_the_sender_waits_only_for_the_first_recipients(
    large_group: LargeGroup, api: Api, held_queue: HeldLargeGroupQueue
) -> None:
    sender, early, late = large_group.members[0], large_group.members[1], large_group.members[-1]
    sampled = [user for user in large_group.members[:: SIZE // 9] if user != sender]
    before = {user: await api.unread(user, large_group.group) for user in (early, late, *sampled)}
    early_listener, late_listener = await api.listen(early), await api.listen(late)
    sent = (await api.send(sender, large_group.group, "to all"))["message"]
    assert await api.unread(early, large_group.group) == before[early] + 1
    assert await api.unread(late, large_group.group) == before[late]
    assert (await early_listener.next())["message"] == sent
    await late_listener.expect_no_event(0.03)
    held_queue.release()
    assert (await late_listener.next())["message"] == sent

    async def all_counted() -> bool:
        return all([await api.unread(user, large_group.group) == count + 1 for user, count in before.items()])

    await wait_until(all_counted)
    await late_listener.expect_no_event(0.03)
    assert early_listener.pop_events() == []


async def test_the_first_recipients_do_not_depend_on_the_sender(
    large_group: LargeGroup, api: Api, held_queue: HeldLargeGroupQueue
) -> None:
    listeners = [await api.listen(large_group.members[number]) for number in (198, 199)]
    sent = [(await api.send(large_group.members[number], large_group.group))["message"] for number in (-1, 0)]
    assert [await listeners[0].next() for _ in sent]
    await listeners[1].expect_no_event(0.03)
    held_queue.release()
    assert [(await listeners[1].next())["message"] for _ in sent] == sent


async def test_recipients_of_later_slices_receive_messages_in_order(
    large_group: LargeGroup, api: Api, held_queue: HeldLargeGroupQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message counts its recipients from its sender on, so the slices of two messages end at different ones."""
    monkeypatch.setattr(large_group_stage, "_SLICE", 100)
    early, late = large_group.members[0], large_group.members[-1]
    # The last recipient of the first slice and the first one of the next, for both senders.
    listeners = [await api.listen(large_group.members[number]) for number in (298, 299, 300, 398, 399, 400)]
    sent = [(await api.send(sender, large_group.group))["message"] for sender in (late, early, late)]
    held_queue.release()
    for listener in listeners:
        assert [(await listener.next())["message"] for _ in sent] == sent


async def test_in_a_large_group_only_the_reader_receives_the_receipt(large_group: LargeGroup, api: Api) -> None:
    sender, reader = large_group.members[0], large_group.members[7]
    await api.send(sender, large_group.group)
    await api.wait_until_idle()
    sender_listener, reader_listener, session_listener = (
        await api.listen(sender),
        await api.listen(reader),
        await api.listen(reader, LIVE_SESSIONS),
    )
    await api.mark_read(reader, large_group.group)
    assert (await reader_listener.next())["__typename"] == "ReceiptAdvanced"
    assert (await session_listener.next())["reason"] == "READ"
    await api.wait_until_idle()
    await sender_listener.expect_no_event()


async def test_all_members_of_a_large_group_are_listed(large_group: LargeGroup, api: Api) -> None:
    listed: list[str] = []
    after = None
    while True:
        page = (await api.data(large_group.members[9], MEMBERS, id=large_group.group, after=after))["group"]
        assert page["memberCount"] == SIZE
        listed += [edge["node"]["user"]["id"] for edge in page["members"]["edges"]]
        after = page["members"]["pageInfo"]["endCursor"]
        if not page["members"]["pageInfo"]["hasNextPage"]:
            break
    assert listed == large_group.members


async def test_many_members_join_with_one_system_message(api: Api) -> None:
    alice, bob, carol, prefix = await api.create_users("alice", "bob", "carol", "mark")
    group = await api.create_group(alice, bob, carol)
    newcomers = await api.create_many_users(prefix, 250)
    listeners = [await api.listen(newcomers[i], LIVE_SESSIONS) for i in (0, -1)]
    assert (await api.invite(alice, group, *newcomers))["memberCount"] == 253
    for listener in listeners:
        assert (await listener.next())["reason"] == "MEMBERSHIP"
    (sender_listener,) = await api.history(bob, group)
    assert len(sender_listener["mentions"]) == 250
    assert len(sender_listener["content"]) < 4_000
    await api.send(newcomers[-1], group)
    for user in (alice, newcomers[0], newcomers[200]):

        async def is_counted(user: str = user) -> bool:
            return await api.unread(user, group) == 1

        await wait_until(is_counted)


async def test_the_default_maximum_is_5000_members(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    unknown_users = [f"nobody.{number}" for number in range(5_001)]
    full, unknown = Refusal("GROUP_FULL", "memberIds"), Refusal("NOT_FOUND", "memberIds")
    for members, expected in ((5_000, full), (4_999, unknown)):
        group_input = {"name": "Group", "memberIds": unknown_users[:members]}
        assert await api.expect_refusal(alice, CREATE_GROUP, input=group_input) == expected
    assert await api.expect_refusal(alice, INVITE, id=group, users=unknown_users) == Refusal("GROUP_FULL", "userIds")
    assert await api.expect_refusal(alice, INVITE, id=group, users=unknown_users[:5_000]) == Refusal(
        "NOT_FOUND", "userIds"
    )


async def test_the_maximum_number_of_members_is_configurable(open_api: OpenApi) -> None:
    async with open_api("small groups", max_group_members=4) as api:
        alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
        group_input = {"name": "Group", "memberIds": [bob, carol, dave, erin]}
        stored = await api.stored_hashes()
        assert await api.expect_refusal(alice, CREATE_GROUP, input=group_input) == Refusal("GROUP_FULL", "memberIds")
        assert await api.stored_hashes() == stored
        group = await api.create_group(alice, bob, carol)
        full = Refusal("GROUP_FULL", "userIds")
        stored = await api.stored_hashes()
        assert await api.expect_refusal(bob, INVITE, id=group, users=[dave, erin]) == full
        assert await api.stored_hashes() == stored
        assert (await api.invite(bob, group, dave))["memberCount"] == 4
        assert await api.expect_refusal(bob, INVITE, id=group, users=[erin]) == full
        assert (await api.invite(bob, group, carol, dave))["memberCount"] == 4


async def test_200_mentions_in_one_message_are_kept(large_group: LargeGroup, api: Api) -> None:
    sent = await api.send(large_group.members[3], large_group.group, mentions=large_group.members[100:300])
    assert len(sent["message"]["mentions"]) == 200
