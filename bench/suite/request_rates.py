"""Ways to make requests: as fast as they are answered, or at a fixed rate."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.subscriber import stamp
from bench.suite.clients import HttpClient, SocketClient
from bench.suite.xmpp import XmppClient

STAMP_PLACE = "@stamp@"
"""The place in a body for the time of sending."""

ROW_MARK = b'"seq":'
"""Occurs once for each session or message in an answer."""
XMPP_ROW_MARK = b"<forwarded "
_FAILURES = (b'"errors"', b'"type":"error"', b"type='error'")

_PATIENCE_SECONDS = 60.0


@dataclass
class RequestStats:
    """Results of requests."""

    seconds: array[float] = field(default_factory=lambda: array("d"))
    size: int = 0
    failures: int = 0
    sample: bytes = b""
    failure: bytes = b""
    rows: int | None = None
    """The number of rows that every answer must have, counted by ROW_MARK."""

    def take(self, began: float, answer: bytes) -> None:
        self.seconds.append(time.perf_counter() - began)
        self.size += len(answer)
        self.sample = answer
        rows = answer.count(ROW_MARK) + answer.count(XMPP_ROW_MARK)
        if any(mark in answer for mark in _FAILURES) or self.rows not in (None, rows):
            self.failures += 1
            self.failure = answer

    def report(self, elapsed: float) -> dict[str, Any]:
        times = sorted(self.seconds)
        return {
            "count": len(times),
            "elapsed": elapsed,
            "size": self.size / max(1, len(times)),
            "failures": self.failures,
            "failure": self.failure[:600].decode(errors="replace"),
            "sample": self.sample.decode(errors="replace"),
            **{name: quantile(times, share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))},
        }


class Asker:
    """A client with the requests it sends in turn."""

    def __init__(self, client: HttpClient | SocketClient | XmppClient, bodies: Sequence[str]) -> None:
        self._client = client
        self._bodies = deque(self._parts(body) for body in bodies)

    @staticmethod
    def _parts(body: str) -> tuple[bytes, bytes | None]:
        head, place, tail = body.partition(STAMP_PLACE)
        return head.encode(), tail.encode() if place else None

    def ask(self, taken: Any) -> None:
        head, tail = self._bodies[0]
        self._bodies.rotate(-1)
        self._client.ask(head if tail is None else head + stamp().encode() + tail, taken)


async def lone(
    asked: RequestStats,
    askers: Sequence[Asker],
    count: int,
    pause_seconds: float = 0.0,
    delivered: Callable[[int], Awaitable[None]] | None = None,
) -> dict[str, Any]:
    """Send a number of requests, one at a time, with a pause after each.

    delivered: waits until the events of a number of requests have arrived at their subscribers.
    """
    loop, began = asyncio.get_running_loop(), time.perf_counter()

    def taken(since: float, done: asyncio.Future[None], answer: bytes) -> None:
        asked.take(since, answer)
        done.set_result(None)

    for number in range(count):
        done: asyncio.Future[None] = loop.create_future()
        askers[number % len(askers)].ask(partial(taken, time.perf_counter(), done))
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await done
        if delivered is not None:
            await delivered(number + 1)
        if pause_seconds:
            await asyncio.sleep(pause_seconds)
    return asked.report(time.perf_counter() - began) | {"times": list(asked.seconds)}


async def closed(asked: RequestStats, askers: Sequence[Asker], seconds: float, in_flight: int) -> dict[str, Any]:
    """Let clients send again as soon as they have an answer, for a given time."""
    began = time.perf_counter()
    until, idle = began + seconds, asyncio.get_running_loop().create_future()
    left = min(in_flight, len(askers))

    def again(asker: Asker, since: float, answer: bytes) -> None:
        nonlocal left
        asked.take(since, answer)
        now = time.perf_counter()
        if now < until:
            asker.ask(partial(again, asker, now))
            return
        left -= 1
        if not left and not idle.done():
            idle.set_result(None)

    for asker in askers[:left]:
        asker.ask(partial(again, asker, time.perf_counter()))
    async with asyncio.timeout(seconds + _PATIENCE_SECONDS):
        await idle
    return asked.report(time.perf_counter() - began)


async def once(asked: RequestStats, askers: Sequence[Asker], in_flight: int) -> dict[str, Any]:
    """Let every client send once, with a given number of them at a time."""
    began = time.perf_counter()
    waiting, done = deque(askers), asyncio.get_running_loop().create_future()
    left = len(askers)

    def start() -> None:
        if waiting:
            waiting.popleft().ask(partial(taken, time.perf_counter()))

    def taken(since: float, answer: bytes) -> None:
        nonlocal left
        asked.take(since, answer)
        left -= 1
        if not left:
            done.set_result(None)
        start()

    for _ in range(in_flight):
        start()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await done
    return asked.report(time.perf_counter() - began)


async def opened(asked: RequestStats, askers: Sequence[Asker], seconds: float, rate: float) -> dict[str, Any]:
    """Send requests at a fixed rate, at times independent of the answers. Waiting for a free client counts."""
    loop = asyncio.get_running_loop()
    free, queue, idle = deque(askers), deque[float](), loop.create_future()
    rng, under_way, finished = random.Random(1), 0, False

    def start(asker: Asker, due: float) -> None:
        nonlocal under_way
        under_way += 1
        asker.ask(partial(taken, asker, due))

    def taken(asker: Asker, due: float, answer: bytes) -> None:
        nonlocal under_way
        under_way -= 1
        asked.take(due, answer)
        if queue:
            start(asker, queue.popleft())
            return
        free.append(asker)
        if finished and not under_way and not idle.done():
            idle.set_result(None)

    began = due = time.perf_counter()
    while due < began + seconds:
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        if free:
            start(free.popleft(), due)
        else:
            queue.append(due)
        due += rng.expovariate(rate)
    finished = True
    if under_way:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await idle
    return asked.report(time.perf_counter() - began)


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values; 0 if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
