"""editMessage: content, quotes, sessions and events. Rules shared with recallMessage: test_revising.py."""

from __future__ import annotations

import pytest

from tests.api.client import EDIT, Api, Refusal, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.events import current_cursor, read_missed_events
from tests.api.revisions import read_everywhere, set_member
from tests.api.session_calls import iso
from tests.clock import ManualClock

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


async def expect_edit_refusal(api: Api, user: str, message: str, content: str = "changed") -> Refusal:
    """Return the refusal. Nothing stored may change."""
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(user, EDIT, id=message, content=content)
    assert await api.stored_hashes() == stored
    return refusal


async def test_an_edit_is_returned_and_shown_by_every_field_to_all_members(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "befor", mentions=[bob]))["message"]
    edited = await api.edit(alice, sent["id"], "before ☕")
    assert edited["editedAt"].endswith("Z")
    assert edited == sent | {"content": "before ☕", "editCount": 1, "editedAt": edited["editedAt"]}
    for user in (alice, bob, carol):
        results = await read_everywhere(api, user, sent)
        assert [field for field, result in results.items() if result != edited] == []
    again = await api.edit(alice, sent["id"], "before")
    assert (again["content"], again["editCount"]) == ("before", 2)
    assert again["editedAt"] >= edited["editedAt"]


async def test_a_reply_quotes_the_edited_message(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "befor"))["message"]
    reply = (await api.send(bob, alice, "reply", replyToId=sent["id"]))["message"]
    await api.edit(alice, sent["id"], "before")
    quoted = (await api.history(bob, private_id(alice, bob)))[1]["replyTo"]
    assert quoted == {"id": sent["id"], "seq": 1, "content": "before"} != reply["replyTo"]


async def test_a_subscription_to_one_conversation_receives_only_its_edits(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = [(await api.send(alice, other))["message"]["id"] for other in (bob, carol)]
    device = await api.listen(alice, id=private_id(alice, carol))
    for message in sent:
        await api.edit(alice, message, "edited")
    assert (await device.next())["message"]["id"] == sent[1]
    await device.expect_no_event(0.03)


async def test_replayed_events_show_the_newest_content(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    sent = (await api.send(alice, bob, "1"))["message"]
    for content in "23":
        await api.edit(alice, sent["id"], content)
    events = await read_missed_events(api, bob, since)
    assert [event["__typename"] for event in events] == ["MessageCreated", "MessageUpdated", "MessageUpdated"]
    assert {(event["message"]["content"], event["message"]["editCount"]) for event in events} == {("3", 2)}


@pytest.mark.parametrize("variant", ["unedited", "after a recall of another message"])
async def test_the_same_content_again_changes_nothing(api: Api, variant: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "same"))["message"]
    if variant != "unedited":
        await api.recall(alice, (await api.send(alice, bob, "same"))["message"]["id"])
    devices = [await api.listen(user) for user in (alice, bob)]
    sessions = [await api.own_session(user, private_id(alice, bob)) for user in (alice, bob)]
    stored = await api.stored_hashes()
    assert await api.edit(alice, sent["id"], "same") == sent
    assert await api.stored_hashes() == stored
    assert [await api.own_session(user, private_id(alice, bob)) for user in (alice, bob)] == sessions
    for device in devices:
        await device.expect_no_event(0.05)


async def test_empty_content_is_refused_for_a_message_without_files(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    assert await expect_edit_refusal(api, alice, sent, "") == Refusal("INVALID_INPUT", "content")
    assert await expect_edit_refusal(api, bob, sent, "") == Refusal("FORBIDDEN", "messageId")
    assert await expect_edit_refusal(api, carol, sent, "") == Refusal("NOT_FOUND", "messageId")


@pytest.mark.parametrize("content", [" \n", "x" * 4001, "a\0b"])
async def test_invalid_content_is_refused_before_any_other_check(api: Api, content: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    for user, message in ((alice, sent), (bob, sent), (carol, sent), (alice, "m_1")):
        assert await expect_edit_refusal(api, user, message, content) == Refusal("INVALID_INPUT", "content")


@pytest.mark.parametrize("role", ["OWNER", "ADMIN", "MEMBER", "outsider", "former", "newcomer"])
async def test_only_the_author_may_edit(api: Api, role: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(bob, group, "bob's"))["message"]["id"]
    user, expected = carol, Refusal("FORBIDDEN", "messageId")
    match role:
        case "OWNER":
            user = alice
        case "ADMIN":
            await set_member(api, group, carol, role="ADMIN")
        case "outsider":
            user, expected = dave, NO_MESSAGE
        case "former":
            await set_member(api, group, carol, until=1)
            expected = Refusal("NOT_A_MEMBER", "messageId")
        case "newcomer":
            await api.invite(alice, group, dave)
            user, expected = dave, NO_MESSAGE
    devices = [await api.listen(listener_user) for listener_user in (alice, bob, carol)]
    assert await expect_edit_refusal(api, user, sent) == expected
    for device in devices:
        await device.expect_no_event(0.02)


@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
async def test_a_later_member_receives_edits_of_visible_messages_only(api: Api, visibility: str) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, historyVisibility=visibility)
    sent = (await api.send(alice, group, "before dave"))["message"]["id"]
    await api.invite(alice, group, dave)
    await api.wait_until_idle()
    device, since = await api.listen(dave), await current_cursor(api, dave)
    await api.edit(alice, sent, "edited")
    if visibility == "FULL":
        assert (await device.next())["message"]["content"] == "edited"
    else:
        await device.expect_no_event()
        assert await read_missed_events(api, dave, since) == []


async def test_a_recalled_message_cannot_be_edited(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "gone"))["message"]["id"]
    recalled = await api.recall(alice, sent)
    for content in ("changed", "gone"):
        assert await expect_edit_refusal(api, alice, sent, content) == Refusal("INVALID_INPUT", "messageId")
    # A user who may not edit the message learns nothing else about it.
    assert await expect_edit_refusal(api, bob, sent) == Refusal("FORBIDDEN", "messageId")
    assert await api.history(alice, private_id(alice, bob)) == [recalled]


@pytest.mark.parametrize(
    ("newest", "cached"),
    [
        (True, "cached"),
        (True, "loaded later"),
        (True, "lost afterwards"),
        (False, "cached"),
        pytest.param(False, "loaded later", marks=pytest.mark.long),
        pytest.param(False, "lost afterwards", marks=pytest.mark.long),
    ],
)
async def test_only_an_edit_of_the_newest_message_changes_active_ts(
    open_api: OpenApi, deployments: Deployments, newest: bool, cached: str
) -> None:
    deployment, clock = f"moves {newest} {cached}", ManualClock()
    async with open_api(deployment, clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        sent = [(await api.send(alice, group, text, mentions=[bob]))["message"]["id"] for text in "12"]
        await api.wait_until_idle()
        before = {user: await api.own_session(user, group) for user in (alice, bob, carol)}
        since = {user: await current_cursor(api, user) for user in before}
        if cached == "loaded later":
            deployments.flush_redis(deployment)
        await api.advance_days(clock, 0.01)
        await api.edit(alice, sent[newest], "edited")
        await api.wait_until_idle()
        if cached == "lost afterwards":
            deployments.flush_redis(deployment)
        await api.advance_days(clock, 0.01)
        for user, session_before in before.items():
            session = await api.own_session(user, group)
            assert (session["activeTs"] > session_before["activeTs"]) is newest, user
            variant = {name: value for name, value in session.items() if name not in ("activeTs", "lastMessage")}
            assert variant.items() <= session_before.items()
            if cached == "cached":
                assert await changed_sessions(api, user, since[user]) == ([group] if newest else [])


async def changed_sessions(api: Api, user: str, since: str) -> list[str]:
    query = "query ($since: Cursor) { syncSessions(since: $since) { reset sessions { conversation { id } } } }"
    delta = (await api.data(user, query, since=since))["syncSessions"]
    assert delta["reset"] is False
    return [session["conversation"]["id"] for session in delta["sessions"]]


async def test_an_edit_does_not_revive_a_deleted_session(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    deleted = await api.delete(bob, private_id(alice, bob))
    device = await api.listen(bob)
    await api.edit(alice, sent, "edited")
    assert (await device.next())["message"]["content"] == "edited"
    session = await api.own_session(bob, private_id(alice, bob))
    assert session["status"] == "INVALID"
    assert session["activeTs"] > deleted["activeTs"]
    assert session == deleted | {"activeTs": session["activeTs"], "lastMessage": session["lastMessage"]}
    assert await api.sessions(bob) == []


async def test_an_edit_moves_the_gateway_of_its_sub_biz(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before", subBiz="shop"))["message"]["id"]
    (before,) = await api.sessions(bob)
    await api.edit(alice, sent, "edited")
    (after,) = await api.sessions(bob)
    assert after["lastMessage"] == before["lastMessage"] | {"content": "edited"}
    assert after["activeTs"] > before["activeTs"]
    assert (after["writeTs"], after["unreadCount"]) == (before["writeTs"], 1)


async def test_an_edit_has_its_time_and_is_possible_at_any_time(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("times", clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        sent = (await api.send(alice, bob))["message"]
        await api.advance_days(clock, 400)
        edited = await api.edit(alice, sent["id"], "much later")
        assert (edited["createdAt"], edited["editedAt"]) == (sent["createdAt"], iso(clock.ms))


async def test_an_edited_bot_command_keeps_its_content_type(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "/wether", contentType="BOT_COMMAND"))["message"]
    assert (await api.edit(alice, sent["id"], "/weather"))["contentType"] == "BOT_COMMAND"


async def test_edits_of_messages_no_longer_readable_are_not_replayed(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, historyVisibility="FULL")
    early = (await api.send(alice, group, "before Dave"))["message"]["id"]
    await api.invite(alice, group, dave)
    await api.wait_until_idle()
    since = await current_cursor(api, dave)
    await api.edit(alice, early, "before Dave, edited")
    await api.wait_until_idle()
    assert [event["message"]["content"] for event in await read_missed_events(api, dave, since)] == [
        "before Dave, edited"
    ]
    await api.update_group(alice, group, historyVisibility="SINCE_JOIN")
    await api.edit(alice, early, "not for Dave")
    await api.wait_until_idle()
    assert [event["__typename"] for event in await read_missed_events(api, dave, since)] == ["GroupChanged"]
