"""Groups beyond what is served before the sender is answered, and beyond what receipts are pushed in."""

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
class Crowd:
    api: Api
    people: list[str]
    group: str


@pytest.fixture(scope="module")
async def crowd(process: Api) -> Crowd:
    (mark,) = await process.create_users("crowd")
    people = await process.create_many_users(mark, SIZE)
    return Crowd(process, people, await process.create_group(*people))


async def test_the_sender_waits_for_the_first_members_and_the_others_follow(
    crowd: Crowd, api: Api, held_queue: HeldLargeGroupQueue
) -> None:
    sender, near, far = crowd.people[0], crowd.people[1], crowd.people[-1]
    some = [user for user in crowd.people[:: SIZE // 9] if user != sender]
    before = {user: await api.unread(user, crowd.group) for user in (near, far, *some)}
    at_once, later = await api.listen(near), await api.listen(far)
    sent = (await api.send(sender, crowd.group, "to all"))["message"]
    assert await api.unread(near, crowd.group) == before[near] + 1
    assert await api.unread(far, crowd.group) == before[far]
    assert (await at_once.next())["message"] == sent
    await later.expect_no_event(0.03)
    held_queue.release()
    assert (await later.next())["message"] == sent

    async def all_count() -> bool:
        return all([await api.unread(user, crowd.group) == count + 1 for user, count in before.items()])

    await wait_until(all_count)
    await later.expect_no_event(0.03)
    assert at_once.pop_events() == []


async def test_who_is_last_of_the_first_members_does_not_depend_on_who_sends(
    crowd: Crowd, api: Api, held_queue: HeldLargeGroupQueue
) -> None:
    listeners = [await api.listen(crowd.people[number]) for number in (198, 199)]
    sent = [(await api.send(crowd.people[number], crowd.group))["message"] for number in (-1, 0)]
    assert [await listeners[0].next() for _ in sent]
    await listeners[1].expect_no_event(0.03)
    held_queue.release()
    assert [(await listeners[1].next())["message"] for _ in sent] == sent


async def test_what_follows_in_several_parts_comes_to_each_in_its_order(
    crowd: Crowd, api: Api, held_queue: HeldLargeGroupQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message counts its members from its sender on: where one part ends is not where another one's does."""
    monkeypatch.setattr(large_group_stage, "_SLICE", 100)
    near, far = crowd.people[0], crowd.people[-1]
    # The last of the first part, and who is first in the next, by the one and by the other.
    listeners = [await api.listen(crowd.people[number]) for number in (298, 299, 300, 398, 399, 400)]
    sent = [(await api.send(sender, crowd.group))["message"] for sender in (far, near, far)]
    held_queue.release()
    for listener in listeners:
        assert [(await listener.next())["message"] for _ in sent] == sent


async def test_readers_are_not_announced_to_senders_in_a_crowd_but_to_themselves(crowd: Crowd, api: Api) -> None:
    sender, reader = crowd.people[0], crowd.people[7]
    await api.send(sender, crowd.group)
    await api.wait_until_idle()
    told, own, synced = await api.listen(sender), await api.listen(reader), await api.listen(reader, LIVE_SESSIONS)
    await api.mark_read(reader, crowd.group)
    assert (await own.next())["__typename"] == "ReceiptAdvanced"
    assert (await synced.next())["reason"] == "READ"
    await api.wait_until_idle()
    await told.expect_no_event()


async def test_the_members_of_a_crowd_are_listed_whole(crowd: Crowd, api: Api) -> None:
    found: list[str] = []
    after = None
    while True:
        shown = (await api.data(crowd.people[9], MEMBERS, id=crowd.group, after=after))["group"]
        assert shown["memberCount"] == SIZE
        found += [edge["node"]["user"]["id"] for edge in shown["members"]["edges"]]
        after = shown["members"]["pageInfo"]["endCursor"]
        if not shown["members"]["pageInfo"]["hasNextPage"]:
            break
    assert found == crowd.people


async def test_many_join_at_once_with_one_message(api: Api) -> None:
    alice, bob, carol, mark = await api.create_users("alice", "bob", "carol", "mark")
    group = await api.create_group(alice, bob, carol)
    newcomers = await api.create_many_users(mark, 250)
    listeners = [await api.listen(newcomers[i], LIVE_SESSIONS) for i in (0, -1)]
    assert (await api.invite(alice, group, *newcomers))["memberCount"] == 253
    for listener in listeners:
        assert (await listener.next())["reason"] == "MEMBERSHIP"
    (told,) = await api.history(bob, group)
    assert len(told["mentions"]) == 250
    assert len(told["content"]) < 4_000
    await api.send(newcomers[-1], group)
    for user in (alice, newcomers[0], newcomers[200]):

        async def counted(user: str = user) -> bool:
            return await api.unread(user, group) == 1

        await wait_until(counted)


async def test_5000_members_are_the_most_by_default(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    nobody = [f"nobody.{number}" for number in range(5_001)]
    full, unknown = Refusal("GROUP_FULL", "memberIds"), Refusal("NOT_FOUND", "memberIds")
    for members, expected in ((5_000, full), (4_999, unknown)):
        group_input = {"name": "Group", "memberIds": nobody[:members]}
        assert await api.expect_refusal(alice, CREATE_GROUP, input=group_input) == expected
    assert await api.expect_refusal(alice, INVITE, id=group, users=nobody) == Refusal("GROUP_FULL", "userIds")
    assert await api.expect_refusal(alice, INVITE, id=group, users=nobody[:5_000]) == Refusal("NOT_FOUND", "userIds")


async def test_a_group_takes_as_many_members_as_the_setting_says(open_api: OpenApi) -> None:
    async with open_api("small groups", max_group_members=4) as api:
        alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
        everybody = {"name": "Group", "memberIds": [bob, carol, dave, erin]}
        stored = await api.stored_documents()
        assert await api.expect_refusal(alice, CREATE_GROUP, input=everybody) == Refusal("GROUP_FULL", "memberIds")
        assert await api.stored_documents() == stored
        group = await api.create_group(alice, bob, carol)
        full = Refusal("GROUP_FULL", "userIds")
        stored = await api.stored_documents()
        assert await api.expect_refusal(bob, INVITE, id=group, users=[dave, erin]) == full
        assert await api.stored_documents() == stored
        assert (await api.invite(bob, group, dave))["memberCount"] == 4
        assert await api.expect_refusal(bob, INVITE, id=group, users=[erin]) == full
        assert (await api.invite(bob, group, carol, dave))["memberCount"] == 4


async def test_many_mentions_in_one_message_are_kept(crowd: Crowd, api: Api) -> None:
    sent = await api.send(crowd.people[3], crowd.group, mentions=crowd.people[100:300])
    assert len(sent["message"]["mentions"]) == 200
