"""A load process with users who look at conversations. Each of them keeps the events that they get."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import orjson
import uvloop

from bench.command_loop import gather_limited, run_command_loop
from bench.subscriber import PATIENCE_SECONDS, Deliveries, Opening, Subscriber
from tests.processes import token

_AT_ONCE = 16


class Events(Deliveries):
    """The frames about reactions that one user gets, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []

    def take(self, payload: bytes) -> None:
        if b'"ChannelReactions"' in payload:
            self.frames.append(payload)


class Watchers:
    """The users, each with one connection."""

    def __init__(self) -> None:
        self._events: dict[str, Events] = {}
        self._subscribers: list[Subscriber] = []

    async def open(self, *, port: int, users: list[str], subscriptions: list[str]) -> dict[str, Any]:
        """Connect users, and wait until they have caught up."""
        loop = asyncio.get_running_loop()

        async def one(user: str) -> None:
            init = {"type": "connection_init", "payload": {"Authorization": f"Bearer {token(user)}"}}
            opening = Opening(f"127.0.0.1:{port}", "/graphql", orjson.dumps(init).decode(), subscriptions)
            events = self._events[user] = Events()
            _, subscriber = await loop.create_connection(lambda: Subscriber(opening, events), "127.0.0.1", port)
            self._subscribers.append(subscriber)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await subscriber.ready

        began = loop.time()
        await gather_limited((one(user) for user in users), _AT_ONCE)
        return {"seconds": loop.time() - began}

    async def report(self, *, total: int) -> dict[str, Any]:
        """Wait until everybody's last event shows a number of reactions. Return what they got, and forget it.

        events: number of users by number of events. states: the different last events, with the users who say that
        they have reacted.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not all(_total(events.frames) == total for events in self._events.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        by_number = Counter(len(events.frames) for events in self._events.values())
        states, reacted = set(), {}
        for user, events in self._events.items():
            reactions = _reactions(events.frames[-1])
            states.add(tuple((each["emoji"], each["count"]) for each in reactions))
            reacted[user] = [each["emoji"] for each in reactions if each["viewerReacted"]]
            events.frames.clear()
        if any(subscriber.closed for subscriber in self._subscribers):
            raise RuntimeError("a connection was closed")
        return {
            "events": {str(number): users for number, users in sorted(by_number.items())},
            "states": [dict(state) for state in states],
            "reacted": {user: emoji for user, emoji in reacted.items() if emoji},
        }


def _reactions(frame: bytes) -> Any:
    return orjson.loads(frame)["payload"]["data"]["channelEvents"]["reactions"]


def _total(frames: list[bytes]) -> int:
    if not frames:
        return 0
    return sum(each["count"] for each in _reactions(frames[-1]))


if __name__ == "__main__":
    uvloop.run(run_command_loop(Watchers()))
