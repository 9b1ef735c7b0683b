"""The process that makes the load.

Reads commands as JSON lines, answers each with one line, and ends with its input. Its commands are the methods of
`Load`. Its cost is not counted, but it shares the machine with the measured processes.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import orjson
import uvloop

from bench.command_loop import gather_limited, run_command_loop
from bench.subscriber import PATIENCE_SECONDS, Deliveries, Opening, Subscriber, count_endings
from bench.suite.bare_drivers import BareDrivers
from bench.suite.clients import HttpClient, SocketClient
from bench.suite.request_rates import Asker, RequestStats, closed, lone, once, opened, quantile
from bench.suite.xmpp import XmppClient

_AT_ONCE = 64
_REFUSALS = 30

P = TypeVar("P", bound=asyncio.Protocol)

Answer = dict[str, Any]


class Load:
    """Clients and listeners by the name of their group.

    tokens: values of Authorization headers, one per connection.
    """

    def __init__(self) -> None:
        self._clients: dict[str, list[HttpClient | SocketClient | XmppClient]] = {}
        self._listeners: dict[str, list[Subscriber | XmppClient]] = {}
        self._heard: dict[str, Deliveries] = {}
        self._bare: BareDrivers | None = None

    # Clients.

    async def connect(self, *, name: str, port: int, transport: str, tokens: list[str], room: str = "") -> Answer:
        """Connect clients over `http`, `ws` or `xmpp`. room: that XMPP clients enter."""
        loop = asyncio.get_running_loop()
        clients: list[HttpClient | SocketClient | XmppClient] = []
        for token in tokens:
            if transport == "xmpp":
                client = XmppClient(token, Deliveries(), room=room, asks=True)
                await loop.create_connection(partial(_itself, client), "127.0.0.1", port)
                await client.open()
                clients.append(client)
                continue
            if transport == "http":
                clients.append(HttpClient(port, token))
                continue
            socket = SocketClient(opening_of(port, token, ()), Deliveries())
            await loop.create_connection(partial(_itself, socket), "127.0.0.1", port)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await socket.ready
            clients.append(socket)
        self._clients[name] = clients
        return {}

    async def open(self, *, name: str) -> Answer:
        """Connect the clients whose servers may have closed their connections."""
        await asyncio.gather(*(client.open() for client in self._clients[name]))
        return {}

    async def drive(
        self,
        *,
        name: str,
        bodies: list[list[str]],
        how: str,
        seconds: float = 0.0,
        in_flight: int = 1,
        rate: float = 0.0,
        count: int = 1,
        pause_seconds: float = 0.0,
        listeners: str = "",
        deliveries: int = 0,
        rows: int | None = None,
    ) -> Answer:
        """Let each client send the requests in its list, in turn. how: `lone`, `burst`, `closed`, `open` or `once`.

        rows: of every answer; another number is a failure. A lone request ends with its deliveries to listeners.
        """
        askers = [Asker(client, of) for client, of in zip(self._clients[name], bodies, strict=True)]
        asked = RequestStats(rows=rows)
        match how:
            case "lone":
                heard, each = (self._heard[listeners], deliveries) if listeners else (Deliveries(), 0)
                before = heard.count
                return await lone(
                    asked, askers, count, pause_seconds, lambda number: heard.until(before + number * each)
                )
            case "burst":
                return await lone(asked, askers, count)
            case "closed":
                return await closed(asked, askers, seconds, in_flight)
            case "open":
                return await opened(asked, askers, seconds, rate)
            case _:
                return await once(asked, askers, in_flight)

    async def disconnect(self, *, name: str) -> Answer:
        for client in self._clients.pop(name):
            client.close()
        return {}

    # Listeners.

    async def listen(
        self,
        *,
        name: str,
        port: int,
        tokens: list[str],
        subscriptions: list[str],
        in_flight: int = _AT_ONCE,
        transport: str = "ws",
        room: str = "",
    ) -> Answer:
        """Open one connection per token, ready once its subscriptions have caught up, or its presence is known."""
        heard = self._heard[name] = Deliveries()
        loop, began = asyncio.get_running_loop(), time.perf_counter()
        seconds: list[float] = []

        async def one(token: str) -> Subscriber | XmppClient:
            since = time.perf_counter()
            for _ in range(_REFUSALS):
                try:
                    return await open_one(token, since)
                except ConnectionError as error:
                    # A server that has too much to do asks clients to come back after a second.
                    if " 503 " not in str(error):
                        raise
                await asyncio.sleep(1.0)
            raise ConnectionError("refused too often")

        async def open_one(token: str, since: float) -> Subscriber | XmppClient:
            subscriber: Subscriber | XmppClient
            if transport == "xmpp":
                subscriber = XmppClient(token, heard, room=room)
            else:
                subscriber = Subscriber(opening_of(port, token, subscriptions), heard)
            await loop.create_connection(partial(_itself, subscriber), "127.0.0.1", port)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await subscriber.ready
            seconds.append(time.perf_counter() - since)
            return subscriber

        self._listeners[name] = await gather_limited((one(token) for token in tokens), in_flight)
        seconds.sort()
        return {
            "elapsed": time.perf_counter() - began,
            "count": len(seconds),
            **{name: quantile(seconds, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        }

    async def wait(self, *, name: str, count: int) -> Answer:
        """Wait until a number of deliveries arrived since `report`."""
        try:
            await self._heard[name].until(count)
        except RuntimeError as error:
            ends = dict(count_endings(self._listeners[name]))
            raise RuntimeError(f"{name}: {error}; closed: {ends or 'none'}") from None
        return {}

    async def report(self, *, name: str) -> Answer:
        """Return the deliveries since the last report."""
        heard, fresh = self._heard[name], Deliveries()
        self._heard[name] = fresh
        for subscriber in self._listeners[name]:
            subscriber.heard = fresh
        seconds, last = sorted(heard.seconds), sorted(heard.last.values())
        return {
            "count": heard.count,
            "size": len(heard.sample),
            "sample": heard.sample.decode(errors="replace"),
            "p50": quantile(seconds, 0.5),
            "p95": quantile(seconds, 0.95),
            "p99": quantile(seconds, 0.99),
            "last": quantile(last, 0.5),
            "closed": count_endings(self._listeners[name]),
        }

    async def close(self, *, name: str) -> Answer:
        for subscriber in self._listeners.pop(name):
            subscriber.close()
        return {}

    # BareDrivers drivers.

    async def bare(self, *, mongo_url: str, redis_url: str) -> Answer:
        """Return the duration of an insert and two round trips to Redis from this process."""
        if self._bare is None:
            self._bare = await BareDrivers.open(mongo_url, redis_url)
        return await self._bare.act()


def _itself(client: P) -> P:
    return client


def opening_of(port: int, token: str, subscriptions: Sequence[str]) -> Opening:
    """Return how a user's WebSocket begins."""
    init = orjson.dumps({"type": "connection_init", "payload": {"Authorization": token}}).decode()
    return Opening(f"127.0.0.1:{port}", "/graphql", init, subscriptions)


async def _main() -> None:
    load = Load()
    # A garbage collection would delay answers that arrive meanwhile.
    gc.freeze()
    await run_command_loop(load)


if __name__ == "__main__":
    uvloop.run(_main())
