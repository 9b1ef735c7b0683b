"""muteSession: what counts while a session is muted, and until when."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import OpenApi
from tests.api.session_calls import MUTE, iso
from tests.clock import ManualClock


async def test_a_muted_session_is_not_in_the_total(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender, count in ((bob, 2), (carol, 3)):
        for _ in range(count):
            await api.send(sender, alice)
    muted = await api.mute(alice, private_id(alice, bob))
    assert (muted["muteStatus"], muted["mutedUntil"], muted["unreadCount"]) == (True, None, 2)
    assert await api.total_unread(alice) == 3
    unmuted = await api.unmute(alice, private_id(alice, bob))
    assert (unmuted["muteStatus"], unmuted["mutedUntil"], unmuted["unreadCount"]) == (False, None, 2)
    assert await api.total_unread(alice) == 5


async def test_messages_to_a_muted_session_count_in_the_session_only(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await api.send(bob, alice)
    await api.mute(alice, conversation)
    await api.send(bob, alice)
    assert (await api.unread(alice, conversation), await api.total_unread(alice)) == (2, 0)
    await api.mark_read(alice, conversation, 1)
    assert (await api.unread(alice, conversation), await api.total_unread(alice)) == (1, 0)
    await api.send(bob, alice)
    await api.unmute(alice, conversation)
    assert (await api.unread(alice, conversation), await api.total_unread(alice)) == (2, 2)


async def test_reading_a_muted_session_leaves_the_total_unchanged(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    for sender in (bob, bob, carol):
        await api.send(sender, alice)
    await api.mute(alice, private_id(alice, bob))
    await api.mark_read(alice, private_id(alice, bob))
    await api.send(bob, alice)
    await api.send(alice, bob)
    assert await api.total_unread(alice) == 1
    await api.unmute(alice, private_id(alice, bob))
    assert await api.total_unread(alice) == 1


async def test_muting_changes_neither_the_order_nor_other_users(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="The group")
    await api.send(bob, group)
    await api.send(bob, alice)
    await api.mute(alice, group)
    assert await api.titles(alice) == [bob, "The group"]
    await api.send(bob, group)
    assert await api.titles(alice) == ["The group", bob]
    others_session = await api.own_session(carol, group)
    assert (others_session["muteStatus"], others_session["unreadCount"], await api.total_unread(carol)) == (False, 2, 2)


async def create_conversation(api: Api, unread: int = 2) -> tuple[str, str, str]:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(unread):
        await api.send(bob, alice)
    return alice, bob, private_id(alice, bob)


@pytest.mark.parametrize(
    ("until", "returned"),
    [
        ("2200-01-02T03:04:05.678Z", "2200-01-02T03:04:05.678Z"),
        ("2200-01-02T03:04:05Z", "2200-01-02T03:04:05.000Z"),
        ("2200-01-02T03:04:05.678+02:00", "2200-01-02T01:04:05.678Z"),
        ("2200-01-01T23:04:05.678-05:30", "2200-01-02T04:34:05.678Z"),
    ],
)
async def test_muted_until_is_returned_in_utc_with_milliseconds(api: Api, until: str, returned: str) -> None:
    alice, _, conversation = await create_conversation(api)
    session = (await api.data(alice, MUTE, id=conversation, muted=True, until=until))["muteSession"]
    assert (session["muteStatus"], session["mutedUntil"]) == (True, returned)
    assert await api.session(alice, conversation) == session


@pytest.mark.parametrize("until", ["3000-01-01T00:00:00.123Z", "9999-12-31T23:59:59.999Z"])
async def test_the_latest_representable_end_is_accepted(api: Api, until: str) -> None:
    alice, _, conversation = await create_conversation(api)
    session = (await api.data(alice, MUTE, id=conversation, muted=True, until=until))["muteSession"]
    assert (session["mutedUntil"], session["muteStatus"]) == (until, True)
    assert await api.sessions(alice) == [session]


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59.999-00:01", "9999-12-31T20:00:00-12:00"])
async def test_an_end_outside_the_range_of_utc_dates_is_refused(api: Api, until: str) -> None:
    alice, _, conversation = await create_conversation(api)
    before, stored = await api.sessions(alice), await api.stored_hashes()
    refusal = await api.expect_refusal(alice, MUTE, id=conversation, muted=True, until=until)
    assert refusal.code == "INVALID_INPUT"
    assert await api.stored_hashes() == stored
    assert await api.sessions(alice) == before


async def test_an_end_in_the_past_or_for_unmuting_is_refused(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, conversation = await create_conversation(api)
        for muted in (False, True):
            if muted:
                await api.mute(alice, conversation)
            before, stored = await api.session(alice, conversation), await api.stored_hashes()
            invalid = [(True, clock.ms), (True, clock.ms - 1), (True, 0), (False, clock.ms + 60_000), (False, 0)]
            for status, until in invalid:
                refusal = await api.expect_refusal(alice, MUTE, id=conversation, muted=status, until=iso(until))
                assert refusal == Refusal("INVALID_INPUT", "until"), (status, until)
            assert await api.stored_hashes() == stored
            assert await api.session(alice, conversation) == before
        assert (await api.mute(alice, conversation, clock.ms + 1))["muteStatus"] is True


async def test_another_end_replaces_the_previous_one(api: Api) -> None:
    alice, _, conversation = await create_conversation(api)
    ends = []
    for until in (4_000_000_000_000, 4_000_000_000_001, 3_000_000_000_000, None, 3_000_000_000_000):
        session = await api.mute(alice, conversation, until)
        ends.append(session["mutedUntil"])
        assert session == await api.session(alice, conversation)
    assert ends == [
        "2096-10-02T07:06:40.000Z",
        "2096-10-02T07:06:40.001Z",
        "2065-01-24T05:20:00.000Z",
        None,
        "2065-01-24T05:20:00.000Z",
    ]
    assert (await api.unmute(alice, conversation))["mutedUntil"] is None


async def test_other_changes_keep_the_mute(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("still", clock) as api:
        alice, bob, conversation = await create_conversation(api)
        until = clock.ms + 20_000
        await api.mute(alice, conversation, until)
        await api.mark_read(alice, conversation)
        await api.send(alice, bob)
        await api.pin(alice, conversation)
        await api.assign(alice, "work", conversation)
        await api.set_unread(alice, conversation)
        clock.ms = until - 1
        session = await api.own_session(alice, conversation)
        assert (session["muteStatus"], session["mutedUntil"]) == (True, iso(until))


def mute_state(session: Json) -> tuple[bool, str | None, int]:
    return session["muteStatus"], session["mutedUntil"], session["unreadCount"]


@pytest.mark.parametrize("replacement", ["unmuted", "without an end", "with a later end"])
async def test_a_replaced_mute_does_not_end_at_its_old_time(open_api: OpenApi, replacement: str) -> None:
    clock = ManualClock()
    async with open_api(f"replaced {replacement}", clock) as api:
        alice, _, conversation = await create_conversation(api)
        until = clock.ms + 10_000
        await api.mute(alice, conversation, until)
        match replacement:
            case "unmuted":
                session = await api.unmute(alice, conversation)
            case "without an end":
                session = await api.mute(alice, conversation)
            case _:
                session = await api.mute(alice, conversation, until + 10_000)
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until + 5_000
        await device.expect_no_event(1.2)
        assert await api.session(alice, conversation) == session
        assert await api.total_unread(alice) == (2 if replacement == "unmuted" else 0)
        if replacement == "with a later end":
            clock.ms = until + 10_000
            event = await device.next()
            assert (event["reason"], mute_state(event["sessions"][0])) == ("UNMUTE", (False, None, 2))


async def test_an_earlier_end_replaces_a_later_one(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("earlier", clock) as api:
        alice, _, conversation = await create_conversation(api)
        await api.mute(alice, conversation, clock.ms + 40_000)
        await api.mute(alice, conversation, until := clock.ms + 10_000)
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next()
        assert (event["reason"], event["sessions"][0]["activeTs"]) == ("UNMUTE", until)
        clock.ms += 35_000
        await device.expect_no_event(1.2)


async def test_unmuting_at_the_end_of_a_mute_sends_one_event(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("at the end", clock) as api, open_api("at the end", clock) as other:
        alice, _, conversation = await create_conversation(api)
        for turn in range(3):
            until = clock.ms + 5_000
            await api.mute(alice, conversation, until)
            devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other)]
            clock.ms = until + turn
            await gather_all(*(process.unmute(alice, conversation) for process in (api, other)))
            for device in devices:
                event = await device.next()
                assert (event["reason"], event["totalUnread"]) == ("UNMUTE", 2)
                await device.expect_no_event(0.5)
            assert mute_state(await api.own_session(alice, conversation)) == (False, None, 2)


async def test_a_session_can_be_muted_again_after_the_end(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("again", clock) as api:
        alice, _, conversation = await create_conversation(api)
        await api.mute(alice, conversation, clock.ms + 1_000)
        clock.ms += 1_000
        before = await api.own_session(alice, conversation)
        session = await api.mute(alice, conversation, clock.ms + 20_000)
        assert mute_state(session) == (True, iso(clock.ms + 20_000), 2)
        assert session["activeTs"] > before["activeTs"]
        assert await api.total_unread(alice) == 0
        device = await api.listen(alice, LIVE_SESSIONS)
        await device.expect_no_event(1.2)
        assert await api.session(alice, conversation) == session
