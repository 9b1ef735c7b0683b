"""Messages of blocked users in groups and channels: marked, counted, and without Mentioned and typing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from store.base.ids import UserId
from store.blocks.block_rows import Block, BlockRow
from tests.api.blocks.calls import block, unblock
from tests.api.client import HISTORY, Api, Json, Subscriber
from tests.api.events import current_cursor
from tests.api.live.test_typing import STOP, TYPING
from tests.api.sample_channels import SampleChannels, create_sample_channels

MARK = "content isFromBlocked"
MARKS = HISTORY.replace("replyTo {", "isFromBlocked replyTo { isFromBlocked")
LIVE = f"""subscription ($since: Cursor) {{ messageEvents(since: $since) {{
    __typename ... on MessageCreated {{ message {{ {MARK} replyTo {{ isFromBlocked }} }} }}
    ... on Mentioned {{ message {{ {MARK} }} }} ... on TypingStarted {{ user {{ id }} }}
    ... on TypingStopped {{ user {{ id }} }} ... on CaughtUp {{ cursor reset }} }} }}"""
LOOK = f"""subscription ($channels: [Position!]!) {{ channelEvents(channels: $channels) {{
    __typename ... on ChannelMessage {{ message {{ {MARK} }} }} ... on TypingStarted {{ user {{ id }} }}
    ... on ChannelCaughtUp {{ reset }} }} }}"""
SESSIONS = f"{{ sessions {{ edges {{ node {{ unreadCount lastMessage {{ {MARK} }} }} }} }} }}"
FIND = f"""query ($id: ID!, $text: String!) {{
    searchMessages(query: $text, filter: {{ conversationIds: [$id] }}) {{ edges {{ node {{ {MARK} }} }} }} }}"""
PIN = "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }"
PINNED = f"query ($id: ID!) {{ pinnedMessages(conversationId: $id) {{ edges {{ node {{ {MARK} }} }} }} }}"
ONE = f"query ($id: ID!) {{ message(id: $id) {{ {MARK} thread {{ id }} }} }}"


async def marks(api: Api, viewer: str, conversation: str) -> list[bool]:
    """Return which messages of the history are from blocked users."""
    page = (await api.data(viewer, MARKS, id=conversation, last=50))["messages"]
    return [edge["node"]["isFromBlocked"] for edge in page["edges"]]


async def next_marks(*subscribers: Subscriber) -> list[Json]:
    return [(await subscriber.next())["message"] for subscriber in subscribers]


async def test_lists_and_single_messages_are_marked_for_the_blocker_only(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "needle"))["message"]["id"]
    await api.send(carol, group, "answer", replyToId=message)
    await api.data(alice, PIN, id=message)
    for process, other in ((api, other_api), (other_api, api)):
        await block(process, alice, bob)
        # From bob, the answer to it, and the announcement of the pin.
        assert await marks(other, alice, group) == [True, False, False]
        assert await marks(process, bob, group) == await marks(other, carol, group) == [False] * 3
        page = (await other.data(alice, MARKS, id=group, last=50))["messages"]["edges"]
        assert page[1]["node"]["replyTo"]["isFromBlocked"]
        assert (await other.data(alice, ONE, id=message))["message"]["isFromBlocked"]
        assert (await other.data(alice, PINNED, id=group))["pinnedMessages"]["edges"] == [
            {"node": {"content": "needle", "isFromBlocked": True}}
        ]
        assert (await other.data(carol, PINNED, id=group))["pinnedMessages"]["edges"][0]["node"][
            "isFromBlocked"
        ] is False
        await unblock(other, alice, bob)
        assert await marks(process, alice, group) == [False] * 3


async def test_search_marks_what_it_finds(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(bob, group, "haystack")
    await block(api, alice, bob)
    found = (await api.data(alice, FIND, id=group, text="haystack"))["searchMessages"]["edges"]
    assert [edge["node"] for edge in found] == [{"content": "haystack", "isFromBlocked": True}]


async def test_messages_of_blocked_users_count_as_unread(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await block(api, alice, bob)
    await api.send(bob, group, "one", mentions=[alice])
    await api.send(bob, group, "two")
    (edge,) = (await api.data(alice, SESSIONS))["sessions"]["edges"]
    assert edge["node"] == {"unreadCount": 2, "lastMessage": {"content": "two", "isFromBlocked": True}}


async def test_live_events_are_marked_for_each_subscriber(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await block(other_api, alice, bob)
    since = await current_cursor(api, alice)
    devices = [await process.listen(user, LIVE) for process in (api, other_api) for user in (alice, carol, bob)]
    await api.send(bob, group, "one")
    assert [each["isFromBlocked"] for each in await next_marks(*devices)] == [True, False, False] * 2
    await unblock(other_api, alice, bob)
    await other_api.send(bob, group, "two")
    assert [each["isFromBlocked"] for each in await next_marks(*devices)] == [False] * 6
    await block(api, alice, bob)
    await api.send(bob, group, "three")
    assert [each["isFromBlocked"] for each in await next_marks(*devices)] == [True, False, False] * 2
    missed = await api.subscribe(alice, LIVE, since=since)
    assert [each["isFromBlocked"] for each in await next_marks(missed, missed, missed)] == [True, True, True]


async def test_lists_are_read_again_when_frames_may_be_lost(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(alice, LIVE)
    rows, app = api.services.app.store.blocks.rows, api.services.app
    # Another server stores a block, and its frame gets lost.
    await rows.add(UserId(alice), Block(UserId(bob), app.store.clock.now_ms(), None))
    assert not app.subscriber_blocks.has_blocked(UserId(alice), UserId(bob))
    app.subscriber_blocks.resync()
    resyncing = app.subscriber_blocks._resyncing
    assert resyncing is not None
    await resyncing
    await api.send(bob, group, "one")
    assert (await next_marks(device))[0]["isFromBlocked"]


async def test_frames_that_are_lost_while_lists_are_read_again_are_made_up_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.create_group(alice, bob, carol)
    await api.listen(alice, LIVE)
    rows, known = api.services.app.store.blocks.rows, api.services.app.subscriber_blocks
    original, is_read, go_on = rows.find, asyncio.Event(), asyncio.Event()

    async def find(users: Collection[UserId]) -> dict[UserId, BlockRow]:
        found = await original(users)
        is_read.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(rows, "find", find)
    known.resync()
    await is_read.wait()
    await rows.add(UserId(alice), Block(UserId(bob), 1, None))
    # The connection to Redis was lost once more.
    known.resync()
    go_on.set()
    assert known._resyncing is not None
    await known._resyncing
    assert known.has_blocked(UserId(alice), UserId(bob))


@pytest.fixture
async def workspace(api: Api) -> SampleChannels:
    return await create_sample_channels(api)


async def test_blocked_users_mention_nobody_in_channels(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    blocker, sender, channel = workspace.other, workspace.member, workspace.general
    await block(api, blocker, sender)
    since = await current_cursor(api, blocker)
    devices = [await process.listen(blocker, LIVE) for process in (api, other_api)]
    looking = await other_api.subscribe(blocker, LOOK, channels=[{"id": channel}])
    await looking.next()
    await api.send(sender, channel, "you", mentions=[blocker])
    assert (await looking.next())["message"] == {"content": "you", "isFromBlocked": True}
    for device in devices:
        await device.expect_no_event()
    missed = await other_api.subscribe(blocker, LIVE, since=since)
    assert (await missed.next())["__typename"] == "CaughtUp"
    await unblock(other_api, blocker, sender)
    await api.send(sender, channel, "you again", mentions=[blocker])
    for device in devices:
        assert (await device.next())["message"] == {"content": "you again", "isFromBlocked": False}


async def typing(api: Api, user: str, conversation: str) -> bool:
    answer: bool = (await api.data(user, TYPING, id=conversation))["startTyping"]
    return answer


@pytest.fixture
async def _as_devices(api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (api, other_api):
        monkeypatch.setattr(each, "subscribers_are_devices", True)


@pytest.mark.usefixtures("_as_devices")
async def test_typing_of_blocked_users_is_not_shown_and_does_not_tell_who_is_there(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    talk = (await api.send(bob, alice))["message"]["conversationId"]
    alices = [await process.listen(alice, LIVE) for process in (api, other_api)]
    await block(other_api, alice, bob)
    # As if she were offline.
    assert not await typing(api, bob, group)
    assert not await typing(other_api, bob, talk)
    carols = await other_api.listen(carol, LIVE)
    assert await typing(api, bob, group)
    assert (await carols.next())["user"]["id"] == bob
    await api.data(bob, STOP, id=group)
    assert (await carols.next())["__typename"] == "TypingStopped"
    for device in alices:
        await device.expect_no_event()


@pytest.mark.usefixtures("_as_devices")
async def test_typing_of_blocked_users_is_not_shown_in_channels(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    blocker, sender, channel = workspace.other, workspace.member, workspace.general
    looking = await other_api.subscribe(blocker, LOOK, channels=[{"id": channel}])
    await looking.next()
    await block(api, blocker, sender)
    assert not await typing(api, sender, channel)
    assert not await typing(other_api, sender, channel)
    await looking.expect_no_event()
