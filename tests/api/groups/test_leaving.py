"""Leaving a group and being removed from it: what the former member keeps, and that nothing later reaches them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, Refusal, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.events import read_missed_events
from tests.api.group_calls import LEAVE
from tests.api.groups.departures import DEPARTURES, Departure, both_departures, create_group_with_messages, read_seqs
from tests.clock import ManualClock


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("main") as api:
        yield api


@both_departures
async def test_a_former_member_reads_only_earlier_messages(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await depart(api, alice, group, bob)
    later = (await api.send(carol, group, "about bob"))["message"]
    assert await read_seqs(api, bob, group) == [1, 2, 3]
    assert await read_seqs(api, alice, group) == await read_seqs(api, carol, group) == [1, 2, 3, 4, 5]
    returned_group = await api.own_group(bob, group)
    assert returned_group["visibleRanges"] == [{"fromSeq": 1, "toSeq": 3}]
    assert (returned_group["viewerRole"], returned_group["members"], returned_group["memberCount"]) == (None, None, 2)
    assert (returned_group["status"], returned_group["owner"], returned_group["name"]) == (
        "ACTIVE",
        {"id": alice},
        "The group",
    )
    assert returned_group["lastMessage"]["content"] == returned_group["session"]["lastMessage"]["content"] == "2"
    assert await api.my_groups(bob) == []
    assert await api.roles(alice, group) == {alice: "OWNER", carol: "MEMBER"}
    system_message = (await api.history(alice, group))[3]
    query = "query ($id: ID!) { message(id: $id) { id } node(id: $id) { id } }"
    for hidden in (system_message, later):
        assert await api.data(bob, query, id=hidden["id"]) == {"message": None, "node": None}


@both_departures
async def test_leaving_an_empty_group_leaves_an_empty_history(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api, count=0)
    await depart(api, alice, group, bob)
    await api.send(carol, group, "now")
    assert await api.history(bob, group) == []
    session = await api.own_session(bob, group)
    assert (session["writeSeq"], session["unreadCount"], session["lastMessage"]) == (0, 0, None)
    assert session["status"] == "ACTIVE"
    assert (await api.own_group(bob, group))["lastMessage"] is None
    assert all(last is not None and first > last for first, last in await api.ranges(bob, group))


@both_departures
async def test_remaining_members_receive_one_system_message(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    message_listeners = [await api.listen(user) for user in (alice, carol)]
    session_listeners = [await api.listen(user, LIVE_SESSIONS) for user in (alice, carol)]
    unread = await api.unread(carol, group)
    await depart(api, alice, group, bob)
    system_message = (await api.history(carol, group))[-1]
    assert (system_message["contentType"], system_message["seq"], system_message["mentions"]) == (
        "SYSTEM",
        4,
        [{"id": bob}],
    )
    assert system_message["sender"]["id"] == (bob if depart is DEPARTURES["leaving"] else alice)
    assert system_message["content"]
    for device in message_listeners:
        event = await device.next()
        assert (event["__typename"], event["message"]) == ("MessageCreated", system_message)
        await device.expect_no_event(0.02)
    for device in session_listeners:
        await device.expect_no_event(0.02)
    assert await api.unread(carol, group) == unread
    assert (await api.own_session(carol, group))["writeSeq"] == 4


@both_departures
async def test_a_former_member_receives_one_event_and_then_nothing(api: Api, other_api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    message_listeners = [
        await process.listen(bob, **arguments) for process in (api, other_api) for arguments in ({}, {"id": group})
    ]
    session_listeners = [await process.listen(bob, LIVE_SESSIONS) for process in (api, other_api)]
    before = await api.own_session(bob, group)
    await depart(api, alice, group, bob)
    session = await api.own_session(bob, group)
    for device in session_listeners:
        event = await device.next()
        assert (event["reason"], event["sessions"], event["totalUnread"]) == ("MEMBERSHIP", [session], 3)
        assert (event["hasMore"], event["reset"]) == (False, False)
    assert session.pop("activeTs") > before.pop("activeTs")
    assert session == before
    for process in (api, other_api):
        await process.send(carol, group, "without bob")
        await process.mark_read(carol, group)
    await api.update_group(alice, group, name="Without bob")
    await api.wait_until_idle()
    for device in (*message_listeners, *session_listeners):
        await device.expect_no_event(0.03)
    # Other conversations are not affected.
    await other_api.send(carol, bob, "just you")
    for device in (message_listeners[0], message_listeners[2]):
        assert (await device.next())["message"]["content"] == "just you"


@both_departures
@pytest.mark.parametrize("other_listens", [False, True], ids=["same process", "other process"])
async def test_a_departure_during_messages_ends_everything_at_one_message(
    api: Api, other_api: Api, depart: Departure, other_listens: bool
) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    listening_process = other_api if other_listens else api
    device, session_listener = await listening_process.listen(bob), await listening_process.listen(bob, LIVE_SESSIONS)
    sends = [(api, other_api)[n % 2].send((alice, carol)[n % 3 == 0], group, f"at once {n}") for n in range(24)]
    await gather_all(*sends[:12], depart(api, alice, group, bob), *sends[12:])
    await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
    history = await api.history(alice, group)
    assert [message["seq"] for message in history] == list(range(1, 29))
    departure_seq = next(message["seq"] for message in history if message["contentType"] == "SYSTEM")
    for process in (api, other_api):
        assert await read_seqs(process, bob, group) == list(range(1, departure_seq))
        assert await process.ranges(bob, group) == [(1, departure_seq - 1)]
        session = await process.own_session(bob, group)
        assert (session["writeSeq"], session["unreadCount"], session["lastMessage"]["seq"]) == (
            departure_seq - 1,
            departure_seq - 1,
            departure_seq - 1,
        )
        assert await process.total_unread(bob) == departure_seq - 1
    received = [event["message"]["seq"] for event in await device.take(departure_seq - 4)]
    assert sorted(received) == list(range(4, departure_seq))
    assert (await session_listener.next())["reason"] == "MEMBERSHIP"
    for listener in (device, session_listener):
        await listener.expect_no_event(0.1)


@both_departures
async def test_unread_messages_stay_unread_after_a_departure(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api, count=2)
    await api.send(alice, group, "you", mentions=[bob])
    await api.send(alice, group, "all", mentionAll=True)
    await api.mark_read(bob, group, 1)
    await depart(api, alice, group, bob)
    for number in range(3):
        await api.send(carol, group, f"{number}", mentions=[alice])
    await api.send(alice, group, "all", mentionAll=True)
    session = await api.own_session(bob, group)
    assert (session["writeSeq"], session["readSeq"]) == (4, 1)
    assert (session["unreadCount"], session["unreadMentionCount"]) == (3, 2)
    assert await api.total_unread(bob) == 3
    read_in_part = await api.mark_read(bob, group, 3)
    assert (read_in_part["readSeq"], read_in_part["unreadCount"], read_in_part["unreadMentionCount"]) == (3, 1, 1)
    read = await api.mark_read(bob, group, 99)
    assert (read["writeSeq"], read["readSeq"], read["deliveredSeq"], read["unreadCount"]) == (4, 4, 4, 0)
    stored = await api.stored_hashes()
    assert await api.mark_read(bob, group) == read
    assert await api.stored_hashes() == stored


@both_departures
async def test_a_deleted_session_stays_deleted_after_a_departure(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await api.delete(bob, group)
    await depart(api, alice, group, bob)
    assert (await api.own_session(bob, group))["status"] == "INVALID"
    await api.send(carol, group)
    assert (await api.own_session(bob, group))["status"] == "INVALID"
    assert await api.sessions(bob) == []
    assert await read_seqs(api, bob, group) == [1, 2, 3]


@both_departures
async def test_a_former_member_can_delete_the_session(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await depart(api, alice, group, bob)
    assert (await api.delete(bob, group))["status"] == "INVALID"
    await api.send(carol, group, mentions=[alice])
    await api.send(alice, group, mentionAll=True)
    session = await api.own_session(bob, group)
    assert (session["status"], session["writeSeq"], session["unreadCount"]) == ("INVALID", 3, 0)
    assert (await api.sessions(bob), await api.total_unread(bob)) == ([], 0)


@both_departures
async def test_a_former_member_cannot_be_mentioned(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await depart(api, alice, group, bob)
    stored = await api.stored_hashes()
    assert await api.expect_send_refusal(carol, group, mentions=[bob]) == Refusal("INVALID_INPUT", "mentions")
    assert await api.stored_hashes() == stored


@both_departures
async def test_a_reply_does_not_quote_messages_from_the_readers_absence(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await depart(api, alice, group, bob)
    secret = (await api.send(carol, group, "secret"))["message"]["id"]
    await api.invite(alice, group, bob)
    device = await api.listen(bob)
    await api.send(alice, group, "about that", replyToId=secret)
    assert (await device.next())["message"]["replyTo"] is None
    assert (await api.history(bob, group))[-1]["replyTo"] is None
    assert (await api.history(carol, group))[-1]["replyTo"]["content"] == "secret"
    refusal = await api.expect_send_refusal(bob, group, "me too", replyToId=secret)
    assert refusal == Refusal("INVALID_INPUT", "replyToId")


@both_departures
async def test_a_former_member_resumes_with_the_messages_before_the_departure(api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    device = await api.listen(bob)
    await api.send(alice, group, "seen")
    cursor = (await device.next())["cursor"]
    await device.stop()
    await api.send(alice, group, "missed 1")
    await api.send(carol, group, "missed 2")
    await depart(api, alice, group, bob)
    await api.send(carol, group, "without bob")
    for arguments in ({}, {"id": group}):
        events = await read_missed_events(api, bob, cursor, **arguments)
        assert [event["message"]["content"] for event in events] == ["missed 1", "missed 2"]
    resumed = await api.subscribe(
        bob,
        "subscription ($id: ID, $since: Cursor) { messageEvents(since: $since, conversationId: $id) { __typename } }",
        since=cursor,
        id=group,
    )
    assert [event["__typename"] for event in await resumed.take(3)] == ["MessageCreated", "MessageCreated", "CaughtUp"]
    await api.send(alice, group, "still without")
    await resumed.expect_no_event(0.05)


@both_departures
async def test_a_device_that_was_away_receives_the_departure(api: Api, other_api: Api, depart: Departure) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    cursor = (await api.data(bob, SYNC))["syncSessions"]["cursor"]
    await depart(api, alice, group, bob)
    await api.send(carol, group)
    for process in (api, other_api):
        session = await process.own_session(bob, group)
        delta = (await process.data(bob, SYNC, since=cursor))["syncSessions"]
        assert (delta["sessions"], delta["totalUnread"], delta["reset"]) == ([session], 3, False)
        read_in_part = await (await process.subscribe(bob, LIVE_SESSIONS, since=cursor)).next()
        assert (read_in_part["reason"], read_in_part["sessions"], read_in_part["reset"]) == (
            "CATCH_UP",
            [session],
            False,
        )


@both_departures
async def test_only_former_members_stop_receiving_messages(api: Api, depart: Departure) -> None:
    users = await api.create_users(*"abcdef")
    group = await api.create_group(*users)
    devices = {user: await api.listen(user) for user in users}
    await depart(api, users[0], group, users[3])
    await depart(api, users[0], group, users[5])
    sent = (await api.send(users[1], group, "we four"))["message"]
    for user, device in devices.items():
        expected = {users[3]: 0, users[5]: 1}.get(user, 3)
        received = [event["message"]["seq"] for event in await device.take(expected)]
        assert received == list(range(1, expected + 1))
        await device.expect_no_event(0.02)
    assert sent["seq"] == 3
    assert await api.roles(users[0], group) == dict.fromkeys((users[1], users[2], users[4]), "MEMBER") | {
        users[0]: "OWNER"
    }


async def test_a_group_may_shrink_to_its_owner_and_grow_again(api: Api) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    await api.leave(bob, group)
    returned_group = await api.remove(alice, group, carol)
    assert (returned_group["memberCount"], returned_group["viewerRole"]) == (1, "OWNER")
    assert (await api.expect_refusal(alice, LEAVE, id=group)).code == "OWNER_CANNOT_LEAVE"
    assert (await api.send(alice, group, "alone"))["message"]["seq"] == 6
    await api.invite(alice, group, bob)
    assert await read_seqs(api, bob, group) == [1, 2, 3, 7]
    assert await api.roles(bob, group) == {alice: "OWNER", bob: "MEMBER"}


async def test_remove_member_returns_the_changed_group(api: Api) -> None:
    alice, bob, carol, group = await create_group_with_messages(api)
    returned_group: Json = await api.remove(alice, group, bob)
    assert returned_group == await api.group(alice, group)
    assert (returned_group["memberCount"], returned_group["lastMessage"]["seq"]) == (2, 4)
    assert [edge["node"]["user"]["id"] for edge in returned_group["members"]["edges"]] == [alice, carol]


@both_departures
async def test_later_messages_move_no_former_members_session_after_a_loss(
    open_api: OpenApi, deployments: Deployments, depart: Departure
) -> None:
    deployment, clock = "later messages", ManualClock()
    async with open_api(deployment, clock) as api:
        alice, bob, carol, group = await create_group_with_messages(api)
        await api.advance_days(clock, 0.01)
        await api.send(carol, group, "all of you")
        write_ts = (await api.own_session(bob, group))["writeTs"]
        await api.wait_until_idle()
        deployments.flush_redis(deployment)
        await depart(api, alice, group, bob)
        await api.wait_until_idle()
        await api.advance_days(clock, 0.01)
        before = await api.own_session(bob, group)
        assert before["writeTs"] == write_ts
        await api.send(carol, group, "without bob")
        await api.wait_until_idle()
        await api.advance_days(clock, 0.01)
        deployments.flush_redis(deployment)
        assert await api.own_session(bob, group) == before
