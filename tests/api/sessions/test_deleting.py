"""Deleting one's own view of a conversation: what is left, and who hears of it."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_SESSIONS, SYNC, Api, Json, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi

both = pytest.mark.parametrize("hard", [False, True], ids=["soft", "hard"])


async def sync(api: Api, user: str, since: str | None = None) -> Json:
    delta: Json = (await api.data(user, SYNC, since=since))["syncSessions"]
    return delta


async def talk(api: Api, unread: int = 3) -> tuple[str, str, str]:
    """Somebody to whom somebody else wrote. Answers them, and where."""
    alice, bob = await api.create_users("alice", "bob")
    for number in range(unread):
        await api.send(bob, alice, f"{number}")
    return alice, bob, private_id(alice, bob)


def kept(session: Json) -> tuple[int, bool, str | None]:
    return session["priority"], session["muteStatus"], session["categoryId"]


@both
async def test_what_is_deleted_is_gone_from_list_and_total_and_invalid(api: Api, hard: bool) -> None:
    alice, _, conversation = await talk(api)
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


@both
async def test_what_is_deleted_still_says_what_it_was(api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
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


@both
async def test_history_stays(api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
    await api.delete(alice, conversation, hard)
    for user in (alice, bob):
        assert [message["content"] for message in await api.history(user, conversation)] == ["0", "1", "2"]


@both
async def test_it_stays_as_it_was_for_everybody_else(api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
    await api.send(alice, bob)
    before = await api.session(bob, conversation)
    await api.delete(alice, conversation, hard)
    await api.wait_until_idle()
    assert await api.session(bob, conversation) == before
    assert await api.total_unread(bob) == 1


@both
async def test_deleting_sends_no_receipt(api: Api, hard: bool) -> None:
    alice, bob, conversation = await talk(api)
    await api.wait_until_idle()
    before = await api.own_session(bob, conversation)
    quiet = [await api.listen(bob), await api.listen(bob, LIVE_SESSIONS), await api.listen(alice)]
    await api.delete(alice, conversation, hard)
    await api.wait_until_idle()
    for listener in quiet:
        await listener.expect_no_event(0.03)
    assert await api.session(bob, conversation) == before
    assert (before["peerReadSeq"], before["peerDeliveredSeq"]) == (0, 0)


@both
async def test_the_tombstone_is_synchronised(api: Api, other_api: Api, hard: bool) -> None:
    alice, _, conversation = await talk(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    cursor = (await sync(api, alice))["cursor"]
    devices = [await process.listen(alice, LIVE_SESSIONS) for process in (api, other_api)]
    session = await api.delete(alice, conversation, hard)
    for device in devices:
        event = await device.next()
        assert (event["reason"], event["sessions"], event["totalUnread"]) == ("DELETE", [session], 1)
        await device.expect_no_event(0.02)
    for process in (api, other_api):
        delta = await sync(process, alice, cursor)
        assert (delta["sessions"], delta["totalUnread"], delta["reset"]) == ([session], 1, False)
    assert [session["conversation"]["title"] for session in (await sync(api, alice))["sessions"]] == [carol]
    missed = await api.subscribe(alice, LIVE_SESSIONS, since=cursor)
    part = await missed.next()
    assert (part["reason"], part["sessions"]) == ("CATCH_UP", [session])


async def test_soft_keeps_what_one_chose_and_hard_forgets_it(api: Api) -> None:
    alice, _, conversation = await talk(api)
    await api.pin(alice, conversation, 5)
    await api.mute(alice, conversation, 4_000_000_000_000)
    await api.assign(alice, "work", conversation)
    soft = await api.delete(alice, conversation)
    assert (kept(soft), soft["mutedUntil"]) == ((5, True, "work"), "2096-10-02T07:06:40.000Z")
    hard = await api.delete(alice, conversation, hard=True)
    assert (kept(hard), hard["mutedUntil"], hard["status"]) == ((0, False, None), None, "INVALID")
    assert hard["activeTs"] > soft["activeTs"]


@both
@pytest.mark.parametrize("again", [False, True], ids=["soft again", "hard again"])
async def test_deleting_what_is_deleted_changes_nothing(api: Api, hard: bool, again: bool) -> None:
    alice, _, conversation = await talk(api)
    session = await api.delete(alice, conversation, hard)
    device = await api.listen(alice, LIVE_SESSIONS)
    stored = await api.stored_documents()
    assert await api.delete(alice, conversation, again) == session
    assert await api.stored_documents() == stored
    await device.expect_no_event(0.02)


async def test_deleting_softly_what_was_deleted_softly_keeps_what_was_kept(api: Api) -> None:
    alice, _, conversation = await talk(api)
    await api.pin(alice, conversation, 5)
    session = await api.delete(alice, conversation)
    assert await api.delete(alice, conversation) == session
    assert session["priority"] == 5


async def test_a_muted_one_takes_nothing_more_from_the_total(api: Api) -> None:
    alice, _, conversation = await talk(api)
    (carol,) = await api.create_users("carol")
    await api.send(carol, alice)
    await api.mute(alice, conversation)
    await api.delete(alice, conversation)
    assert await api.total_unread(alice) == 1
    await api.unmute(alice, conversation)
    assert await api.total_unread(alice) == 1


async def test_what_one_chooses_for_a_deleted_one_does_not_bring_it_back(api: Api) -> None:
    alice, bob, conversation = await talk(api)
    await api.delete(alice, conversation)
    await api.pin(alice, conversation, 9)
    await api.mute(alice, conversation)
    await api.assign(alice, "work", conversation)
    session = await api.set_unread(alice, conversation)
    assert (kept(session), session["unreadStatus"], session["status"]) == ((9, True, "work"), False, "INVALID")
    assert await api.session(alice, conversation) == session
    assert await api.sessions(alice) == await api.sessions(alice, category="work") == await api.categories(alice) == []
    assert (await sync(api, alice))["sessions"] == []
    assert await api.total_unread(alice) == 0
    await api.send(bob, alice)
    revived = await api.own_session(alice, conversation)
    assert (kept(revived), revived["status"], revived["unreadCount"]) == ((9, True, "work"), "ACTIVE", 1)


# --- groups


async def test_who_deletes_a_group_from_the_list_is_still_in_it(api: Api) -> None:
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


async def test_inviting_a_member_who_deleted_it_passes_them_over(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    session = await api.delete(bob, group)
    device = await api.listen(bob, LIVE_SESSIONS)
    await api.invite(alice, group, bob)
    assert await api.session(bob, group) == session
    await device.expect_no_event(0.02)


async def test_an_owner_who_deletes_it_from_the_list_deletes_no_group(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.delete(alice, group, hard=True)
    assert (await api.own_session(bob, group))["status"] == "ACTIVE"
    query = "query ($id: ID!) { group(id: $id) { status owner { id } } }"
    assert (await api.data(bob, query, id=group))["group"] == {"status": "ACTIVE", "owner": {"id": alice}}


# --- what is lost, and what comes at once


@both
@pytest.mark.parametrize("kind", ["talk", "group", "empty group"])
async def test_what_is_deleted_stays_so_though_the_cache_is_lost(
    open_api: OpenApi, deployments: Deployments, kind: str, hard: bool
) -> None:
    async with open_api("lost") as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        conversation = private_id(alice, bob) if kind == "talk" else await api.create_group(bob, alice, carol)
        if kind != "empty group":
            await api.send(bob, alice if kind == "talk" else conversation)
        await api.pin(alice, conversation, 5)
        cursor = (await sync(api, alice))["cursor"]
        session = await api.delete(alice, conversation, hard)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        again = await api.own_session(alice, conversation)
        for name in ("status", "unreadCount", "readSeq", "deliveredSeq", "writeSeq", "priority", "writeTs"):
            assert again[name] == session[name], name
        assert (again["status"], await api.sessions(alice), await api.total_unread(alice)) == ("INVALID", [], 0)
        delta = await sync(api, alice, cursor)
        assert [(s["id"], s["status"]) for s in delta["sessions"]] == [(session["id"], "INVALID")]
        assert (await api.delete(alice, conversation))["status"] == "INVALID"
        await api.send(bob, conversation)
        revived = await api.own_session(alice, conversation)
        assert (revived["status"], revived["unreadCount"], revived["priority"]) == ("ACTIVE", 1, 0 if hard else 5)
        await api.wait_until_idle()
        deployments.flush_redis("lost")
        again = await api.own_session(alice, conversation)
        assert (again["status"], again["unreadCount"], again["priority"]) == ("ACTIVE", 1, 0 if hard else 5)
        assert again["readSeq"] == revived["readSeq"]
        assert await api.total_unread(alice) == 1


async def test_deleting_while_messages_come_leaves_exactly_what_came_after(api: Api, other_api: Api) -> None:
    alice, bob, conversation = await talk(api)

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


async def test_twins_delete_once(api: Api, other_api: Api) -> None:
    alice, _, conversation = await talk(api)
    device = await api.listen(alice, LIVE_SESSIONS)
    answers = await gather_all(*(process.delete(alice, conversation) for process in (api, other_api) * 3))
    assert all(answer == answers[0] for answer in answers)
    assert (await device.next())["sessions"] == [answers[0]]
    await device.expect_no_event(0.05)


async def test_reading_what_is_deleted_reads_nothing_and_tells_nobody(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(bob, alice, carol)
    await api.send(bob, group)
    await api.delete(alice, group)
    # What the server writes doesn't bring it back, and lies past what was deleted.
    await api.invite(bob, group, dave)
    await api.wait_until_idle()
    before = await api.own_session(alice, group)
    assert (before["status"], before["writeSeq"]) == ("INVALID", 2)
    quiet = [await api.listen(alice, LIVE_SESSIONS), await api.listen(bob)]
    for seq in (None, 1, 2):
        assert await api.mark_read(alice, group, seq) == before
    await api.wait_until_idle()
    for listener in quiet:
        await listener.expect_no_event(0.03)
