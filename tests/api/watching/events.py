"""Subscriptions that show the events of reactions, as tests use them."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, Subscriber

_REACTIONS = "conversationId messageId reactions { emoji count viewerReacted users { id } }"

MESSAGE_EVENTS = f"""subscription ($since: Cursor) {{ messageEvents(since: $since) {{
    __typename
    ... on MessageCreated {{ cursor message {{ id }} }}
    ... on ReactionsChanged {{ cursor {_REACTIONS} }}
    ... on CaughtUp {{ cursor reset }} }} }}"""

CHANNEL_EVENTS = f"""subscription ($channels: [Position!]!) {{ channelEvents(channels: $channels) {{
    __typename
    ... on ChannelMessage {{ rev message {{ id }} }}
    ... on ChannelReactions {{ rev {_REACTIONS} }}
    ... on AccessEnded {{ conversationId }}
    ... on ChannelCaughtUp {{ rev reset }} }} }}"""

KINDS = ("ReactionsChanged", "ChannelReactions")


async def listen(api: Api, user: str, since: str | None = None) -> Subscriber:
    """Return a subscription to messageEvents; without a cursor, after CaughtUp."""
    subscriber = await api.subscribe(user, MESSAGE_EVENTS, since=since)
    if since is None:
        assert (await subscriber.next())["__typename"] == "CaughtUp"
    return subscriber


async def look(api: Api, user: str, conversation: str, rev: int | None = None) -> tuple[Subscriber, int]:
    """Return a subscription to channelEvents, and the first rev; without a rev, after ChannelCaughtUp."""
    subscriber = await api.subscribe(user, CHANNEL_EVENTS, channels=[{"id": conversation, "rev": rev}])
    if rev is not None:
        return subscriber, rev
    caught_up = await subscriber.next()
    assert caught_up["__typename"] == "ChannelCaughtUp" and not caught_up["reset"]
    return subscriber, caught_up["rev"]


async def missed(subscriber: Subscriber) -> tuple[list[Json], bool]:
    """Return the missed events of a subscription, and whether the client has to start over."""
    events = []
    while "reset" not in (event := await subscriber.next()):
        events.append(event)
    return events, event["reset"]


def counts(event: Json) -> dict[str, int]:
    """Return the number of users for each emoji."""
    assert event["__typename"] in KINDS, event
    return {each["emoji"]: each["count"] for each in event["reactions"]}


async def until(subscriber: Subscriber, expected: dict[str, int]) -> list[Json]:
    """Return the events of reactions up to the first one that shows a state."""
    events: list[Json] = []
    while not events or counts(events[-1]) != expected:
        event = await subscriber.next()
        if event["__typename"] in KINDS:
            events.append(event)
    return events


async def published(*processes: Api) -> None:
    """Wait until no process has reactions that are not published yet."""
    for api in processes:
        await api.wait_until_idle()


def set_interval(api: Api, milliseconds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the time between two events about the reactions of a message."""
    monkeypatch.setattr(api.services.app.reaction_events.windows, "interval_ms", milliseconds)
