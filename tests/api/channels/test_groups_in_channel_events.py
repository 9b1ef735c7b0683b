"""Groups and private conversations on the screen: channelEvents shows them like channels."""

from __future__ import annotations

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.channels.channel_subscriber import live, look_at, texts
from tests.api.channels.test_channel_events import STOP, TYPE
from tests.api.client import Api, private_id


async def test_messages_of_a_group_arrive_live_and_after_a_reconnect(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group, another = [await api.create_group(alice, bob, carol) for _ in range(2)]
    here, start = await live(api, bob, group)
    there, _ = await live(other_api, carol, group)
    sent = (await api.send(alice, group, "a"))["message"]["id"]
    await api.send(alice, another, "not here")
    await api.edit(alice, sent, "b")
    for subscriber in (here, there):
        assert await texts(subscriber, 2) == [("CREATED", "a"), ("UPDATED", "b")]
    await other_api.recall(alice, sent)
    recalled = await here.next()
    assert (recalled["change"], recalled["message"]["content"]) == ("RECALLED", None)
    await here.stop()
    await api.send(alice, group, "c")
    again = await look_at(other_api, bob, (group, recalled["rev"]))
    assert await texts(again, 1) == [("CREATED", "c")]
    caught_up = await again.next()
    assert caught_up["__typename"] == "ChannelCaughtUp" and not caught_up["reset"]
    all_of_it = await look_at(api, bob, (group, start))
    assert [event[0] for event in await texts(all_of_it, 3)] == ["CREATED", "RECALLED", "CREATED"]
    for rev in (1, 1 << 52):
        assert (await (await look_at(api, bob, (group, rev))).next())["reset"] is True


async def test_private_conversations_are_shown_too_with_typing(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "before")
    subscriber, _ = await live(api, bob, private_id(alice, bob))
    await api.connect_device(bob)
    assert (await api.data(alice, TYPE, id=private_id(alice, bob)))["startTyping"] is True
    assert (await subscriber.next())["__typename"] == "TypingStarted"
    await api.data(alice, STOP, id=private_id(alice, bob))
    assert (await subscriber.next())["__typename"] == "TypingStopped"
    await api.send(alice, bob, "a")
    assert await texts(subscriber, 1) == [("CREATED", "a")]


@pytest.mark.parametrize("how", ["removed", "left", "dismissed", "dissolved"])
async def test_access_ends_with_the_membership(api: Api, other_api: Api, how: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group, another = [await api.create_group(alice, bob, carol) for _ in range(2)]
    subscriber, _ = await live(other_api, bob, group, another)
    call, user = {
        "removed": ("removeMember(groupId: $id, userId: $user) { id }", alice),
        "left": ("leaveGroup(groupId: $id)", bob),
        "dismissed": ("dismissGroup(groupId: $id)", alice),
        "dissolved": ("deleteConversation(conversationId: $id)", alice),
    }[how]
    variables = {"id": group} | ({"user": bob} if how == "removed" else {})
    declared = ", ".join(f"${name}: ID!" for name in variables)
    await api.data(user, f"mutation ({declared}) {{ {call} }}", **variables)
    event = await subscriber.next()
    if event["__typename"] == "ChannelMessage":
        # The end of a group may be announced in it.
        event = await subscriber.next()
    assert event == {"__typename": "AccessEnded", "conversationId": group}
    if how in ("removed", "left"):
        await api.send(alice, group, "secret")
    await api.send(alice, another, "a")
    assert await texts(subscriber, 1) == [("CREATED", "a")]
    await subscriber.expect_no_event()
    with pytest.raises(RequestRefused) as refusal:
        await look_at(api, bob, group)
    assert refusal.value.errors[0]["extensions"]["code"] == "NOT_FOUND"


async def test_a_group_that_is_deleted_from_the_own_list_stays_on_the_screen(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    subscriber, _ = await live(api, bob, group)
    await api.data(bob, "mutation ($id: ID!) { deleteSession(conversationId: $id) { id } }", id=group)
    await api.send(alice, group, "a")
    assert await texts(subscriber, 1) == [("CREATED", "a")]


async def test_outsiders_see_no_group(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    for name in (group, private_id(alice, bob), "g_1"):
        with pytest.raises(RequestRefused) as refusal:
            await look_at(api, dave, name)
        assert refusal.value.errors[0]["extensions"]["code"] == "NOT_FOUND"
    assert api.services.app.hub.mailboxes == 0
