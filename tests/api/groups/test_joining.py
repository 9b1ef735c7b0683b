"""inviteMembers: what a new member can read, who is notified, and limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.client import INVITE, LIVE_SESSIONS, Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.session_calls import MESSAGE

RANGES = "query ($id: ID!) { group(id: $id) { memberCount visibleRanges { fromSeq toSeq } } }"


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("small", max_group_members=6) as api:
        yield api


async def seqs(api: Api, user: str, group: str) -> list[int]:
    return [message["seq"] for message in await api.history(user, group)]


async def test_a_new_member_reads_only_later_messages(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    before = [(await api.send(alice, group, f"secret {number}"))["message"]["id"] for number in range(3)]
    await api.invite(bob, group, dave)
    await api.send(alice, group, "welcome")
    assert await seqs(api, dave, group) == [4, 5]
    assert await seqs(api, alice, group) == [1, 2, 3, 4, 5]
    ranges = (await api.data(dave, RANGES, id=group))["group"]
    assert ranges == {"memberCount": 4, "visibleRanges": [{"fromSeq": 4, "toSeq": None}]}
    query = f"query ($id: ID!) {{ message(id: $id) {{ {MESSAGE} }} node(id: $id) {{ id }} }}"
    for message in before:
        assert await api.data(dave, query, id=message) == {"message": None, "node": None}
        assert (await api.data(bob, query, id=message))["node"] == {"id": message}


async def test_with_full_history_a_new_member_reads_everything(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, historyVisibility="FULL")
    for number in range(3):
        await api.send(alice, group, f"open {number}")
    await api.invite(bob, group, dave)
    assert await seqs(api, dave, group) == [1, 2, 3, 4]
    ranges = (await api.data(dave, RANGES, id=group))["group"]
    assert ranges == {"memberCount": 4, "visibleRanges": [{"fromSeq": 1, "toSeq": None}]}


@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])
async def test_a_new_member_starts_with_nothing_unread(api: Api, visibility: str, cached: bool) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    if cached:
        await api.sessions(dave)
    group = await api.create_group(alice, bob, carol, historyVisibility=visibility)
    for number in range(3):
        await api.send(alice, group, f"{number}")
    await api.invite(bob, group, dave)
    session = await api.session(dave, group)
    assert session is not None
    assert (session["writeSeq"], session["readSeq"], session["deliveredSeq"]) == (4, 4, 4)
    assert (session["unreadCount"], session["status"]) == (0, "ACTIVE")
    assert session["lastMessage"]["seq"] == 4
    assert await api.total_unread(dave) == 0
    for count in (1, 2):
        await api.send(carol, group)
        assert await api.unread(dave, group) == await api.total_unread(dave) == count
    assert (await api.mark_read(dave, group, 5))["unreadCount"] == 1


async def test_a_reply_does_not_quote_messages_before_the_readers_join(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    secret = (await api.send(alice, group, "secret"))["message"]["id"]
    await api.invite(bob, group, dave)
    listener = await api.listen(dave)
    reply = (await api.send(bob, group, "about that", replyToId=secret))["message"]
    assert reply["replyTo"]["id"] == secret
    assert (await listener.next())["message"]["replyTo"] is None
    assert (await api.history(dave, group))[-1]["replyTo"] is None
    assert (await api.history(carol, group))[-1]["replyTo"] == {"id": secret, "seq": 1, "content": "secret"}
    refusal = await api.expect_send_refusal(dave, group, "me too", replyToId=secret)
    assert refusal == Refusal("INVALID_INPUT", "replyToId")


async def test_cursors_of_invisible_messages_give_no_access(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    for number in range(3):
        await api.send(alice, group, f"secret {number}")
    query = (
        "query ($id: ID!, $at: String) { messages(conversationId: $id, first: 100, after: $at) { "
        "edges { cursor node { seq } } } }"
    )
    cursor = (await api.data(alice, query, id=group))["messages"]["edges"][0]["cursor"]
    await api.invite(bob, group, dave)
    edges = (await api.data(dave, query, id=group, at=cursor))["messages"]["edges"]
    assert [edge["node"]["seq"] for edge in edges] == [4]


async def test_one_system_message_names_all_new_members(api: Api) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    listeners = {user: await api.listen(user) for user in (alice, bob, carol, dave)}
    session_listeners = {user: await api.listen(user, LIVE_SESSIONS) for user in (alice, bob, carol, dave)}
    assert await api.invite(carol, group, dave, erin, bob, dave) == {"id": group, "memberCount": 5}
    system_message = (await api.history(alice, group))[0]
    assert (system_message["contentType"], system_message["sender"]["id"], system_message["seq"]) == (
        "SYSTEM",
        carol,
        1,
    )
    assert system_message["content"]
    assert {user["id"] for user in system_message["mentions"]} == {dave, erin}
    for listener in listeners.values():
        assert (await listener.next())["message"] == system_message
        await listener.expect_no_event(0.02)
    event = await session_listeners.pop(dave).next()
    assert (event["reason"], event["totalUnread"]) == ("MEMBERSHIP", 0)
    assert [session["conversation"]["id"] for session in event["sessions"]] == [group]
    for listener in session_listeners.values():
        await listener.expect_no_event(0.02)
    for user in (alice, bob, carol, dave, erin):
        assert await api.unread(user, group) == 0


async def test_inviting_current_members_changes_nothing(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    listener = await api.listen(alice)
    stored = await api.stored_hashes()
    for users in ([], [bob], [alice], [alice, bob, carol, bob]):
        assert await api.invite(alice, group, *users) == {"id": group, "memberCount": 3}
    assert await api.stored_hashes() == stored
    await listener.expect_no_event(0.02)


async def test_any_member_may_invite(api: Api) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    await api.invite(bob, group, dave)
    assert (await api.invite(dave, group, erin))["memberCount"] == 5
    assert (await api.send(erin, group, "hello"))["message"]["seq"] == 3


async def test_unknown_groups_and_users_are_not_found(api: Api) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob)
    stored = await api.stored_hashes()
    for inviter, group_id, field in (
        (dave, group, "groupId"),
        (alice, "g_1", "groupId"),
        (alice, "", "groupId"),
        (alice, f"p_{alice}_{bob}", "groupId"),
    ):
        assert await api.expect_refusal(inviter, INVITE, id=group_id, users=[erin]) == Refusal("NOT_FOUND", field)
    for users in (["nobody"], [erin, "nobody"], [""], ["not an id"], [group]):
        assert await api.expect_refusal(alice, INVITE, id=group, users=users) == Refusal("NOT_FOUND", "userIds")
    assert await api.stored_hashes() == stored


async def test_the_last_place_of_a_group_is_taken_once(api: Api) -> None:
    users = await api.create_users(*"abcdefgh")
    group = await api.create_group(*users[:5])
    stored = await api.stored_hashes()
    assert await api.expect_refusal(users[0], INVITE, id=group, users=users[5:7]) == Refusal("GROUP_FULL", "userIds")
    assert await api.stored_hashes() == stored
    outcomes = await gather_all(
        *(api.run(inviter, INVITE, id=group, users=[user]) for inviter in users[:2] for user in users[5:])
    )
    assert [outcome["data"] is not None for outcome in outcomes].count(True) in (1, 2)
    member_count = (await api.data(users[0], RANGES, id=group))["group"]["memberCount"]
    assert member_count == 6
    assert len(await list_members(api, users[0], group)) == 6
    assert await api.expect_refusal(users[0], INVITE, id=group, users=["nobody"]) == Refusal("NOT_FOUND", "userIds")
    # Users who are members already can still be named.
    assert (await api.invite(users[0], group, users[1]))["memberCount"] == 6


async def list_members(api: Api, user: str, group: str) -> list[str]:
    query = "query ($id: ID!) { group(id: $id) { members { edges { node { user { id } } } } } }"
    edges = await api.data(user, query, id=group)
    return [edge["node"]["user"]["id"] for edge in edges["group"]["members"]["edges"]]


async def test_a_user_invited_concurrently_joins_once(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await gather_all(*(api.invite(inviter, group, dave) for inviter in (alice, bob, carol) * 2))
    history = await api.history(alice, group)
    assert [message["contentType"] for message in history] == ["SYSTEM"]
    assert (await api.data(alice, RANGES, id=group))["group"]["memberCount"] == 4


async def test_a_member_who_joins_during_messages_reads_exactly_the_later_ones(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    listener = await api.listen(dave)
    sends = [api.send(user, group) for user in (alice, bob, carol) for _ in range(8)]
    await gather_all(*sends[:12], api.invite(bob, group, dave), *sends[12:])
    history = await api.history(alice, group)
    joined = next(message["seq"] for message in history if message["contentType"] == "SYSTEM")
    expected = [message["seq"] for message in history if message["seq"] >= joined]
    assert await seqs(api, dave, group) == expected
    assert await api.unread(dave, group) == len(expected) - 1
    await api.wait_until_idle()
    events = await listener.take(len(expected))
    await listener.expect_no_event(0.02)
    assert sorted(event["message"]["seq"] for event in events) == expected


async def test_concurrent_invitations_at_two_processes_both_succeed(api: Api, open_api: OpenApi) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    async with open_api("small", max_group_members=6) as other:
        await gather_all(api.invite(alice, group, dave), other.invite(bob, group, erin))
        for process in (api, other):
            assert set(await list_members(process, alice, group)) == {alice, bob, carol, dave, erin}
            assert (await process.data(erin, RANGES, id=group))["group"]["memberCount"] == 5
