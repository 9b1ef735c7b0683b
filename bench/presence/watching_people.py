"""A load process with people who each watch the presence of some others, and know what they should see."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import orjson
import uvloop

from bench.command_loop import run_command_loop
from bench.subscriber import PATIENCE_SECONDS, Deliveries, Opening, Subscriber
from tests.processes import token

_WATCH = "subscription {{ presenceEvents(userIds: {ids}) {{ user {{ id }} status }} }}"


class View(Deliveries):
    """The status of each watched person, as the events have shown it to one watcher."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[str, str] = {}
        self.events = 0
        self.subscribe: Callable[[], None] = lambda: None
        """Subscribes again, after an overloaded server has refused it."""

    def take(self, payload: bytes) -> None:
        frame = orjson.loads(payload)
        if frame["type"] == "next":
            shown = frame["payload"]["data"]["presenceEvents"]
            self.statuses[shown["user"]["id"]] = shown["status"]
            self.events += 1
        elif frame["type"] == "error":
            asyncio.get_running_loop().call_later(1, self.subscribe)


class WatchingPeople:
    """The watchers, each with one connection at a time."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}
        self._connections: dict[str, Subscriber] = {}
        self._watched: dict[str, list[str]] = {}
        self._refused = 0

    async def choose(self, *, people: int, watchers: int, watched: int) -> dict[str, Any]:
        """Let each of the first people watch some of all, chosen at random but the same in each run."""
        rng = random.Random(24)
        names = [f"u{number:06}" for number in range(people)]
        self._watched = {name: rng.sample(names, watched) for name in names[:watchers]}
        return {}

    async def connect(self, *, users: list[str], port: int, seconds: float) -> dict[str, Any]:
        """Connect users to a server, evenly over a time, and let them watch. Return when all are connected."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def one(number: int, user: str) -> None:
            await asyncio.sleep(began + seconds * number / len(users) - loop.time())
            payload = {"Authorization": f"Bearer {token(user)}", "deviceId": f"laptop of {user}"}
            init = orjson.dumps({"type": "connection_init", "payload": payload}).decode()
            watch = _WATCH.format(ids=orjson.dumps(self._watched[user]).decode())
            opening = Opening(f"127.0.0.1:{port}", "/graphql", init, [])
            view = self._views.setdefault(user, View())
            async with asyncio.timeout(PATIENCE_SECONDS):
                subscriber = await self._open(opening, view, port)
            self._connections[user] = subscriber

            def subscribe() -> None:
                subscriber.subscribe([watch])
                # There is no event that says that all present states have come.
                subscriber.ready.set_result(None)

            view.subscribe = subscribe
            subscribe()

        refused = self._refused
        await asyncio.gather(*(one(number, user) for number, user in enumerate(users)))
        return {"seconds": loop.time() - began, "refused": self._refused - refused}

    async def _open(self, opening: Opening, view: View, port: int) -> Subscriber:
        """Connect. An overloaded server refuses connections: clients try again after a second."""
        while True:
            _, subscriber = await asyncio.get_running_loop().create_connection(
                lambda: Subscriber(opening, view), "127.0.0.1", port
            )
            try:
                await subscriber.ready
                return subscriber
            except ConnectionError:
                self._refused += 1
                await asyncio.sleep(1)

    async def until_right(self, *, online: list[str], patience: float) -> dict[str, Any]:
        """Wait until all who are connected see exactly these people as online. Return the time and the events since."""
        loop = asyncio.get_running_loop()
        began, expected = loop.time(), set(online)
        while (wrong := self._count_wrong(expected)) and loop.time() - began < patience:  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        return {"seconds": loop.time() - began, "wrong": wrong, "events": self._take_events()}

    async def disconnect(self, *, users: list[str]) -> dict[str, Any]:
        """Forget the connections of users whose server has died."""
        for user in users:
            self._connections.pop(user).close()
            del self._views[user]
        return {}

    def _take_events(self) -> int:
        events = sum(view.events for view in self._views.values())
        for view in self._views.values():
            view.events = 0
        return events

    def _count_wrong(self, online: set[str]) -> int:
        return sum(
            (view.statuses.get(user) == "ONLINE") is not (user in online) or user not in view.statuses
            for watcher, view in self._views.items()
            for user in self._watched[watcher]
        )


if __name__ == "__main__":
    uvloop.run(run_command_loop(WatchingPeople()))
