"""Sessions in channels: each user's own read state, which nobody else's messages change."""

from __future__ import annotations

from typing import Any

import pytest

from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import (
    ACK,
    FIND,
    LIVE,
    MUTE,
    READ,
    READ_MANY,
    UNREAD,
    attention_of,
    change,
    session_of,
)
from tests.api.client import SYNC, Api, Refusal
from tests.api.sample_channels import SampleChannels
from tests.api.session_calls import ASSIGN, DELETE, PIN, SESSIONS

OFFLINE = "{ offlineMessages { edges { node { id } } } sessionCategories { categoryId } }"


async def test_a_session_begins_with_the_first_message_or_reading(api: Api, workspace: SampleChannels) -> None:
    assert await session_of(api, workspace.member, workspace.general) is None
    await api.send(workspace.other, workspace.general, "one")
    await api.send(workspace.other, workspace.general, "two")
    assert await session_of(api, workspace.member, workspace.general) is None
    read = await change(api, workspace.member, READ, id=workspace.general, seq=1)
    assert (read["readSeq"], read["writeSeq"], read["unreadCount"], read["readCount"]) == (1, 2, 1, 1)
    sent = (await api.send(workspace.member, workspace.general, "three"))["session"]
    assert (sent["readSeq"], sent["writeSeq"], sent["unreadCount"]) == (3, 3, 0)
    await api.send(workspace.other, workspace.general, "four")
    found = await session_of(api, workspace.member, workspace.general)
    assert found is not None and (found["writeSeq"], found["unreadCount"], found["status"]) == (4, 1, "ACTIVE")
    assert found["lastMessage"]["content"] == "four" and found["conversation"]["id"] == workspace.general


async def test_the_write_time_stays_if_a_server_whose_clock_is_behind_writes_next(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = (await api.send(workspace.member, workspace.general, "one"))["session"]["writeTs"]
    commits: Any = api.services.app.delivery.commit_stage
    monkeypatch.setattr(commits._timestamps, "take", lambda count: [first - 5_000] * count)
    sent = (await api.send(workspace.member, workspace.general, "two"))["session"]
    assert (sent["writeTs"], sent["writeSeq"]) == (first, 2)
    assert await session_of(api, workspace.member, workspace.general) == sent


async def test_sessions_in_channels_are_in_no_list_and_no_sum(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general, "one")
    await api.send(workspace.other, workspace.general, "two")
    found = (await api.data(workspace.member, SESSIONS))["sessions"]
    assert found["edges"] == [] and found["totalUnread"] == 0
    assert (await api.data(workspace.member, SYNC))["syncSessions"]["sessions"] == []
    assert await api.data(workspace.member, OFFLINE) == {"offlineMessages": {"edges": []}, "sessionCategories": []}
    assert await change(api, workspace.member, READ_MANY) == []
    assert await attention_of(api, workspace.member) == (0, 0)


@pytest.mark.parametrize("is_cached", [True, False])
async def test_changes_of_a_session_survive_the_loss_of_the_cache(
    api: Api, workspace: SampleChannels, is_cached: bool
) -> None:
    await api.send(workspace.other, workspace.general, "one")
    await api.send(workspace.other, workspace.general, "two")
    muted = await change(api, workspace.member, MUTE, id=workspace.general, muted=True)
    assert (muted["muteStatus"], muted["readSeq"], muted["unreadCount"]) == (True, 2, 0)
    await api.send(workspace.other, workspace.general, "three")
    marked = await change(api, workspace.member, UNREAD, id=workspace.general)
    assert (marked["unreadStatus"], marked["unreadCount"], marked["writeSeq"]) == (True, 1, 3)
    acked = await change(api, workspace.member, ACK, id=workspace.general, seq=9)
    assert (acked["deliveredSeq"], acked["unreadStatus"]) == (3, True)
    if not is_cached:
        await api.services.app.store.cache.run([Call("FLUSHALL", ())])
    found = await session_of(api, workspace.member, workspace.general)
    assert found is not None
    # Loading a state that changed a moment ago gives its sessions new ticks.
    assert {**found, "activeTs": 0} == {**acked, "activeTs": 0} and found["activeTs"] >= acked["activeTs"]
    read = await change(api, workspace.member, READ, id=workspace.general)
    assert (read["readSeq"], read["unreadStatus"], read["muteStatus"]) == (3, False, True)


async def test_a_change_without_effect_moves_no_clock(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.other, workspace.general)
    await change(api, workspace.member, READ, id=workspace.general)
    await change(api, workspace.member, MUTE, id=workspace.general, muted=True)
    device = await api.listen(workspace.member, LIVE)
    before = await session_of(api, workspace.member, workspace.general)
    assert await change(api, workspace.member, READ, id=workspace.general) == before
    assert await change(api, workspace.member, READ, id=workspace.general, seq=0) == before
    assert await change(api, workspace.member, ACK, id=workspace.general, seq=1) == before
    assert await change(api, workspace.member, MUTE, id=workspace.general, muted=True) == before
    await device.expect_no_event()


async def test_devices_learn_of_changes_and_of_own_messages(api: Api, workspace: SampleChannels) -> None:
    device, others = await api.listen(workspace.member, LIVE), await api.listen(workspace.other, LIVE)
    await api.send(workspace.member, workspace.general)
    event = await device.next()
    assert event["reason"] == "READ"
    assert event["sessions"] == [await session_of(api, workspace.member, workspace.general)]
    await api.send(workspace.other, workspace.general)
    await others.next()
    await change(api, workspace.member, READ_MANY, ids=[workspace.general])
    event = await device.next()
    assert event["reason"] == "READ" and event["sessions"][0]["readSeq"] == 2
    await change(api, workspace.member, MUTE, id=workspace.general, muted=True)
    event = await device.next()
    assert (event["reason"], event["sessions"][0]["writeSeq"]) == ("MUTE", 2)
    await others.expect_no_event()


@pytest.mark.parametrize(
    ("query", "variables", "field"),
    [
        (PIN, {"priority": 1}, "conversationId"),
        (DELETE, {}, "conversationId"),
        (ASSIGN, {"category": "work"}, "conversationIds"),
    ],
)
async def test_operations_that_do_not_apply_to_channels_are_refused(
    api: Api, workspace: SampleChannels, query: str, variables: dict[str, object], field: str
) -> None:
    await api.send(workspace.member, workspace.general)
    before = await api.stored_hashes()
    ids = {"id": workspace.general} if field == "conversationId" else {"ids": [workspace.general]}
    refusal = await api.expect_refusal(workspace.member, query, **ids, **variables)
    assert refusal == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == before


@pytest.mark.parametrize("query", [READ, MUTE, UNREAD, ACK])
async def test_channels_that_a_user_cannot_see_do_not_exist(api: Api, workspace: SampleChannels, query: str) -> None:
    await api.send(workspace.member, workspace.staff)
    before = await api.stored_hashes()
    variables = {"id": workspace.staff, "muted": True, "seq": 1} if query in (MUTE, ACK) else {"id": workspace.staff}
    for user in (workspace.owner, workspace.outsider):
        assert (await api.expect_refusal(user, query, **variables)).code == "NOT_FOUND"
    assert await api.stored_hashes() == before


async def test_a_session_is_gone_while_its_channel_is_hidden(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.staff)
    assert await session_of(api, workspace.member, workspace.staff) is not None
    policy = workspace.policy
    await workspace.overwrite(workspace.staff, workspace.member, Permission.VIEW_CHANNEL)
    assert (await api.data(workspace.member, FIND, id=workspace.staff))["session"] is None
    await workspace.change(policy)
    await workspace.remove_from_staff(workspace.member)
    assert (await api.data(workspace.member, FIND, id=workspace.staff))["session"] is None


async def test_a_change_in_a_channel_that_is_hidden_meanwhile_is_left_out(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event waits, for example for a database, while its user loses the right to see the channel."""
    for channel in (workspace.general, workspace.staff):
        await api.send(workspace.moderator, channel)
    device, hub, waiting = await api.listen(workspace.member, LIVE), api.services.app.hub, list[Any]()
    with monkeypatch.context() as patched:
        patched.setattr(hub, "receive", lambda *event: waiting.append(event))
        for channel in (workspace.general, workspace.staff):
            await change(api, workspace.member, READ, id=channel)
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    for event in waiting:
        hub.receive(*event)
    read = [await device.next(), await device.next()]
    assert [[session["conversation"]["id"] for session in event["sessions"]] for event in read] == [
        [],
        [workspace.staff],
    ]
