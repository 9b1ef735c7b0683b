"""Two processes of one deployment: subscribers of both receive the same."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, gather_all, private_id, wait_until
from tests.api.conftest import OpenApi


async def test_a_message_reaches_subscribers_of_both_processes_once(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    devices = [await process.listen(user) for process in (api, other_api) for user in (alice, bob)]
    for process in (api, other_api):
        payloads = await process.send(alice, bob)
        for device in devices:
            event = await device.next()
            assert event["message"]["id"] == payloads["message"]["id"]
    for device in devices:
        await device.expect_no_event(0.05)


async def test_subscribers_of_both_processes_receive_the_same_event(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    first = (await api.send(bob, group, "first"))["message"]["id"]
    same_process, other_process = await api.listen(carol), await other_api.listen(carol)
    await api.send(
        alice, group, "é🙂\u2028", mentions=[bob], mentionAll=True, replyToId=first, contentType="BOT_COMMAND"
    )
    assert await same_process.next() == await other_process.next()


async def test_messages_sent_through_both_processes_stay_in_order(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    devices = [await process.listen(user) for process in (api, other_api) for user in (alice, carol)]
    for number in range(20):
        await (api, other_api)[number % 2].send((alice, bob)[number % 3 == 0], group, f"{number}")
    for device in devices:
        events = [event for event in await device.take(20) if event["__typename"] == "MessageCreated"]
        while len(events) < 20:
            event = await device.next()
            events += [event] if event["__typename"] == "MessageCreated" else []
        assert [event["message"]["seq"] for event in events] == list(range(1, 21))


async def test_concurrent_messages_through_both_processes_are_counted(api: Api, other_api: Api) -> None:
    users = await api.create_users(*"abcd")
    group = await api.create_group(*users)
    devices = [await (api, other_api)[i % 2].listen(user) for i, user in enumerate(users)]
    payloads = await gather_all(*((api, other_api)[i % 2].send(users[i % 4], group) for i in range(40)))
    assert sorted(payload["message"]["seq"] for payload in payloads) == list(range(1, 41))
    for device in devices:
        seqs: list[int] = []
        while len(seqs) < 40:
            event = await device.next()
            seqs += [event["message"]["seq"]] if event["__typename"] == "MessageCreated" else []
        assert sorted(seqs) == list(range(1, 41))
    for user in users:
        last_own_seq = max(p["message"]["seq"] for p in payloads if p["message"]["sender"]["id"] == user)
        for process in (api, other_api):
            assert await process.unread(user, group) == await process.total_unread(user) == 40 - last_own_seq
            assert [m["seq"] for m in await process.history(user, group)] == list(range(1, 41))


async def test_reading_at_one_process_updates_devices_at_the_other(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    session_listener = await other_api.listen(bob, LIVE_SESSIONS)
    sender = await other_api.listen(alice)
    session = await api.mark_read(bob, private_id(alice, bob))
    event = await session_listener.next()
    assert (event["reason"], event["sessions"], event["totalUnread"]) == ("READ", [session], 0)
    receipt = await sender.next()
    assert (receipt["__typename"], receipt["user"]["id"], receipt["seq"]) == ("ReceiptAdvanced", bob, 1)


async def test_concurrent_reads_at_both_processes_end_at_the_furthest(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for _ in range(6):
        await api.send(alice, bob)
    session_listener = await api.listen(bob, LIVE_SESSIONS)
    await gather_all(*((api, other_api)[seq % 2].mark_read(bob, conversation, seq) for seq in (5, 2, 6, 1, 3, 4)))
    session = await other_api.session(bob, conversation)
    assert session is not None
    assert (session["readSeq"], session["unreadCount"]) == (6, 0)
    positions = [(await session_listener.next())["sessions"][0]]
    while positions[-1]["activeTs"] < session["activeTs"]:
        positions.append((await session_listener.next())["sessions"][0])
    assert [p["activeTs"] for p in positions] == sorted({p["activeTs"] for p in positions})
    assert positions[-1] == session


async def test_a_new_member_is_notified_and_served_at_the_other_process(api: Api, other_api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    session_listener, live = await other_api.listen(dave, LIVE_SESSIONS), await other_api.listen(dave)
    await api.invite(alice, group, dave)
    event = await session_listener.next()
    assert (event["reason"], event["sessions"][0]["conversation"]["id"]) == ("MEMBERSHIP", group)
    assert (await live.next())["message"]["contentType"] == "SYSTEM"
    assert (await other_api.send(dave, group))["message"]["seq"] == 2
    assert await api.unread(alice, group) == 1


async def test_a_new_group_exists_at_the_other_process_at_once(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    assert await other_api.sessions(bob) == []
    group = await api.create_group(alice, bob, carol)
    assert [session["conversation"]["id"] for session in await other_api.sessions(bob)] == [group]
    assert (await other_api.send(bob, group))["message"]["seq"] == 1


async def test_a_device_resumes_at_another_process(api: Api, open_api: OpenApi) -> None:
    alice, bob = await api.create_users("alice", "bob")
    async with open_api("main") as ending_process:
        live = await ending_process.listen(alice)
        await api.send(bob, alice, "seen")
        cursor = (await live.next())["cursor"]
    await api.send(bob, alice, "missed")
    resumed = await api.subscribe(alice, LIVE_MESSAGES, since=cursor)
    assert (await resumed.next())["message"]["content"] == "missed"
    assert (await resumed.next())["__typename"] == "CaughtUp"
    await api.send(bob, alice, "live")
    assert (await resumed.next())["message"]["content"] == "live"


@pytest.mark.parametrize("frames", ["lost", "late"])
async def test_frames_lost_or_late_on_the_bus_are_read_from_the_log(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, frames: str
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    live = await other_api.listen(alice)
    bus = other_api.services.app.bus
    take, frames_kept = bus._receive, list[bytes]()
    monkeypatch.setattr(bus, "_receive", frames_kept.append)
    await api.send(bob, alice, "1")
    await api.send(bob, alice, "2")

    async def both_arrived() -> bool:
        return len(frames_kept) >= 2

    await wait_until(both_arrived)
    monkeypatch.setattr(bus, "_receive", take)
    if frames == "late":
        for data in reversed(frames_kept):
            take(data)
    await api.send(bob, alice, "3")
    assert [event["message"]["content"] for event in await live.take(3)] == ["1", "2", "3"]
    await live.expect_no_event(0.1)
    delta = (await other_api.data(alice, SYNC))["syncSessions"]
    assert delta["totalUnread"] == 3
