"""What brings a deleted session back, what doesn't, and what is told of what was never read."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, private_id
from tests.api.conftest import Deployments, OpenApi

both = pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])


async def talk(api: Api, unread: int = 3) -> tuple[str, str, str]:
    """Somebody to whom somebody else wrote, pinned, muted and filed. Answers them, and where."""
    alice, bob = await api.create_users("alice", "bob")
    for number in range(unread):
        await api.send(bob, alice, f"{number}")
    conversation = private_id(alice, bob)
    await api.pin(alice, conversation, 5)
    await api.mute(alice, conversation)
    await api.assign(alice, "work", conversation)
    return alice, bob, conversation


def state(session: Json) -> tuple[str, int, int, int]:
    return session["status"], session["writeSeq"], session["readSeq"], session["unreadCount"]


def kept(session: Json) -> tuple[int, bool, str | None]:
    return session["priority"], session["muteStatus"], session["categoryId"]


def receipt(event: Json) -> tuple[str, str, str, int]:
    assert event["__typename"] == "ReceiptAdvanced", event
    return event["conversationId"], event["user"]["id"], event["status"], event["seq"]


@both
async def test_a_message_brings_it_back_as_it_was(api: Api, other_api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
    deleted = await api.delete(alice, conversation, hard)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    synced = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    live = await other_api.listen(alice)
    await api.send(bob, alice, "new")
    session = await api.own_session(alice, conversation)
    assert state(session) == ("ACTIVE", 4, 3, 1)
    assert kept(session) == ((0, False, None) if hard else (5, True, "work"))
    assert session["activeTs"] > deleted["activeTs"]
    assert await api.sessions(alice) == [session]
    assert await api.total_unread(alice) == (1 if hard else 0)
    assert (await api.data(alice, SYNC, since=cursor))["syncSessions"]["sessions"] == [session]
    assert (await live.next())["message"]["content"] == "new"
    for device in synced:
        await device.expect_no_event(0.03)


@both
async def test_ones_own_message_brings_it_back_too(api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
    await api.delete(alice, conversation, hard)
    session = (await api.send(alice, bob))["session"]
    assert state(session) == ("ACTIVE", 4, 4, 0)
    assert kept(session) == ((0, False, None) if hard else (5, True, "work"))
    assert await api.sessions(alice) == [session]
    assert await api.total_unread(alice) == 0


@both
async def test_a_deleted_group_comes_back_with_a_message_and_not_with_a_system_message(api: Api, hard: bool) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.delete(bob, group, hard)
    for invited in (dave, erin):
        await api.invite(carol, group, invited)
        assert (await api.own_session(bob, group))["status"] == "INVALID"
        assert (await api.sessions(bob), await api.total_unread(bob)) == ([], 0)
        assert await api.unread(bob, group) == 0
    assert (await api.data(bob, SYNC))["syncSessions"]["sessions"] == []
    await api.send(erin, group)
    session = await api.own_session(bob, group)
    assert (session["status"], session["writeSeq"], session["unreadCount"]) == ("ACTIVE", 4, 1)
    assert await api.total_unread(bob) == 1


async def test_what_was_unread_when_it_was_deleted_does_not_come_back(api: Api) -> None:
    alice, bob, conversation = await talk(api, unread=5)
    await api.mark_read(alice, conversation, 2)
    assert state(await api.delete(alice, conversation)) == ("INVALID", 5, 5, 0)
    for _ in range(2):
        await api.send(bob, alice)
    assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 7, 5, 2)
    assert state(await api.mark_read(alice, conversation, 6)) == ("ACTIVE", 7, 6, 1)


async def test_it_can_be_deleted_again_and_come_back_again(api: Api) -> None:
    alice, bob, conversation = await talk(api)
    for turn in range(3):
        deleted = await api.delete(alice, conversation)
        assert state(deleted) == ("INVALID", 3 + 2 * turn, 3 + 2 * turn, 0)
        for _ in range(2):
            await api.send(bob, alice)
        assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 5 + 2 * turn, 3 + 2 * turn, 2)
    await api.unmute(alice, conversation)
    assert await api.total_unread(alice) == 2


async def test_writing_to_an_empty_group_that_was_deleted_brings_it_back(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    assert state(await api.delete(bob, group)) == ("INVALID", 0, 0, 0)
    await api.send(carol, group)
    assert state(await api.own_session(bob, group)) == ("ACTIVE", 1, 0, 1)


# --- receipts


@both
async def test_the_peer_sees_nothing_read_until_it_is(api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
    await api.delete(alice, conversation, hard)
    await api.send(bob, alice)
    await api.wait_until_idle()
    for _ in range(2):
        peer = await api.own_session(bob, conversation)
        assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (0, 0)
    listeners = {user: await api.listen(user) for user in (alice, bob)}
    session = await api.mark_read(alice, conversation)
    assert state(session) == ("ACTIVE", 4, 4, 0)
    for listener in listeners.values():
        assert receipt(await listener.next()) == (conversation, alice, "READ", 4)
        await listener.expect_no_event(0.02)
    peer = await api.own_session(bob, conversation)
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (4, 4)


async def test_reading_what_came_after_tells_all_who_wrote_since_the_last_real_read(api: Api) -> None:
    alice, bob, carol, dave, erin = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(alice, bob, carol, dave, erin)
    await api.send(erin, group)
    await api.mark_read(dave, group)
    await api.send(bob, group)
    await api.send(carol, group)
    await api.delete(dave, group)
    await api.send(alice, group)
    await api.wait_until_idle()
    listeners = {user: await api.listen(user) for user in (alice, bob, carol, dave, erin)}
    await api.mark_read(dave, group)
    for user in (alice, bob, carol, dave):
        assert receipt(await listeners[user].next()) == (group, dave, "READ", 4), user
    await api.wait_until_idle()
    for listener in listeners.values():
        await listener.expect_no_event(0.03)


async def test_writing_after_deleting_tells_those_whose_messages_that_reads(api: Api) -> None:
    alice, bob, conversation = await talk(api)
    await api.delete(alice, conversation)
    await api.wait_until_idle()
    listener, own = await api.listen(bob), await api.listen(alice)
    await api.send(alice, bob)
    assert (await listener.next())["message"]["seq"] == 4
    assert receipt(await listener.next()) == (conversation, alice, "READ", 4)
    assert (await own.next())["message"]["seq"] == 4
    await api.wait_until_idle()
    for device in (listener, own):
        await device.expect_no_event(0.03)
    peer = await api.own_session(bob, conversation)
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (4, 4)


@pytest.mark.parametrize("seq", [0, 1, 3])
async def test_reading_no_further_than_was_deleted_changes_nothing(api: Api, seq: int) -> None:
    alice, bob, conversation = await talk(api)
    await api.delete(alice, conversation)
    await api.send(bob, alice)
    await api.wait_until_idle()
    listeners = [await api.listen(bob), await api.listen(alice), await api.listen(alice, LIVE_SESSIONS)]
    before, stored = await api.own_session(alice, conversation), await api.stored_documents()
    assert state(before) == ("ACTIVE", 4, 3, 1)
    assert await api.mark_read(alice, conversation, seq) == before
    assert await api.stored_documents() == stored
    for listener in listeners:
        await listener.expect_no_event(0.03)
    assert (await api.own_session(bob, conversation))["peerReadSeq"] == 0


@pytest.mark.parametrize("when", ["before the message", "before reading", "after reading"])
async def test_that_holds_though_the_cache_is_lost(open_api: OpenApi, deployments: Deployments, when: str) -> None:
    async with open_api("lost") as api:
        alice, bob, conversation = await talk(api)
        await api.unmute(alice, conversation)
        await api.delete(alice, conversation)

        async def lose(now: str) -> None:
            await api.wait_until_idle()
            if now == when:
                deployments.flush_redis("lost")

        await lose("before the message")
        await api.send(bob, alice)
        await lose("before reading")
        assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 4, 3, 1)
        peer = await api.own_session(bob, conversation)
        assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (0, 0)
        await api.mark_read(alice, conversation)
        await lose("after reading")
        assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 4, 4, 0)
        peer = await api.own_session(bob, conversation)
        assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (4, 4)
        assert (await api.total_unread(alice), await api.total_unread(bob)) == (0, 0)


async def test_an_earlier_read_stays_what_the_peer_sees(open_api: OpenApi, deployments: Deployments) -> None:
    async with open_api("lost") as api:
        alice, bob, conversation = await talk(api)
        await api.mark_read(alice, conversation, 2)
        await api.delete(alice, conversation)
        await api.wait_until_idle()
        for _ in range(2):
            peer = await api.own_session(bob, conversation)
            assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (2, 2)
            deployments.flush_redis("lost")
