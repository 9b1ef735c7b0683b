"""The user's clock, and the events that a client missed."""

from __future__ import annotations

from tests.api.client import LIVE_MESSAGES, SYNC, Api, Json


async def current_cursor(api: Api, user: str) -> str:
    """Return the newest cursor of the user's clock."""
    cursor: str = (await api.data(user, SYNC))["syncSessions"]["cursor"]
    return cursor


async def read_missed_events(api: Api, user: str, since: str, **variables: str) -> list[Json]:
    """Return the message events after a cursor, without the CaughtUp event. Fail if it is a reset."""
    subscriber = await api.subscribe(user, LIVE_MESSAGES, since=since, **variables)
    events = [await subscriber.next()]
    while events[-1]["__typename"] != "CaughtUp":
        events.append(await subscriber.next())
    assert events.pop()["reset"] is False
    await subscriber.stop()
    return events
