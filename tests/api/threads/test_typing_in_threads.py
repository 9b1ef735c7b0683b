"""Typing in threads: followers and those who look at the thread are notified by who may reply there."""

from __future__ import annotations

import pytest

from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal
from tests.api.live.test_typing import STOP, TYPING
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import LOCK, thread_of
from tests.api.threads.live_calls import EVENTS, OUTSIDE_CHANNELS, PLACES, follow, look, make_thread, next_of


@pytest.fixture(autouse=True)
def _subscribers_are_devices(api: Api, other_api: Api) -> None:
    api.subscribers_are_devices = other_api.subscribers_are_devices = True


@pytest.mark.parametrize("kind", PLACES)
async def test_followers_and_those_who_look_are_notified(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    looking, follower = await look(other_api, place.third, place.id), await other_api.listen(place.second, EVENTS)
    writer = place.first if place.third != place.first else place.second
    expected = {"conversationId": place.id, "user": {"id": writer}}
    assert (await api.data(writer, TYPING, id=place.id))["startTyping"] is True
    assert await next_of(looking, "TypingStarted") == {"__typename": "TypingStarted"} | expected
    if writer != place.second:
        assert await next_of(follower, "TypingStarted") == {"__typename": "TypingStarted"} | expected
    assert (await api.data(writer, TYPING, id=place.id))["startTyping"] is False
    assert (await api.data(writer, STOP, id=place.id))["stopTyping"] is True
    assert await next_of(looking, "TypingStopped") == {"__typename": "TypingStopped"} | expected
    if writer != place.second:
        assert await next_of(follower, "TypingStopped") == {"__typename": "TypingStopped"} | expected


async def test_other_members_are_not_notified(api: Api) -> None:
    place = await make_thread(api, "group")
    device, follower = await api.listen(place.third, EVENTS), await api.listen(place.second, EVENTS)
    assert (await api.data(place.first, TYPING, id=place.id))["startTyping"] is True
    assert (await next_of(follower, "TypingStarted"))["user"] == {"id": place.first}
    assert not [event for event in device.pop_events() if event["__typename"] == "TypingStarted"]


@pytest.mark.parametrize("kind", OUTSIDE_CHANNELS)
async def test_nobody_else_types_in_a_locked_thread(api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    await follow(api, place.first, place.id)
    await api.data(place.first, LOCK, id=place.id)
    device, other = await api.listen(place.first, EVENTS), await api.listen(place.second, EVENTS)
    for document in (TYPING, STOP):
        refusal = await api.expect_refusal(place.second, document, id=place.id)
        assert refusal == Refusal("FORBIDDEN", "conversationId")
    assert not [event for event in device.pop_events() if event["__typename"] == "TypingStarted"]
    assert (await api.data(place.first, TYPING, id=place.id))["startTyping"] is True
    assert (await next_of(other, "TypingStarted"))["user"] == {"id": place.first}


async def test_typing_in_a_thread_of_a_channel_needs_the_right_to_reply(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    await api.send(sample.member, parent["id"], "reply")
    thread = thread_of(parent)
    device = await look(api, sample.member, thread)
    await sample.overwrite(sample.general, sample.other, Permission.SEND_THREADS)
    refusal = await api.expect_refusal(sample.other, TYPING, id=thread)
    assert refusal == Refusal("FORBIDDEN", "conversationId")
    await device.expect_no_event()
    await sample.overwrite(sample.general, sample.other, Permission.CREATE_THREADS)
    assert (await api.data(sample.other, TYPING, id=thread))["startTyping"] is True
    await sample.change_channel(sample.general, is_archived=True)
    refusal = await api.expect_refusal(sample.other, TYPING, id=thread)
    assert refusal == Refusal("ARCHIVED", "conversationId")
    refusal = await api.expect_refusal(sample.outsider, TYPING, id=thread)
    assert refusal == Refusal("NOT_FOUND", "conversationId")
