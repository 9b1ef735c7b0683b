"""Live events of threads, as tests read them, and places where a thread can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.client import Api, Json, Subscriber
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import FOLLOW, thread_of

EVENTS = """subscription ($since: Cursor, $id: ID) { messageEvents(since: $since, conversationId: $id) {
    __typename
    ... on MessageCreated { message { conversationId seq content } cursor }
    ... on MessageUpdated { message { conversationId seq content } cursor }
    ... on MessageRecalled { message { conversationId seq content } cursor }
    ... on Mentioned { message { conversationId seq content } cursor }
    ... on ThreadChanged { parentId thread { id replyCount participantCount isLocked viewerFollows } cursor }
    ... on TypingStarted { conversationId user { id } }
    ... on TypingStopped { conversationId user { id } }
    ... on CaughtUp { cursor reset } } }"""
LOOK = """subscription ($channels: [Position!]!) { channelEvents(channels: $channels) {
    __typename
    ... on ChannelMessage { conversationId change message { seq content } rev }
    ... on ChannelThread { conversationId parentId rev thread { id replyCount participantCount isLocked rev } }
    ... on TypingStarted { conversationId user { id } }
    ... on TypingStopped { conversationId user { id } }
    ... on AccessEnded { conversationId }
    ... on ChannelCaughtUp { conversationId rev reset } } }"""
_PRIVATE = pytest.param("private", marks=pytest.mark.long)
PLACES = ("group", "channel", _PRIVATE)
OUTSIDE_CHANNELS = ("group", _PRIVATE)


@dataclass
class ThreadPlace:
    """A thread with one reply.

    `first` has sent the parent message. `second` has replied, and follows. `third` can see it, except in a private
    conversation, where it is `first`.
    """

    first: str
    second: str
    third: str
    parent: Json
    id: str

    @property
    def conversation(self) -> str:
        """The parent conversation."""
        found: str = self.parent["conversationId"]
        return found


async def make_thread(api: Api, place: str, others: int = 0) -> ThreadPlace:
    """Return a thread in a private conversation, group or channel. others: further members of the group."""
    if place == "channel":
        sample = await create_sample_channels(api)
        first, second, third, target = sample.member, sample.other, sample.moderator, str(sample.general)
    elif place == "group":
        first, second, third = await api.create_users("anna", "ben", "carol")
        more = await api.create_many_users(f"member-{first}", others) if others else []
        target = await api.create_group(first, second, third, *more)
    else:
        first, second = await api.create_users("anna", "ben")
        third, target = first, second
    parent = (await api.send(first, target, "parent"))["message"]
    await api.send(second, parent["id"], "first reply")
    return ThreadPlace(first, second, third, parent, thread_of(parent))


async def look(api: Api, user: str, *positions: str | tuple[str, int], reset: bool = False) -> Subscriber:
    """Return a subscription to conversations, each from now on or from a rev. It is caught up if all are from now."""
    named = [{"id": p} if isinstance(p, str) else {"id": p[0], "rev": p[1]} for p in positions]
    subscriber = await api.subscribe(user, LOOK, channels=named)
    if all(isinstance(position, str) for position in positions):
        for _ in positions:
            assert (await subscriber.next())["reset"] is reset
    return subscriber


async def follow(api: Api, user: str, thread: str, *, on: bool = True) -> None:
    await api.data(user, FOLLOW, id=thread, on=on)


async def next_of(subscriber: Subscriber, *kinds: str) -> Json:
    """Return the next event of some kinds, and skip others."""
    while (event := await subscriber.next())["__typename"] not in kinds:
        pass
    return event


async def until(subscriber: Subscriber, kind: str) -> list[Json]:
    """Return the events up to one of a kind."""
    events = [await subscriber.next()]
    while events[-1]["__typename"] != kind:
        events.append(await subscriber.next())
    return events


def shown(event: Json) -> tuple[Any, ...]:
    """Return what an event of a message shows."""
    kind = event.get("change") or {
        "MessageCreated": "CREATED",
        "MessageUpdated": "UPDATED",
        "MessageRecalled": "RECALLED",
    }.get(event["__typename"], event["__typename"])
    return kind, event["message"]["seq"], event["message"]["content"]
