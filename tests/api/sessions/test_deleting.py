"""deleteSession: the user's own session becomes invalid; the conversation stays."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, gather_all, private_id
from tests.api.conftest import Deployments

soft_and_hard = pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])


async def sync_sessions(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


async def create_conversation(api: Api, unread: int = 3) -> tuple[str, str, str]:
    """Return alice, bob who wrote to her, and their conversation."""
    alice, bob = await api.create_users("alice", "bob")
    for number in range(unread):
        await api.send(bob, alice, f"{number}")
    return alice, bob, private_id(alice, bob)


def user_settings(session: Json) -> tuple[int, bool, str | None]:
    return session["priority"], session["muteStatus"], session["categoryId"]


@soft_and_hard
async def test_a_deleted_session_is_invalid_and_neither_listed_nor_counted(api: Api, hard: bool) -> None:
    alice, _, conversation = await create_conversation(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    before = await api.own_session(alice, conversation)
    session = await api.delete(alice, conversation, hard)
    assert (session["status"], session["unreadCount"], session["unreadMentionCount"]) == ("INVALID", 0, 0)
    assert session["activeTs"] > before["activeTs"]
    assert session["writeTs"] == before["writeTs"]
    assert (session["writeSeq"], session["readSeq"], session["deliveredSeq"]) == (3, 3, 3)
    assert await api.session(alice, conversation) == session
    assert await api.titles(alice) == [carol]
    assert await api.total_unread(alice) == 1


@soft_and_hard
async def test_a_deleted_session_still_shows_its_conversation(api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
    session = await api.delete(alice, conversation, hard)
    assert session["conversation"] == {
        "__typename": "PrivateConversation",
        "id": conversation,
        "type": "PRIVATE",
        "title": bob,
    }
    assert session["lastMessage"]["content"] == "2"
    node = await api.data(alice, "query ($id: ID!) { node(id: $id) { ... on Session { status } } }", id=session["id"])
    assert node == {"node": {"status": "INVALID"}}


@soft_and_hard
async def test_deleting_a_session_keeps_the_history(api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.delete(alice, conversation, hard)
    for user in (alice, bob):
        assert [message["content"] for message in await api.history(user, conversation)] == ["0", "1", "2"]


@soft_and_hard
async def test_deleting_a_session_changes_nothing_for_others(api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.send(alice, bob)
    before = await api.session(bob, conversation)
    await api.delete(alice, conversation, hard)
    await api.wait_until_idle()
    assert await api.session(bob, conversation) == before
    assert await api.total_unread(bob) == 1


@soft_and_hard
async def test_deleting_sends_no_receipt(api: Api, hard: bool) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.wait_until_idle()
    before = await api.own_session(bob, conversation)
    listeners = [await api.listen(bob), await api.listen(bob, LIVE_SESSIONS), await api.listen(alice)]
    await api.delete(alice, conversation, hard)
    await api.wait_until_idle()
    for listener in listeners:
        await listener.expect_no_event(0.03)
    assert await api.session(bob, conversation) == before
    assert (before["peerReadSeq"], before["peerDeliveredSeq"]) == (0, 0)


@soft_and_hard
async def test_the_deleted_session_is_sent_to_other_devices(api: Api, other_api: Api, hard: bool) -> None:
    alice, _, conversation = await create_conversation(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    cursor = (await sync_sessions(api, alice))["cursor"]
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    session = await api.delete(alice, conversation, hard)
    for device in devices:
        event = await device.next()
        assert (event["reason"], event["sessions"], event["totalUnread"]) == ("DELETE", [session], 1)
        await device.expect_no_event(0.02)
    for process in (api, other_api):
        delta = await sync_sessions(process, alice, cursor)
        assert (delta["sessions"], delta["totalUnread"], delta["reset"]) == ([session], 1, False)
    assert [session["conversation"]["title"] for session in (await sync_sessions(api, alice))["sessions"]] == [carol]
    missed = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    event = await missed.next()
    assert (event["reason"], event["sessions"]) == ("CATCH_UP", [session])


async def test_soft_deletion_keeps_settings_and_hard_deletion_resets_them(api: Api) -> None:
    alice, _, conversation = await create_conversation(api)
    await api.pin(alice, conversation, 5)
    await api.mute(alice, conversation, 4_000_000_000_000)
    await api.assign(alice, "work", conversation)
    soft = await api.delete(alice, conversation)
    assert (user_settings(soft), soft["mutedUntil"]) == ((5, True, "work"), "2096-10-02T07:06:40.000Z")
    hard = await api.delete(alice, conversation, hard=True)
    assert (user_settings(hard), hard["mutedUntil"], hard["status"]) == ((0, False, None), None, "INVALID")
    assert hard["activeTs"] > soft["activeTs"]


@soft_and_hard
@pytest.mark.parametrize("hard_again", [False, True], ids=["soft again", "hard again"])
async def test_deleting_a_deleted_session_changes_nothing(api: Api, hard: bool, hard_again: bool) -> None:
    alice, _, conversation = await create_conversation(api)
    session = await api.delete(alice, conversation, hard)
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_hashes()
    assert await api.delete(alice, conversation, hard_again) == session
    assert await api.stored_hashes() == stored
    await device.expect_no_event(0.02)


async def test_a_second_soft_deletion_keeps_the_settings(api: Api) -> None:
    alice, _, conversation = await create_conversation(api)
    await api.pin(alice, conversation, 5)
    session = await api.delete(alice, conversation)
    assert await api.delete(alice, conversation) == session
    assert session["priority"] == 5


async def test_deleting_a_muted_session_leaves_the_total_unchanged(api: Api) -> None:
    alice, _, conversation = await create_conversation(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    await api.mute(alice, conversation)
    await api.delete(alice, conversation)
    assert await api.total_unread(alice) == 1
    await api.unmute(alice, conversation)
    assert await api.total_unread(alice) == 1


async def test_settings_of_a_deleted_session_do_not_revive_it(api: Api) -> None:
    alice, bob, conversation = await create_conversation(api)
    await api.delete(alice, conversation)
    await api.pin(alice, conversation, 9)
    await api.mute(alice, conversation)
    await api.assign(alice, "work", conversation)
    session = await api.set_unread(alice, conversation)
    assert (user_settings(session), session["unreadStatus"], session["status"]) == ((9, True, "work"), False, "INVALID")
    assert await api.session(alice, conversation) == session
    assert await api.sessions(alice) == await api.sessions(alice, category="work") == await api.categories(alice) == []
    assert (await sync_sessions(api, alice))["sessions"] == []
    assert await api.total_unread(alice) == 0
    await api.send(bob, alice)
    revived = await api.own_session(alice, conversation)
    assert (user_settings(revived), revived["status"], revived["unreadCount"]) == ((9, True, "work"), "ACTIVE", 1)


async def test_a_member_who_deletes_the_session_stays_in_the_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="The group")
    await api.send(alice, group)
    session = await api.delete(bob, group)
    assert session["conversation"] == {"__typename": "Group", "id": group, "type": "GROUP", "title": "The group"}
    query = "query ($id: ID!) { group(id: $id) { memberCount viewerRole } myGroups { edges { node { id } } } }"
    data = await api.data(bob, query, id=group)
    assert data["group"] == {"memberCount": 3, "viewerRole": "MEMBER"}
    assert data["myGroups"]["edges"] == [{"node": {"id": group}}]
    assert [message["seq"] for message in await api.history(bob, group)] == [1]
    assert (await api.send(carol, group))["message"]["seq"] == 2
    assert await api.unread(bob, group) == 1


async def test_inviting_a_member_again_does_not_revive_their_session(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    session = await api.delete(bob, group)
    device = await api.listen(bob, LIVE_SESSIONS)
    await api.invite(alice, group, bob)
    assert await api.session(bob, group) == session
    await device.expect_no_event(0.02)


async def test_the_owners_deleted_session_does_not_delete_the_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.delete(alice, group, hard=True)
    assert (await api.own_session(bob, group))["status"] == "ACTIVE"
    query = "query ($id: ID!) { group(id: $id) { status owner { id } } }"
    assert (await api.data(bob, query, id=group))["group"] == {"status": "ACTIVE", "owner": {"id": alice}}


@soft_and_hard
@pytest.mark.parametrize("kind", ["private", "group", "empty group"])
async def test_a_deletion_survives_the_loss_of_the_cache(
    losing_api: Api, deployments: Deployments, kind: str, hard: bool
) -> None:
    api = losing_api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(bob, alice, carol)
    if kind != "empty group":
        await api.send(bob, alice if kind == "private" else conversation)
    await api.pin(alice, conversation, 5)
    cursor = (await sync_sessions(api, alice))["cursor"]
    session = await api.delete(alice, conversation, hard)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    after_loss = await api.own_session(alice, conversation)
    for name in ("status", "unreadCount", "readSeq", "deliveredSeq", "writeSeq", "priority", "writeTs"):
        assert after_loss[name] == session[name], name
    assert (after_loss["status"], await api.sessions(alice), await api.total_unread(alice)) == ("INVALID", [], 0)
    delta = await sync_sessions(api, alice, cursor)
    assert [(s["id"], s["status"]) for s in delta["sessions"]] == [(session["id"], "INVALID")]
    assert (await api.delete(alice, conversation))["status"] == "INVALID"
    await api.send(bob, conversation)
    revived = await api.own_session(alice, conversation)
    assert (revived["status"], revived["unreadCount"], revived["priority"]) == ("ACTIVE", 1, 0 if hard else 5)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    after_loss = await api.own_session(alice, conversation)
    assert (after_loss["status"], after_loss["unreadCount"], after_loss["priority"]) == (
        "ACTIVE",
        1,
        0 if hard else 5,
    )
    assert after_loss["readSeq"] == revived["readSeq"]
    assert await api.total_unread(alice) == 1


async def test_deleting_during_arrivals_leaves_exactly_the_later_messages(api: Api, other_api: Api) -> None:
    alice, bob, conversation = await create_conversation(api)

    async def delete() -> None:
        for turn in range(6):
            await (api, other_api)[turn % 2].delete(alice, conversation, turn % 3 == 0)

    await gather_all(delete(), *((api, other_api)[turn % 2].send(bob, alice) for turn in range(20)))
    for process in (api, other_api):
        session = await process.own_session(alice, conversation)
        assert session["writeSeq"] == 23
        assert session["unreadCount"] == await process.total_unread(alice) == 23 - session["readSeq"]
        assert (session["status"] == "INVALID") is (session["unreadCount"] == 0)
    assert await api.unread(bob, conversation) == 0


async def test_concurrent_deletions_send_one_event(api: Api, other_api: Api) -> None:
    alice, _, conversation = await create_conversation(api)
    device = await api.listen(alice, LIVE_SESSIONS)
    answers = await gather_all(*(process.delete(alice, conversation) for process in (api, other_api) * 3))
    assert all(answer == answers[0] for answer in answers)
    assert (await device.next())["sessions"] == [answers[0]]
    await device.expect_no_event(0.05)


async def test_marking_a_deleted_session_read_changes_nothing(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(bob, alice, carol)
    await api.send(bob, group)
    await api.delete(alice, group)
    # A SYSTEM message does not revive the session, and its seq is after the deleted position.
    await api.invite(bob, group, dave)
    await api.wait_until_idle()
    before = await api.own_session(alice, group)
    assert (before["status"], before["writeSeq"]) == ("INVALID", 2)
    listeners = [await api.listen(alice, LIVE_SESSIONS), await api.listen(bob)]
    for seq in (None, 1, 2):
        assert await api.mark_read(alice, group, seq) == before
    await api.wait_until_idle()
    for listener in listeners:
        await listener.expect_no_event(0.03)
