"""Messages revive a deleted session; SYSTEM messages do not. Receipts for messages that were deleted unread."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, private_id
from tests.api.conftest import Deployments

soft_and_hard = pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])


async def create_conversation(api: Api, unread: int = 3) -> tuple[str, str, str]:
    """Return alice, bob who wrote to her, and their conversation, which she pinned, muted and categorised."""
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


def user_settings(session: Json) -> tuple[int, bool, str | None]:
    return session["priority"], session["muteStatus"], session["categoryId"]


def receipt_fields(event: Json) -> tuple[str, str, str, int]:
    assert event["__typename"] == "ReceiptAdvanced", event
    return event["conversationId"], event["user"]["id"], event["status"], event["seq"]


@soft_and_hard
async def test_a_message_revives_a_deleted_session(api: Api, other_api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
    deleted = await api.delete(alice, conversation, hard)
    cursor = (await api.data(alice, SYNC))["syncSessions"]["cursor"]
    synced = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    live = await other_api.listen(alice)
    await api.send(bob, alice, "new")
    session = await api.own_session(alice, conversation)
    assert state(session) == ("ACTIVE", 4, 3, 1)
    assert user_settings(session) == ((0, False, None) if hard else (5, True, "work"))
    assert session["activeTs"] > deleted["activeTs"]
    assert await api.sessions(alice) == [session]
    assert await api.total_unread(alice) == (1 if hard else 0)
    assert (await api.data(alice, SYNC, since=cursor))["syncSessions"]["sessions"] == [session]
    assert (await live.next())["message"]["content"] == "new"
    for device in synced:
        await device.expect_no_event(0.03)


@soft_and_hard
async def test_the_users_own_message_revives_a_deleted_session(api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.delete(alice, conversation, hard)
    session = (await api.send(alice, bob))["session"]
    assert state(session) == ("ACTIVE", 4, 4, 0)
    assert user_settings(session) == ((0, False, None) if hard else (5, True, "work"))
    assert await api.sessions(alice) == [session]
    assert await api.total_unread(alice) == 0


@soft_and_hard
async def test_a_system_message_does_not_revive_a_deleted_group_session(api: Api, hard: bool) -> None:
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


async def test_messages_unread_at_the_deletion_stay_uncounted(api: Api) -> None:
    alice, bob, conversation = await create_conversation(api, unread=5)
    await api.mark_read(alice, conversation, 2)
    assert state(await api.delete(alice, conversation)) == ("INVALID", 5, 5, 0)
    for _ in range(2):
        await api.send(bob, alice)
    assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 7, 5, 2)
    assert state(await api.mark_read(alice, conversation, 6)) == ("ACTIVE", 7, 6, 1)


async def test_a_session_can_be_deleted_and_revived_repeatedly(api: Api) -> None:
    alice, bob, conversation = await create_conversation(api)
    for turn in range(3):
        deleted = await api.delete(alice, conversation)
        assert state(deleted) == ("INVALID", 3 + 2 * turn, 3 + 2 * turn, 0)
        for _ in range(2):
            await api.send(bob, alice)
        assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 5 + 2 * turn, 3 + 2 * turn, 2)
    await api.unmute(alice, conversation)
    assert await api.total_unread(alice) == 2


async def test_a_message_revives_the_deleted_session_of_an_empty_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    assert state(await api.delete(bob, group)) == ("INVALID", 0, 0, 0)
    await api.send(carol, group)
    assert state(await api.own_session(bob, group)) == ("ACTIVE", 1, 0, 1)


@soft_and_hard
async def test_the_peer_sees_no_read_position_until_a_real_read(api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
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
        assert receipt_fields(await listener.next()) == (conversation, alice, "READ", 4)
        await listener.expect_no_event(0.02)
    peer = await api.own_session(bob, conversation)
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (4, 4)


async def test_reading_a_revived_session_sends_receipts_since_the_last_read(api: Api) -> None:
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
        assert receipt_fields(await listeners[user].next()) == (group, dave, "READ", 4), user
    await api.wait_until_idle()
    for listener in listeners.values():
        await listener.expect_no_event(0.03)


async def test_writing_after_a_deletion_sends_a_receipt_to_the_peer(api: Api) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.delete(alice, conversation)
    await api.wait_until_idle()
    listener, own_device = await api.listen(bob), await api.listen(alice)
    await api.send(alice, bob)
    assert (await listener.next())["message"]["seq"] == 4
    assert receipt_fields(await listener.next()) == (conversation, alice, "READ", 4)
    assert (await own_device.next())["message"]["seq"] == 4
    await api.wait_until_idle()
    for device in (listener, own_device):
        await device.expect_no_event(0.03)
    peer = await api.own_session(bob, conversation)
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (4, 4)


@pytest.mark.parametrize("seq", [0, 1, 3])
async def test_reading_up_to_a_deleted_position_changes_nothing(api: Api, seq: int) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.delete(alice, conversation)
    await api.send(bob, alice)
    await api.wait_until_idle()
    listeners = [await api.listen(bob), await api.listen(alice), await api.listen(alice, LIVE_SESSIONS)]
    before, stored = await api.own_session(alice, conversation), await api.stored_hashes()
    assert state(before) == ("ACTIVE", 4, 3, 1)
    assert await api.mark_read(alice, conversation, seq) == before
    assert await api.stored_hashes() == stored
    for listener in listeners:
        await listener.expect_no_event(0.03)
    assert (await api.own_session(bob, conversation))["peerReadSeq"] == 0


@pytest.mark.parametrize("when", ["before the message", "before reading", "after reading"])
async def test_a_revived_session_survives_the_loss_of_the_cache(
    losing_api: Api, deployments: Deployments, when: str
) -> None:
    api = losing_api
    alice, bob, conversation = await create_conversation(api)
    await api.unmute(alice, conversation)
    await api.delete(alice, conversation)

    async def lose_redis_at(moment: str) -> None:
        await api.wait_until_idle()
        if moment == when:
            deployments.flush_redis("lost")

    await lose_redis_at("before the message")
    await api.send(bob, alice)
    await lose_redis_at("before reading")
    assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 4, 3, 1)
    peer = await api.own_session(bob, conversation)
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (0, 0)
    await api.mark_read(alice, conversation)
    await lose_redis_at("after reading")
    assert state(await api.own_session(alice, conversation)) == ("ACTIVE", 4, 4, 0)
    peer = await api.own_session(bob, conversation)
    assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (4, 4)
    assert (await api.total_unread(alice), await api.total_unread(bob)) == (0, 0)


async def test_the_peer_keeps_seeing_the_read_position_before_a_deletion(
    losing_api: Api, deployments: Deployments
) -> None:
    api = losing_api
    alice, bob, conversation = await create_conversation(api)
    await api.mark_read(alice, conversation, 2)
    await api.delete(alice, conversation)
    await api.wait_until_idle()
    for _ in range(2):
        peer = await api.own_session(bob, conversation)
        assert (peer["peerReadSeq"], peer["peerDeliveredSeq"]) == (2, 2)
        deployments.flush_redis("lost")
