"""A load process with subscribers: `bench.load_process` starts it and sends its commands."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import uvloop

from bench.command_loop import gather_limited, run_command_loop
from bench.stalled_readers import StalledReaders
from bench.subscriber import PATIENCE_SECONDS, Deliveries, Opening, Subscriber, client_frame, count_endings
from bench.suite.request_rates import quantile
from tests.processes import token

_AT_ONCE = 64

Answer = dict[str, Any]


class SubscriberGroups:
    """Subscribers, by the name of their group."""

    def __init__(self) -> None:
        self._members: dict[str, list[Subscriber]] = {}
        self._heard: dict[str, Deliveries] = {}
        self._stalled: dict[str, StalledReaders] = {}

    async def open(
        self,
        *,
        name: str,
        port: int,
        path: str,
        users: list[str | None],
        subscriptions: list[str],
        at_once: int = _AT_ONCE,
    ) -> Answer:
        """Open one connection per user; a user may occur more than once. None: a plain WebSocket."""
        heard = self._heard[name] = Deliveries()
        loop = asyncio.get_running_loop()
        inits = {user: _init(user) for user in users}
        began = time.perf_counter()

        async def one(user: str | None) -> Subscriber:
            opening = Opening(f"127.0.0.1:{port}", path, inits[user], subscriptions)
            _, subscriber = await loop.create_connection(lambda: Subscriber(opening, heard), "127.0.0.1", port)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await subscriber.ready
            return subscriber

        self._members[name] = await gather_limited((one(user) for user in users), at_once)
        return {"seconds": time.perf_counter() - began}

    async def subscribe(self, *, name: str, subscriptions: list[str]) -> Answer:
        """Add subscriptions on every connection."""
        began = time.perf_counter()

        async def one(subscriber: Subscriber) -> None:
            subscriber.subscribe(subscriptions)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await subscriber.ready

        await gather_limited((one(subscriber) for subscriber in self._members[name]), _AT_ONCE)
        return {"seconds": time.perf_counter() - began}

    async def ask_all(self, *, names: list[str], query: str, seconds: float) -> Answer:
        """Send a query on every connection of some groups, evenly over a time, and wait for all answers.

        Returns how many were errors. Nothing else may arrive meanwhile.
        """
        heard, members = Deliveries(), [member for name in names for member in self._members[name]]
        for member in members:
            member.heard = heard
        frame = client_frame(orjson.dumps({"id": "asked", "type": "subscribe", "payload": {"query": query}}))
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, subscriber in enumerate(members):
            await asyncio.sleep(began + seconds * number / len(members) - loop.time())
            subscriber.send(frame)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while heard.ended < len(members):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        for name in names:
            await self.report(name=name)
        return {"seconds": loop.time() - began, "errors": heard.errors}

    async def close(self, *, name: str) -> Answer:
        for subscriber in self._members.pop(name):
            subscriber.close()
        return {}

    async def wait(self, *, name: str, count: int, other: int = 0) -> Answer:
        """Wait until numbers of deliveries and of other frames arrived since `report`."""
        heard = self._heard[name]
        try:
            await heard.until(count, other)
        except RuntimeError as error:
            members = self._members[name]
            lacking = [len(members) - of for of in heard.by_message.values()]
            raise RuntimeError(
                f"{name}: {error}; closed: {dict(count_endings(members)) or 'none'}; "
                f"deliveries lacking by message: {lacking}"
            ) from None
        return {}

    async def report(self, *, name: str) -> Answer:
        """Return the deliveries since the last report."""
        heard = self._heard[name]
        fresh = self._heard[name] = Deliveries()
        for subscriber in self._members[name]:
            subscriber.heard = fresh
        seconds = sorted(heard.seconds)
        return {
            "count": heard.count,
            "other": heard.other,
            "sample": heard.sample.decode(),
            "p50": quantile(seconds, 0.5),
            "p99": quantile(seconds, 0.99),
            "longest": quantile(seconds, 1.0),
            "first": [heard.first[sent] for sent in sorted(heard.first)],
            "last": [heard.last[sent] for sent in sorted(heard.last)],
            "closed": count_endings(self._members[name]),
        }

    async def stall(
        self, *, name: str, port: int, users: list[str], subscriptions: list[str], bytes_a_second: int
    ) -> Answer:
        """Open readers that stop, or read slowly, once they have caught up."""
        stalled = self._stalled[name] = StalledReaders(bytes_a_second)
        for user in users:
            stalled.open(Opening(f"127.0.0.1:{port}", "/graphql", _init(user), subscriptions))
        return {"ports": stalled.start()}

    async def stalled(self, *, name: str) -> Answer:
        """Return how they ended, and after which time."""
        return self._stalled[name].report()

    async def wake(self, *, name: str) -> Answer:
        """Let them read everything."""
        return self._stalled[name].wake()

    async def end_stalled(self, *, name: str) -> Answer:
        """End the stalled readers that are still open."""
        return await self._stalled.pop(name).end()


def _init(user: str | None) -> str | None:
    if user is None:
        return None
    return orjson.dumps({"type": "connection_init", "payload": {"Authorization": f"Bearer {token(user)}"}}).decode()


if __name__ == "__main__":
    uvloop.run(run_command_loop(SubscriberGroups()))
