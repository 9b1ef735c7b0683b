"""Pinned replies: a thread has pins of its own, and its parent conversation decides who may change them."""

from __future__ import annotations

import asyncio

import pytest

from store.base.ids import ConversationId
from store.checking.check import Objects
from store.conversations.conversation_fields import HeadField
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.client import Api, Json, Refusal, Subscriber, private_id
from tests.api.paused_step import PausedStep
from tests.api.pins.calls import (
    CHANNELS,
    LIVE,
    PIN,
    PINNED,
    announcements,
    check_pins,
    pin,
    pinned,
    refused,
    unpin,
)
from tests.api.sample_channels import SampleChannels
from tests.api.threads.calls import find_thread, thread_of
from tests.checking import run_checks


async def reply(api: Api, user: str, message: str, content: str) -> str:
    """Reply in the thread under a message, and return the id of the reply."""
    input = {"threadOf": message, "content": content}
    document = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"
    sent: str = (await api.data(user, document, input=input))["sendMessage"]["message"]["id"]
    return sent


async def next_pins(looking: Subscriber) -> Json:
    """Return the next ChannelPins. Other events may come before."""
    while (event := await looking.next())["__typename"] != "ChannelPins":
        pass
    return event


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_replies_are_pinned_in_their_thread(
    api: Api, other_api: Api, workspace: SampleChannels, kind: str
) -> None:
    alice, bob, other = workspace.owner, workspace.member, workspace.other
    conversation = {"private": private_id(alice, bob), "channel": workspace.general, "group": ""}[kind]
    if kind == "group":
        conversation = await api.create_group(alice, bob, other)
    parent = (await api.send(bob, alice if kind == "private" else conversation, "parent"))["message"]
    thread = thread_of(parent)
    first, second = [await reply(api, bob, parent["id"], text) for text in ("1", "2")]
    followers = [await process.listen(bob, LIVE) for process in (api, other_api)]
    looking = await other_api.subscribe(alice, CHANNELS, channels=[{"id": thread}])
    await looking.next()
    for message in (first, second):
        assert (await pin(api, alice, message))["isPinned"] is True
    for process in (api, other_api):
        assert await pinned(process, bob, thread) == ["2", "1"]
        assert await pinned(process, bob, conversation) == []
    assert len(await announcements(api, bob, thread)) == 2
    store = api.services.app.store
    cached_fields = await store.cache.one(Call("HKEYS", (store.keys.head(ConversationId(thread)),)))
    assert cached_fields and HeadField.PIN_COUNT.encode() not in cached_fields
    found = await find_thread(api, bob, thread)
    assert found is not None and found["replyCount"] == 2
    for follower in followers:
        events = await follower.take(4)
        assert [e["pinCount"] for e in events if e["__typename"] == "PinsChanged"] == [1, 2]
        assert {e["conversationId"] for e in events if e["__typename"] == "PinsChanged"} == {thread}
    assert [(await next_pins(looking))["pinCount"] for _ in range(2)] == [1, 2]
    await unpin(other_api, alice, first)
    await api.recall(bob, second)
    assert await pinned(api, bob, thread) == []
    await check_pins(api, thread)
    assert (await api.expect_refusal(workspace.outsider, PINNED, id=thread)).code == "NOT_FOUND"
    assert await refused(api, workspace.outsider, PIN, first) == Refusal("NOT_FOUND", "messageId")
    if kind != "private":
        assert await refused(api, bob, PIN, first) == Refusal("FORBIDDEN", "messageId")


async def test_the_check_accepts_the_number_of_pins_that_earlier_servers_set_in_a_thread(
    api: Api, workspace: SampleChannels
) -> None:
    parent = (await api.send(workspace.member, workspace.general, "parent"))["message"]
    message = await reply(api, workspace.member, parent["id"], "1")
    await pin(api, workspace.owner, message)
    store, thread = api.services.app.store, ConversationId(thread_of(parent))
    assert await store.cache.one(store.pins.count_call(thread, await store.pins.find(thread))) == 1
    checked = (await run_checks(store, ["cached-heads"], object=(Objects.CONVERSATION, thread)))["cached-heads"]
    assert (checked.objects, checked.differences) == (1, [])


@pytest.mark.parametrize("kind", ["group", "channel"])
async def test_a_right_in_the_parent_that_ends_before_the_write_refuses_it(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    alice, bob, other = workspace.owner, workspace.member, workspace.other
    conversation = str(workspace.general)
    if kind == "group":
        conversation = await api.create_group(alice, bob, other)
        await api.set_role(alice, conversation, bob, "ADMIN")
    else:
        await workspace.set_facts(bob, roles=frozenset({workspace.admin_role}))
    parent = (await api.send(alice, conversation, "parent"))["message"]
    message = await reply(api, alice, parent["id"], "1")
    paused = PausedStep(api.services.app.store.pins, "pin", monkeypatch, once=True)
    call = asyncio.create_task(refused(api, bob, PIN, message))
    await paused.reached.wait()
    if kind == "group":
        await other_api.set_role(alice, conversation, bob, "MEMBER")
    else:
        await workspace.overwrite(workspace.general, bob, Permission.PIN_MESSAGES)
        await workspace.set_facts(bob)
    paused.resume.set()
    assert await call == Refusal("FORBIDDEN", "messageId")
    assert await pinned(api, alice, thread_of(parent)) == []
    await check_pins(api, thread_of(parent))
