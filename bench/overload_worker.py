"""The process that makes the load of `bench.overload`: requests do not wait for earlier answers.

Commands as in `bench.command_loop`.

Every request has a due time, and its waiting time counts from then. Over HTTP each uses a free kept-alive
connection, of which there are enough; over WebSockets one of the connections, whatever is running there.
"""

from __future__ import annotations

import asyncio
import gc
import random
import re
import time
from array import array
from collections import Counter, deque
from functools import partial
from typing import Any

import uvloop

from bench.command_loop import gather_limited, run_command_loop
from bench.subscriber import PATIENCE_SECONDS, Deliveries, Opening, Subscriber, client_frame
from bench.suite.clients import HttpClient
from bench.suite.load_worker import opening_of
from bench.suite.request_rates import quantile

Answer = dict[str, Any]

_CODE = re.compile(rb'"code": ?"(\w+)"')
_OPERATION = re.compile(rb'"id": ?"m(\d+)","type": ?"(next|error)"|"type": ?"(next|error)","id": ?"m(\d+)"')
_AT_ONCE = 64
_GRACE_SECONDS = 25.0


class Tally:
    """Results of requests, second by second."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.served: array[float] = array("d")
        self.refused: array[float] = array("d")
        self.codes: Counter[str] = Counter()
        self.lost = 0
        self.by_second: Counter[int] = Counter()

    def take(self, due: float, answer: bytes) -> None:
        now = time.perf_counter()
        if b'"errors"' not in answer and b'"type":"error"' not in answer:
            self.served.append(now - due)
            self.by_second[int(now - self.began)] += 1
            return
        code = _CODE.search(answer)
        if code is None:
            self.lost += 1
        else:
            self.codes[code[1].decode()] += 1
            self.refused.append(now - due)

    def report(self, asked: int, seconds: float) -> Answer:
        served, refused = sorted(self.served), sorted(self.refused)
        return {
            "asked": asked / seconds,
            "served": len(served) / seconds,
            "count": len(served),
            "p50": quantile(served, 0.5),
            "p99": quantile(served, 0.99),
            "longest": quantile(served, 1.0),
            "refused_p50": quantile(refused, 0.5),
            "refused_p99": quantile(refused, 0.99),
            "codes": dict(self.codes),
            "lost": self.lost,
            "unanswered": asked - len(served) - len(refused) - self.lost,
            "by_second": [self.by_second[second] for second in range(int(seconds))],
        }


class Socket(Subscriber):
    """A WebSocket with any number of running operations."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening, Deliveries())
        self._asked = 0
        self._waiting: dict[int, Any] = {}

    def ask(self, body: bytes, taken: Any) -> None:
        if self._transport is None or self.closed is not None:
            taken(b'{"errors": "lost"}')
            return
        self._asked += 1
        self._waiting[self._asked] = taken
        self._transport.write(client_frame(b'{"id":"m%d","type":"subscribe","payload":%b}' % (self._asked, body)))

    def _on_frame(self, opcode: int, payload: bytes) -> None:
        found = _OPERATION.search(payload[:120]) if opcode == 0x1 else None
        if found is None:
            super()._on_frame(opcode, payload)
            return
        taken = self._waiting.pop(int(found[1] or found[4]), None)
        if taken is not None:
            taken(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        waiting, self._waiting = self._waiting, {}
        for taken in waiting.values():
            taken(b'{"errors": "lost"}')


class Load:
    """Senders over both transports."""

    def __init__(self) -> None:
        self._port = 0
        self._http: list[HttpClient] = []
        self._free: deque[tuple[HttpClient, bytes]] = deque()
        self._sockets: deque[tuple[Socket, bytes]] = deque()

    async def connect(self, *, port: int, tokens: list[str], bodies: list[str], connections: int) -> Answer:
        """Open HTTP connections, and one WebSocket per token. bodies: the requests of each token's user."""
        self._port = port
        for number in range(connections):
            client = HttpClient(port, tokens[number % len(tokens)])
            self._http.append(client)
            self._free.append((client, bodies[number % len(tokens)].encode()))
        await gather_limited((client.open() for client in self._http), _AT_ONCE)

        async def one(token: str, body: str) -> None:
            socket = Socket(opening_of(port, token, ()))
            await asyncio.get_running_loop().create_connection(lambda: socket, "127.0.0.1", port)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await socket.ready
            self._sockets.append((socket, body.encode()))

        await gather_limited((one(token, body) for token, body in zip(tokens, bodies, strict=True)), _AT_ONCE)
        return {}

    async def drive(self, *, rate: float, seconds: float, over_http: float) -> Answer:
        """Send requests at a rate, a share of them over HTTP. Return when all are answered or given up."""
        rng, began = random.Random(1), time.perf_counter()
        tally, due, asked = Tally(began), began, 0
        while due < began + seconds:
            if (ahead := due - time.perf_counter()) > 0:
                await asyncio.sleep(ahead)
            asked += 1
            if rng.random() < over_http:
                await self._ask_http(tally, due)
            else:
                self._sockets.rotate(-1)
                socket, body = self._sockets[0]
                socket.ask(body, partial(tally.take, due))
            due += rng.expovariate(rate)
        deadline = time.perf_counter() + _GRACE_SECONDS
        while len(tally.served) + len(tally.refused) + tally.lost < asked and time.perf_counter() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return tally.report(asked, seconds)

    async def _ask_http(self, tally: Tally, due: float) -> None:
        if not self._free:
            tally.lost += 1
            return
        client, body = self._free.pop()

        def taken(answer: bytes) -> None:
            self._free.append((client, body))
            tally.take(due, answer)

        # The server has closed connections that were never used.
        await client.open()
        client.ask(body, taken)

    async def storm(self, *, token: str, count: int) -> Answer:
        """Open WebSockets at once, without an operation.

        Return how many were acknowledged, and how the others ended.
        """
        began = time.perf_counter()
        ends: Counter[str] = Counter()
        waited: list[float] = []

        async def one() -> None:
            socket = Subscriber(opening_of(self._port, token, ()), Deliveries())
            try:
                await asyncio.get_running_loop().create_connection(lambda: socket, "127.0.0.1", self._port)
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await socket.ready
                ends["acknowledged"] += 1
                waited.append(time.perf_counter() - began)
            except OSError:
                ends[str(socket.closed)] += 1
            finally:
                socket.close()

        await asyncio.gather(*(one() for _ in range(count)))
        return {"ends": dict(ends), "longest": max(waited, default=0.0), "elapsed": time.perf_counter() - began}


async def _main() -> None:
    load = Load()
    gc.freeze()
    await run_command_loop(load)


if __name__ == "__main__":
    uvloop.run(_main())
