"""Pinned messages in channels: rights, the count, events on the workspace's clock, and what happens to a channel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.conversations.conversation_fields import HeadField
from store.redis.cache import Call
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import Overwrite, Overwrites
from tests.api.channels.calls import DELETE
from tests.api.client import Api, Refusal
from tests.api.conftest import Deployments
from tests.api.paused_step import PausedStep
from tests.api.pins.calls import (
    CHANNELS,
    PIN,
    PIN_COUNT,
    PINNED,
    UNPIN,
    announcements,
    check_pins,
    pin,
    pinned,
    refused,
    unpin,
)
from tests.api.sample_channels import SampleChannels

P = Permission


async def pin_count(api: Api, user: str, channel: str) -> int:
    count: int = (await api.data(user, PIN_COUNT, id=channel))["channel"]["pinCount"]
    return count


async def allow_pins(workspace: SampleChannels, channel: Any, *users: str, deny: Permission = NOTHING) -> None:
    """Let members pin messages in a channel, and deny them other permissions."""
    overwrites = Overwrites({}, {user: Overwrite(allow=P.PIN_MESSAGES, deny=deny) for user in users})  # type: ignore[misc]
    await workspace.change_channel(channel, overwrites=overwrites)


async def test_pinning_needs_the_permission(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    channel = workspace.general
    message = (await api.send(workspace.member, channel, "rules"))["message"]["id"]
    secret = (await api.send(workspace.member, workspace.staff, "secret"))["message"]["id"]
    await api.wait_until_idle()
    before = await api.stored_hashes()
    for document in (PIN, UNPIN):
        for user in (workspace.member, workspace.moderator):
            assert await refused(api, user, document, message) == Refusal("FORBIDDEN", "messageId")
        assert await refused(api, workspace.outsider, document, message) == Refusal("NOT_FOUND", "messageId")
        assert await refused(api, workspace.other, document, secret) == Refusal("NOT_FOUND", "messageId")
    for user, conversation in ((workspace.outsider, channel), (workspace.other, workspace.staff)):
        refusal = await api.expect_refusal(user, PINNED, id=conversation)
        assert refusal == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == before
    await allow_pins(workspace, channel, workspace.member, deny=P.SEND_MESSAGES)
    assert (await pin(other_api, workspace.member, message))["isPinned"] is True
    assert await pinned(api, workspace.other, channel) == ["rules"]
    (system,) = await announcements(api, workspace.other, channel)
    assert system["systemEvent"]["actor"]["id"] == workspace.member
    assert system["systemEvent"]["targets"] == [{"id": workspace.member}]
    assert (await unpin(api, workspace.owner, message))["isPinned"] is False
    await check_pins(api, channel)


async def test_the_count_is_that_of_all_pins(
    api: Api, other_api: Api, workspace: SampleChannels, deployments: Deployments
) -> None:
    channel, store = workspace.general, api.services.app.store
    sent = [(await api.send(workspace.member, channel, f"{n}"))["message"]["id"] for n in range(3)]
    for message in sent:
        await pin(api, workspace.owner, message)
    await unpin(other_api, workspace.admin, sent[0])
    for process in (api, other_api):
        assert await pin_count(process, workspace.member, channel) == 2
    # Without READ_HISTORY the list is empty.
    await workspace.overwrite(channel, workspace.other, P.READ_HISTORY)
    assert (await pinned(api, workspace.other, channel), await pin_count(api, workspace.other, channel)) == ([], 2)
    # The head takes the count of the latest change only.
    pins: Any = store.pins
    present = await pins.find(channel)
    await store.cache.one(pins.count_call(channel, present._replace(version=present.version - 1, items=())))
    assert await pin_count(api, workspace.member, channel) == 2
    # A server of an earlier version has loaded the head.
    await store.cache.one(Call("HDEL", (store.keys.head(channel),), (HeadField.PIN_COUNT, "pk")))
    assert await pin_count(other_api, workspace.member, channel) == 2
    deployments.flush_redis("main")
    assert await pin_count(other_api, workspace.member, channel) == 2
    assert await pinned(api, workspace.member, channel) == ["2", "1"]


async def test_pins_are_shown_in_messages_that_servers_keep(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    channel = workspace.general
    message = (await api.send(workspace.member, channel, "rules"))["message"]["id"]
    query = "query ($id: ID!) { messages(conversationId: $id) { edges { node { isPinned } } } }"

    async def shown(process: Api) -> bool:
        edges = (await process.data(workspace.other, query, id=channel))["messages"]["edges"]
        flag: bool = edges[0]["node"]["isPinned"]
        return flag

    assert [await shown(process) for process in (api, other_api)] == [False, False]
    await pin(api, workspace.owner, message)
    assert [await shown(process) for process in (api, other_api)] == [True, True]
    await other_api.recall(workspace.member, message)
    assert [await shown(process) for process in (api, other_api)] == [False, False]


async def test_events_are_on_the_clock_of_the_workspace(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    channel = workspace.general
    message = (await api.send(workspace.member, channel, "rules"))["message"]
    live = [await p.subscribe(workspace.other, CHANNELS, channels=[{"id": channel}]) for p in (api, other_api)]
    rev, _ = [(await each.next())["rev"] for each in live]
    await pin(api, workspace.owner, message["id"])
    for each in live:
        event, created = await each.take(2)
        assert (event["__typename"], event["conversationId"], event["pinCount"]) == ("ChannelPins", channel, 1)
        assert event["message"]["id"] == message["id"] and event["message"]["isPinned"]
        assert created["change"] == "CREATED" and created["message"]["systemEvent"] == {"kind": "MESSAGE_PINNED"}
        assert event["rev"] < created["rev"]
    resumed = await other_api.subscribe(workspace.member, CHANNELS, channels=[{"id": channel, "rev": rev}])
    event, created, caught_up = await resumed.take(3)
    assert (event["__typename"], event["pinCount"], created["change"]) == ("ChannelPins", 1, "CREATED")
    assert caught_up["reset"] is False
    await unpin(other_api, workspace.owner, message["id"])
    for each in (*live, resumed):
        event = await each.next()
        assert (event["pinCount"], event["message"]["isPinned"]) == (0, False)


async def test_members_without_history_see_no_pin_of_an_earlier_message(api: Api, workspace: SampleChannels) -> None:
    channel = workspace.general
    old = (await api.send(workspace.member, channel, "old"))["message"]["id"]
    await workspace.overwrite(channel, workspace.other, P.READ_HISTORY)
    live = await api.subscribe(workspace.other, CHANNELS, channels=[{"id": channel}])
    await live.next()
    new = (await api.send(workspace.member, channel, "new"))["message"]
    for message in (old, new["id"]):
        await pin(api, workspace.owner, message)
    events = await live.take(4)
    shown = [e["message"]["seq"] for e in events if e["__typename"] == "ChannelPins"]
    assert shown == [new["seq"]]


async def test_an_archived_channel_keeps_its_pins(api: Api, workspace: SampleChannels) -> None:
    channel = workspace.general
    one, two = [(await api.send(workspace.member, channel, text))["message"]["id"] for text in "12"]
    await pin(api, workspace.owner, one)
    await workspace.change_channel(channel, is_archived=True)
    await api.wait_until_idle()
    before = await api.stored_hashes()
    assert await refused(api, workspace.owner, PIN, two) == Refusal("ARCHIVED", "messageId")
    assert await refused(api, workspace.owner, UNPIN, one) == Refusal("ARCHIVED", "messageId")
    assert await refused(api, workspace.outsider, PIN, two) == Refusal("NOT_FOUND", "messageId")
    assert await api.stored_hashes() == before
    assert await pinned(api, workspace.member, channel) == ["1"]
    # Recalls stay allowed, and unpin.
    await api.recall(workspace.member, one)
    assert await pinned(api, workspace.member, channel) == []
    assert await pin_count(api, workspace.member, channel) == 0
    await check_pins(api, channel)


ENDS = [
    pytest.param(document, change, id=f"{name}-{change}", marks=() if is_short else pytest.mark.long)
    for name, document, change, is_short in (
        ("pin", PIN, "right", True),
        ("pin", PIN, "archive", False),
        ("pin", PIN, "remove", False),
        ("unpin", UNPIN, "right", False),
        ("unpin", UNPIN, "archive", True),
        ("unpin", UNPIN, "remove", False),
    )
]


@pytest.mark.parametrize(("document", "change"), ENDS)
async def test_a_right_that_ends_before_the_write_refuses_it(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, document: str, change: str
) -> None:
    channel = workspace.general
    await allow_pins(workspace, channel, workspace.member)
    message = (await api.send(workspace.member, channel, "rules"))["message"]["id"]
    if document == UNPIN:
        await pin(api, workspace.owner, message)
    paused = PausedStep(api.services.app.store.pins, "pin" if document == PIN else "unpin", monkeypatch, once=True)
    call = asyncio.create_task(refused(api, workspace.member, document, message))
    await paused.reached.wait()
    if change == "right":
        await workspace.overwrite(channel, workspace.member, P.PIN_MESSAGES)
    elif change == "archive":
        await workspace.change_channel(channel, is_archived=True)
    else:
        await workspace.remove(workspace.member)
    paused.resume.set()
    assert (await call).code == {"right": "FORBIDDEN", "archive": "ARCHIVED", "remove": "NOT_FOUND"}[change]
    assert len(await pinned(other_api, workspace.owner, channel)) == (document == UNPIN)
    await check_pins(api, channel)


async def test_a_right_in_a_group_that_ends_before_the_write_refuses_it(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.set_role(alice, group, bob, "ADMIN")
    message = (await api.send(carol, group, "plan"))["message"]["id"]
    paused = PausedStep(api.services.app.store.pins, "pin", monkeypatch, once=True)
    call = asyncio.create_task(refused(api, bob, PIN, message))
    await paused.reached.wait()
    await other_api.set_role(alice, group, bob, "MEMBER")
    paused.resume.set()
    assert await call == Refusal("FORBIDDEN", "messageId")
    # Other changes of the group do not stop a pin.
    second = asyncio.create_task(pin(api, alice, message))
    await other_api.invite(alice, group, *(await api.create_users("dave")))
    assert (await second)["isPinned"] is True
    await check_pins(api, group)


async def test_pins_of_a_deleted_channel_are_gone(api: Api, workspace: SampleChannels) -> None:
    channel, app = workspace.general, api.services.app
    message = (await api.send(workspace.member, channel, "rules"))["message"]["id"]
    await pin(api, workspace.owner, message)
    assert (await api.data(workspace.owner, DELETE, id=channel))["deleteChannel"] is True
    assert await refused(api, workspace.owner, UNPIN, message) == Refusal("NOT_FOUND", "messageId")
    assert (await api.expect_refusal(workspace.owner, PINNED, id=channel)).code == "NOT_FOUND"
    contents: Any = app.store.channel_removal._contents
    while await contents.remove_some(channel):
        pass
    assert api.database["conversations"].find_one({"_id": channel}) is None
    assert await app.pins.announce_abandoned(0) == 0
