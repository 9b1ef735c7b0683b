"""Editing messages: by whom, what it shows to whom, what it moves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import EDIT, Api, Json, Refusal, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.revisions import current_cursor, read_everywhere, read_missed_events, set_member
from tests.api.session_calls import iso
from tests.clock import ManualClock

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


async def refused(api: Api, user: str, message: str, content: str = "changed") -> Refusal:
    """The refusal, having changed nothing and told nobody."""
    stored = await api.stored_documents()
    refusal = await api.expect_refusal(user, EDIT, id=message, content=content)
    assert await api.stored_documents() == stored
    return refusal


async def test_an_edit_is_answered_and_shown_everywhere_to_everybody(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "befor", mentions=[bob]))["message"]
    edited = await api.edit(alice, sent["id"], "before ☕")
    assert edited["editedAt"].endswith("Z")
    assert edited == sent | {"content": "before ☕", "editCount": 1, "editedAt": edited["editedAt"]}
    for user in (alice, bob, carol):
        places = await read_everywhere(api, user, sent)
        assert [place for place, found in places.items() if found != edited] == []
    again = await api.edit(alice, sent["id"], "before")
    assert (again["content"], again["editCount"]) == ("before", 2)
    assert again["editedAt"] >= edited["editedAt"]


async def test_a_reply_quotes_the_message_as_it_is_now(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "befor"))["message"]
    reply = (await api.send(bob, alice, "reply", replyToId=sent["id"]))["message"]
    await api.edit(alice, sent["id"], "before")
    quoted = (await api.history(bob, private_id(alice, bob)))[1]["replyTo"]
    assert quoted == {"id": sent["id"], "seq": 1, "content": "before"} != reply["replyTo"]


async def test_all_devices_of_all_members_hear_of_it_live_and_afterwards(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "befor"))["message"]
    await api.wait_until_idle()
    since = {user: await current_cursor(api, user) for user in (alice, bob, carol)}
    devices = [(user, await api.listen(user)) for user in (alice, alice, bob, carol)]
    edited = await api.edit(alice, sent["id"], "before")
    for user, device in devices:
        event = await device.next()
        assert (event["__typename"], event["message"]) == ("MessageUpdated", edited | _keys(user, edited))
        assert await read_missed_events(api, user, since[user]) == [event]
        assert await read_missed_events(api, user, event["cursor"]) == []
        await device.expect_no_event(0.03)


def _keys(user: str, message: Json) -> Json:
    return {"idempotencyKey": message["idempotencyKey"] if message["sender"]["id"] == user else None}


async def test_a_subscription_to_one_conversation_hears_of_its_messages_only(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = [(await api.send(alice, other))["message"]["id"] for other in (bob, carol)]
    device = await api.listen(alice, id=private_id(alice, carol))
    for message in sent:
        await api.edit(alice, message, "edited")
    assert (await device.next())["message"]["id"] == sent[1]
    await device.expect_no_event(0.03)


async def test_what_was_missed_shows_messages_as_they_are_now(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    since = await current_cursor(api, bob)
    sent = (await api.send(alice, bob, "1"))["message"]
    for content in "23":
        await api.edit(alice, sent["id"], content)
    events = await read_missed_events(api, bob, since)
    assert [event["__typename"] for event in events] == ["MessageCreated", "MessageUpdated", "MessageUpdated"]
    assert {(event["message"]["content"], event["message"]["editCount"]) for event in events} == {("3", 2)}


@pytest.mark.parametrize("same", ["at once", "after a recall of another"])
async def test_the_same_content_again_changes_nothing_and_tells_nobody(api: Api, same: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "same"))["message"]
    if same != "at once":
        await api.recall(alice, (await api.send(alice, bob, "same"))["message"]["id"])
    devices = [await api.listen(user) for user in (alice, bob)]
    sessions = [await api.own_session(user, private_id(alice, bob)) for user in (alice, bob)]
    stored = await api.stored_documents()
    assert await api.edit(alice, sent["id"], "same") == sent
    assert await api.stored_documents() == stored
    assert [await api.own_session(user, private_id(alice, bob)) for user in (alice, bob)] == sessions
    for device in devices:
        await device.expect_no_event(0.05)


@pytest.mark.parametrize("content", ["", " \n", "x" * 4001, "a\0b"])
async def test_content_that_is_none_is_refused_before_anything_else(api: Api, content: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    for user, message in ((alice, sent), (bob, sent), (carol, sent), (alice, "m_1")):
        assert await refused(api, user, message, content) == Refusal("INVALID_INPUT", "content")


@pytest.mark.parametrize("message", ["", "m_", "m_1", "m_-1", "g_1", f"m_{2**63}", "s_a_g_1", "\x00", "M_1"])
async def test_what_names_no_message_is_not_found(api: Api, message: str) -> None:
    (alice,) = await api.create_users("alice")
    assert await refused(api, alice, message) == NO_MESSAGE


@pytest.mark.parametrize("role", ["OWNER", "ADMIN", "MEMBER", "outsider", "former", "newcomer"])
async def test_nobody_edits_what_somebody_else_wrote(api: Api, role: str) -> None:
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
    devices = [await api.listen(one) for one in (alice, bob, carol)]
    assert await refused(api, user, sent) == expected
    for device in devices:
        await device.expect_no_event(0.02)


@pytest.mark.parametrize("peer", ["peer", "stranger"])
async def test_in_private_too(api: Api, peer: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    expected = {"peer": (bob, Refusal("FORBIDDEN", "messageId")), "stranger": (carol, NO_MESSAGE)}
    user, refusal = expected[peer]
    assert await refused(api, user, sent) == refusal


async def test_somebody_who_left_edits_nothing_any_more_and_hears_of_no_edit(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    own = (await api.send(bob, group, "before"))["message"]
    others = (await api.send(carol, group, "before"))["message"]
    await set_member(api, group, bob, until=2)
    assert await refused(api, bob, own["id"]) == Refusal("NOT_A_MEMBER", "messageId")
    # What they can't see, they are not told to be no members for.
    hidden = (await api.send(carol, group, "after"))["message"]
    assert await refused(api, bob, hidden["id"]) == NO_MESSAGE
    device, other = await api.listen(bob), await api.listen(dave)
    edited = await api.edit(carol, others["id"], "edited")
    assert (await other.next())["message"]["content"] == "edited"
    await device.expect_no_event()
    assert await api.history(bob, group) == [own | _keys(bob, own), edited | _keys(bob, edited)]


@pytest.mark.parametrize("visibility", ["SINCE_JOIN", "FULL"])
async def test_who_joined_later_hears_of_it_where_they_can_see_the_message(api: Api, visibility: str) -> None:
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


async def test_system_messages_stay_as_they_are_whoever_acted(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.invite(bob, group, dave)
    (message,) = await api.history(alice, group)
    for user in (alice, bob, carol, dave):
        assert await refused(api, user, message["id"]) == Refusal("INVALID_INPUT", "messageId")


async def test_what_is_recalled_is_not_edited(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "gone"))["message"]["id"]
    recalled = await api.recall(alice, sent)
    for content in ("changed", "gone"):
        assert await refused(api, alice, sent, content) == Refusal("INVALID_INPUT", "messageId")
    # Who may not edit it learns nothing else.
    assert await refused(api, bob, sent) == Refusal("FORBIDDEN", "messageId")
    assert await api.history(alice, private_id(alice, bob)) == [recalled]


async def test_nobody_edits_without_a_token(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    assert (await api.expect_refusal(None, EDIT, id=sent, content="x")).code == "UNAUTHENTICATED"


@pytest.mark.parametrize("cached", ["in use", "loaded later", "lost afterwards"])
@pytest.mark.parametrize("newest", [True, False], ids=["the newest", "an older one"])
async def test_only_an_edit_of_the_newest_moves_the_session_and_nothing_else_of_it(
    open_api: OpenApi, deployments: Deployments, newest: bool, cached: str
) -> None:
    place, clock = f"moves {newest} {cached}", ManualClock()
    async with open_api(place, clock) as api:
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        sent = [(await api.send(alice, group, text, mentions=[bob]))["message"]["id"] for text in "12"]
        await api.wait_until_idle()
        before = {user: await api.own_session(user, group) for user in (alice, bob, carol)}
        since = {user: await current_cursor(api, user) for user in before}
        if cached == "loaded later":
            deployments.flush_redis(place)
        await api.advance_days(clock, 0.01)
        await api.edit(alice, sent[newest], "edited")
        await api.wait_until_idle()
        if cached == "lost afterwards":
            deployments.flush_redis(place)
        await api.advance_days(clock, 0.01)
        for user, was in before.items():
            now = await api.own_session(user, group)
            assert (now["activeTs"] > was["activeTs"]) is newest, user
            same = {name: value for name, value in now.items() if name not in ("activeTs", "lastMessage")}
            assert same.items() <= was.items()
            if cached == "in use":
                assert await _changed(api, user, since[user]) == ([group] if newest else [])


async def _changed(api: Api, user: str, since: str) -> list[str]:
    query = "query ($since: Cursor) { syncSessions(since: $since) { reset sessions { conversation { id } } } }"
    delta = (await api.data(user, query, since=since))["syncSessions"]
    assert delta["reset"] is False
    return [session["conversation"]["id"] for session in delta["sessions"]]


async def test_a_tombstone_moves_and_does_not_live_again(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    deleted = await api.delete(bob, private_id(alice, bob))
    device = await api.listen(bob)
    await api.edit(alice, sent, "edited")
    assert (await device.next())["message"]["content"] == "edited"
    now = await api.own_session(bob, private_id(alice, bob))
    assert now["status"] == "INVALID"
    assert now["activeTs"] > deleted["activeTs"]
    assert now == deleted | {"activeTs": now["activeTs"], "lastMessage": now["lastMessage"]}
    assert await api.sessions(bob) == []


async def test_the_gateway_of_a_sub_biz_shows_it_and_moves(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before", subBiz="shop"))["message"]["id"]
    (before,) = await api.sessions(bob)
    await api.edit(alice, sent, "edited")
    (after,) = await api.sessions(bob)
    assert after["lastMessage"] == before["lastMessage"] | {"content": "edited"}
    assert after["activeTs"] > before["activeTs"]
    assert (after["writeTs"], after["unreadCount"]) == (before["writeTs"], 1)


async def test_the_same_key_answers_the_message_as_it_is_now(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    how: dict[str, Any] = {"to": bob, "content": "before", "idempotencyKey": "k"}
    sent = (await api.send(alice, **how))["message"]
    edited = await api.edit(alice, sent["id"], "edited")
    again = await api.send(alice, **how)
    assert (again["replayed"], again["message"]) == (True, edited)
    assert await api.expect_send_refusal(alice, bob, "edited", idempotencyKey="k") == Refusal(
        "IDEMPOTENCY_CONFLICT", "idempotencyKey"
    )


async def test_an_edit_says_when_it_was_and_is_possible_at_any_time(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("times", clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        sent = (await api.send(alice, bob))["message"]
        await api.advance_days(clock, 400)
        edited = await api.edit(alice, sent["id"], "much later")
        assert (edited["createdAt"], edited["editedAt"]) == (sent["createdAt"], iso(clock.ms))


async def test_a_bot_s_command_can_be_edited_and_keeps_its_kind(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "/wether", contentType="BOT_COMMAND"))["message"]
    assert (await api.edit(alice, sent["id"], "/weather"))["contentType"] == "BOT_COMMAND"


async def test_an_edit_of_what_a_member_may_not_read_any_more_is_not_replayed_to_them(api: Api) -> None:
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
    assert await read_missed_events(api, dave, since) == []
