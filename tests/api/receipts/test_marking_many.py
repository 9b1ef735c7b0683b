"""markManyRead and ackManyDelivered: several conversations in one change."""

from __future__ import annotations

import pytest

from resolvers.sessions import reading
from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, Refusal, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.device import ApiDevice
from tests.api.session_calls import ACK_MANY, MARK_MANY_READ


def ids_of(sessions: list[Json]) -> list[str]:
    return [session["conversation"]["id"] for session in sessions]


async def snapshot(api: Api, users: list[str]) -> list[Json]:
    """Return hashes of everything that is stored, and the sessions of users with their clocks."""
    stored = await api.stored_hashes()
    return [stored, *[(await api.data(user, SYNC))["syncSessions"] for user in users]]


async def create_unread(api: Api, senders: int, messages: int = 2) -> tuple[str, list[str], list[str]]:
    """Return a user, others who each sent them messages, and the conversations."""
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(senders)))
    for _ in range(messages):
        for other in others:
            await api.send(other, alice)
    return alice, others, [private_id(alice, other) for other in others]


async def test_reading_many_is_one_event_with_a_receipt_for_each(api: Api, other_api: Api) -> None:
    alice, others, ids = await create_unread(api, 3)
    synced, live = await other_api.listen(alice, LIVE_SESSIONS), await other_api.listen(alice)
    sender = await api.listen(others[1])
    answer = await api.mark_many_read(alice, ids[2], ids[0], ids[2], ids[1])
    assert ids_of(answer) == [ids[2], ids[0], ids[1]]
    for session in answer:
        assert (session["readSeq"], session["deliveredSeq"], session["unreadCount"]) == (2, 2, 0)
    event = await synced.next()
    assert (event["reason"], event["hasMore"], event["totalUnread"]) == ("READ", False, 0)
    assert event["sessions"] == answer
    receipts = await live.take(3)
    assert [(r["conversationId"], r["status"], r["seq"], r["user"]["id"]) for r in receipts] == [
        (id, "READ", 2, alice) for id in (ids[2], ids[0], ids[1])
    ]
    assert len({event["cursor"], *(receipt["cursor"] for receipt in receipts)}) == 4
    advanced = await sender.next()
    assert (advanced["conversationId"], advanced["status"], advanced["seq"]) == (ids[1], "READ", 2)
    assert (await api.own_session(others[0], ids[0]))["peerReadSeq"] == 2
    for listener in (synced, live, sender):
        await listener.expect_no_event(0.03)
    assert (await api.data(alice, "{ offlineMessages { edges { node { id } } } }"))["offlineMessages"]["edges"] == []


async def test_reading_many_of_what_is_read_changes_nothing(api: Api) -> None:
    alice, others, ids = await create_unread(api, 3)
    await api.mark_read(alice, ids[0])
    before = await api.own_session(alice, ids[0])
    synced = await api.listen(alice, LIVE_SESSIONS)
    assert (await api.mark_many_read(alice, *ids))[0] == before
    assert ids_of((await synced.next())["sessions"]) == ids[1:]
    again = await snapshot(api, [alice, *others])
    await api.mark_many_read(alice, *ids)
    assert await api.mark_many_read(alice) == []
    assert await api.mark_all_read(alice) == []
    assert await snapshot(api, [alice, *others]) == again
    await synced.expect_no_event()


async def test_reading_all_reads_muted_and_marked_sessions_and_those_in_a_sub_biz(api: Api) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    for sender, sub_biz in ((bob, None), (carol, None), (dave, None), (erin, "shop"), (bob, "shop")):
        await api.send(sender, alice, subBiz=sub_biz)
    await api.mute(alice, private_id(alice, bob))
    await api.mark_read(alice, private_id(alice, carol))
    await api.set_unread(alice, private_id(alice, carol))
    await api.mark_read(alice, private_id(alice, dave))
    await api.send(dave, alice)
    await api.delete(alice, private_id(alice, dave))
    untouched = await api.own_session(alice, private_id(alice, dave))
    await api.mark_read(alice, private_id(alice, bob, "shop"))
    synced = await api.listen(alice, LIVE_SESSIONS)
    answer = await api.mark_all_read(alice)
    expected = {private_id(alice, bob), private_id(alice, carol), private_id(alice, erin, "shop"), "b_shop"}
    assert set(ids_of(answer)) == expected and len(answer) == len(expected)
    assert {(s["unreadCount"], s["unreadStatus"]) for s in answer} == {(0, False)}
    event = await synced.next()
    assert sorted(ids_of(event["sessions"])) == sorted(ids_of(answer))
    assert {s["conversation"]["id"]: s for s in event["sessions"]} == {s["conversation"]["id"]: s for s in answer}
    assert await api.own_session(alice, private_id(alice, dave)) == untouched
    assert await api.total_unread(alice) == 0
    await synced.expect_no_event(0.03)


async def test_more_unread_sessions_than_one_change_takes_are_all_read(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_SESSIONS", 2)
    alice, others, ids = await create_unread(api, 5, 1)
    synced = await api.listen(alice, LIVE_SESSIONS)
    answer = await api.mark_all_read(alice)
    assert ids_of(answer) == ids[::-1]
    events = await synced.take(3)
    assert [ids_of(event["sessions"]) for event in events] == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    assert [event["totalUnread"] for event in events] == [3, 1, 0]
    # A gateway counts as one of the conversations, whatever is inside.
    for other in others:
        await api.send(other, alice, subBiz="shop")
    assert [s["unreadCount"] for s in await api.mark_many_read(alice, "b_shop", ids[0])] == [0, 0]
    assert await api.total_unread(alice) == 0


async def test_a_gateway_among_the_conversations_reads_all_sessions_inside(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender, sub_biz in ((bob, "shop"), (carol, "shop"), (bob, None)):
        await api.send(sender, alice, subBiz=sub_biz)
    synced = await api.listen(alice, LIVE_SESSIONS)
    answer = await api.mark_many_read(alice, "b_shop", private_id(alice, bob))
    assert ids_of(answer) == ["b_shop", private_id(alice, bob)]
    assert [session["unreadCount"] for session in answer] == [0, 0]
    event = await synced.next()
    inside = [private_id(alice, sender, "shop") for sender in (bob, carol)]
    assert sorted(ids_of(event["sessions"])) == sorted(["b_shop", private_id(alice, bob), *inside])
    await synced.expect_no_event(0.03)


async def test_acknowledging_many_is_one_event_with_a_receipt_for_each(api: Api) -> None:
    alice, others, ids = await create_unread(api, 3, 3)
    await api.set_unread(alice, ids[0])
    synced, live = await api.listen(alice, LIVE_SESSIONS), await api.listen(alice)
    sender = await api.listen(others[0])
    # Of two marks of a conversation the higher one counts.
    answer = await api.ack_many(alice, (ids[0], 1), (ids[1], 1_000), (ids[2], 0), (ids[0], 2))
    assert [(s["deliveredSeq"], s["readSeq"]) for s in answer] == [(2, 0), (3, 0), (0, 0)]
    assert ids_of(answer) == ids and answer[0]["unreadStatus"]
    event = await synced.next()
    assert (event["reason"], event["sessions"]) == ("DELIVERED", answer[:2])
    receipts = await live.take(2)
    assert [(r["conversationId"], r["status"], r["seq"]) for r in receipts] == [
        (ids[0], "DELIVERED", 2),
        (ids[1], "DELIVERED", 3),
    ]
    assert ((await sender.next())["status"], await api.ack_many(alice, (ids[0], 2), (ids[1], 1))) == (
        "DELIVERED",
        answer[:2],
    )
    assert await api.ack_many(alice) == []
    for listener in (synced, live, sender):
        await listener.expect_no_event(0.03)


async def test_a_seq_without_a_message_acknowledges_up_to_the_one_before(api: Api) -> None:
    alice, _, ids = await create_unread(api, 2, 4)
    await api.wait_until_idle()
    api.database["messages"].delete_one({"c": ids[0], "s": 3})
    answer = await api.ack_many(alice, (ids[0], 3), (ids[1], 3))
    assert [session["deliveredSeq"] for session in answer] == [2, 3]


@pytest.mark.parametrize("is_lost", [False, True], ids=["cached", "lost"])
async def test_devices_agree_after_many_marks_and_a_reconnect(
    open_api: OpenApi, deployments: Deployments, is_lost: bool
) -> None:
    async with open_api("marks") as api:
        alice, others, ids = await create_unread(api, 4)
        devices = [ApiDevice(api, user) for user in (alice, alice, others[0])]
        for device in devices:
            await device.start()
        await devices[1].stop()
        await api.wait_until_idle()
        if is_lost:
            deployments.flush_redis("marks")
        await api.ack_many(alice, (ids[0], 1), (ids[1], 2))
        await api.mark_many_read(alice, *ids[:3])
        await api.send(others[3], alice)
        await api.mark_all_read(alice)
        await api.wait_until_idle()
        await api.services.app.hub.check_feeds()
        await devices[1].resume(api)
        for device in devices:
            await device.agrees()
        if not is_lost:
            for device in devices[:2]:
                reads = [(id, seq) for id, _, status, seq in device.receipts if status == "READ"]
                assert reads == [(ids[0], 2), (ids[1], 2), (ids[2], 2), (ids[3], 3)]
        await api.wait_until_idle()
        deployments.flush_redis("marks")
        assert {(s["unreadCount"], s["unreadStatus"]) for s in await api.sessions(alice)} == {(0, False)}


@pytest.mark.parametrize(
    ("query", "variables", "expected"),
    [
        (MARK_MANY_READ, {"ids": ["@1"] * 201}, Refusal("INVALID_INPUT", "conversationIds")),
        (MARK_MANY_READ, {"ids": ["@1", "p_x_y"]}, Refusal("NOT_FOUND", "conversationIds")),
        (MARK_MANY_READ, {"ids": ["@1", "b_shop"]}, Refusal("NOT_FOUND", "conversationIds")),
        (MARK_MANY_READ, {"ids": ["@1", ""]}, Refusal("NOT_FOUND", "conversationIds")),
        (ACK_MANY, {"marks": [("@1", 1)] * 201}, Refusal("INVALID_INPUT", "marks")),
        (ACK_MANY, {"marks": [("@1", 1), ("@2", -1)]}, Refusal("INVALID_INPUT", "upToSeq")),
        (ACK_MANY, {"marks": [("@1", 1), ("p_x_y", 1)]}, Refusal("NOT_FOUND", "conversationId")),
        (ACK_MANY, {"marks": [("@1", 1), ("", 1)]}, Refusal("NOT_FOUND", "conversationId")),
        (ACK_MANY, {"marks": [("@1", 1), ("b_spa", 1)]}, Refusal("INVALID_INPUT", "conversationId")),
    ],
    ids=str,
)
async def test_one_bad_mark_leaves_everything_as_it_was(
    api: Api, query: str, variables: Json, expected: Refusal
) -> None:
    alice, others, ids = await create_unread(api, 2)
    await api.send(others[0], alice, subBiz="spa")
    names = {"@1": ids[0], "@2": ids[1]}
    if "ids" in variables:
        variables = {"ids": [names.get(id, id) for id in variables["ids"]]}
    else:
        marks = [{"conversationId": names.get(id, id), "upToSeq": seq} for id, seq in variables["marks"]]
        variables = {"marks": marks}
    synced, before = await api.listen(alice, LIVE_SESSIONS), await snapshot(api, [alice, *others])
    assert await api.expect_refusal(alice, query, **variables) == expected
    assert await snapshot(api, [alice, *others]) == before
    await synced.expect_no_event(0.03)


async def test_two_hundred_marks_are_accepted(api: Api) -> None:
    alice, _, ids = await create_unread(api, 1)
    assert ids_of(await api.ack_many(alice, *[(ids[0], 2)] * 200)) == ids
    assert ids_of(await api.mark_many_read(alice, *ids * 200)) == ids
