"""Muting: what counts while it lasts, and how it ends."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, Api, Json, Refusal, gather_all, private_id
from tests.api.conftest import OpenApi
from tests.api.session_calls import MUTE, iso
from tests.clock import ManualClock


async def test_what_is_muted_is_left_out_of_the_total_and_comes_back(api: Api) -> None:
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


async def test_what_comes_while_it_is_muted_counts_in_the_session_only(api: Api) -> None:
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


async def test_reading_what_is_muted_leaves_the_total_alone(api: Api) -> None:
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


async def test_muting_leaves_the_list_and_everybody_else_alone(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="The group")
    await api.send(bob, group)
    await api.send(bob, alice)
    await api.mute(alice, group)
    assert await api.titles(alice) == [bob, "The group"]
    await api.send(bob, group)
    assert await api.titles(alice) == ["The group", bob]
    carols = await api.own_session(carol, group)
    assert (carols["muteStatus"], carols["unreadCount"], await api.total_unread(carol)) == (False, 2, 2)


# --- until


async def talk(api: Api, unread: int = 2) -> tuple[str, str, str]:
    alice, bob = await api.create_users("alice", "bob")
    for _ in range(unread):
        await api.send(bob, alice)
    return alice, bob, private_id(alice, bob)


@pytest.mark.parametrize(
    ("until", "shown"),
    [
        ("2200-01-02T03:04:05.678Z", "2200-01-02T03:04:05.678Z"),
        ("2200-01-02T03:04:05Z", "2200-01-02T03:04:05.000Z"),
        ("2200-01-02T03:04:05.678+02:00", "2200-01-02T01:04:05.678Z"),
        ("2200-01-01T23:04:05.678-05:30", "2200-01-02T04:34:05.678Z"),
    ],
)
async def test_the_end_is_shown_in_utc_with_milliseconds(api: Api, until: str, shown: str) -> None:
    alice, _, conversation = await talk(api)
    session = (await api.data(alice, MUTE, id=conversation, muted=True, until=until))["muteSession"]
    assert (session["muteStatus"], session["mutedUntil"]) == (True, shown)
    assert await api.session(alice, conversation) == session


@pytest.mark.parametrize("until", ["3000-01-01T00:00:00.123Z", "9999-12-31T23:59:59.999Z"])
async def test_an_end_may_be_as_far_off_as_can_be_written(api: Api, until: str) -> None:
    alice, _, conversation = await talk(api)
    session = (await api.data(alice, MUTE, id=conversation, muted=True, until=until))["muteSession"]
    assert (session["mutedUntil"], session["muteStatus"]) == (until, True)
    assert await api.sessions(alice) == [session]


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59.999-00:01", "9999-12-31T20:00:00-12:00"])
async def test_an_end_that_can_not_be_written_in_utc_is_refused(api: Api, until: str) -> None:
    alice, _, conversation = await talk(api)
    before, stored = await api.sessions(alice), await api.stored_documents()
    refusal = await api.expect_refusal(alice, MUTE, id=conversation, muted=True, until=until)
    assert refusal.code == "INVALID_INPUT"
    assert await api.stored_documents() == stored
    assert await api.sessions(alice) == before


async def test_an_end_that_is_not_to_come_or_of_no_mute_is_invalid(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ends", clock) as api:
        alice, _, conversation = await talk(api)
        for muted in (False, True):
            if muted:
                await api.mute(alice, conversation)
            before, stored = await api.session(alice, conversation), await api.stored_documents()
            wrong = [(True, clock.ms), (True, clock.ms - 1), (True, 0), (False, clock.ms + 60_000), (False, 0)]
            for status, until in wrong:
                refusal = await api.expect_refusal(alice, MUTE, id=conversation, muted=status, until=iso(until))
                assert refusal == Refusal("INVALID_INPUT", "until"), (status, until)
            assert await api.stored_documents() == stored
            assert await api.session(alice, conversation) == before
        assert (await api.mute(alice, conversation, clock.ms + 1))["muteStatus"] is True


async def test_another_end_replaces_the_one_there_was(api: Api) -> None:
    alice, _, conversation = await talk(api)
    shown = []
    for until in (4_000_000_000_000, 4_000_000_000_001, 3_000_000_000_000, None, 3_000_000_000_000):
        session = await api.mute(alice, conversation, until)
        shown.append(session["mutedUntil"])
        assert session == await api.session(alice, conversation)
    assert shown == [
        "2096-10-02T07:06:40.000Z",
        "2096-10-02T07:06:40.001Z",
        "2065-01-24T05:20:00.000Z",
        None,
        "2065-01-24T05:20:00.000Z",
    ]
    assert (await api.unmute(alice, conversation))["mutedUntil"] is None


async def test_who_read_and_wrote_meanwhile_is_still_muted(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("still", clock) as api:
        alice, bob, conversation = await talk(api)
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


def shown(session: Json) -> tuple[bool, str | None, int]:
    return session["muteStatus"], session["mutedUntil"], session["unreadCount"]


# --- a mute that is replaced does not end


@pytest.mark.parametrize("instead", ["unmuted", "for good", "until later"])
async def test_a_mute_that_was_replaced_does_not_end_when_it_would_have(open_api: OpenApi, instead: str) -> None:
    clock = ManualClock()
    async with open_api(f"replaced {instead}", clock) as api:
        alice, _, conversation = await talk(api)
        until = clock.ms + 10_000
        await api.mute(alice, conversation, until)
        match instead:
            case "unmuted":
                session = await api.unmute(alice, conversation)
            case "for good":
                session = await api.mute(alice, conversation)
            case _:
                session = await api.mute(alice, conversation, until + 10_000)
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until + 5_000
        await device.expect_no_event(1.2)
        assert await api.session(alice, conversation) == session
        assert await api.total_unread(alice) == (2 if instead == "unmuted" else 0)
        if instead == "until later":
            clock.ms = until + 10_000
            event = await device.next(within=2)
            assert (event["reason"], shown(event["sessions"][0])) == ("UNMUTE", (False, None, 2))


async def test_an_earlier_end_counts_from_then_on(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("earlier", clock) as api:
        alice, _, conversation = await talk(api)
        await api.mute(alice, conversation, clock.ms + 40_000)
        await api.mute(alice, conversation, until := clock.ms + 10_000)
        device = await api.listen(alice, LIVE_SESSIONS)
        clock.ms = until
        event = await device.next(within=2)
        assert (event["reason"], event["sessions"][0]["activeTs"]) == ("UNMUTE", until)
        clock.ms += 35_000
        await device.expect_no_event(1.2)


async def test_unmuting_just_as_it_ends_tells_of_it_once(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("just then", clock) as api, open_api("just then", clock) as other:
        alice, _, conversation = await talk(api)
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
            assert shown(await api.own_session(alice, conversation)) == (False, None, 2)


async def test_muting_again_after_it_ended_mutes(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("again", clock) as api:
        alice, _, conversation = await talk(api)
        await api.mute(alice, conversation, clock.ms + 1_000)
        clock.ms += 1_000
        before = await api.own_session(alice, conversation)
        session = await api.mute(alice, conversation, clock.ms + 20_000)
        assert shown(session) == (True, iso(clock.ms + 20_000), 2)
        assert session["activeTs"] > before["activeTs"]
        assert await api.total_unread(alice) == 0
        device = await api.listen(alice, LIVE_SESSIONS)
        await device.expect_no_event(1.2)
        assert await api.session(alice, conversation) == session
