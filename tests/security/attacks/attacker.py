"""The attacker's side of an attack: connections, pace, and counts of the answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, WebSocketException

from tests.processes import token
from tests.protocol.peer import open_socket
from tests.security.attacks.http_client import HOST, Answer, HttpConnection

_IN_FLIGHT = 20


@dataclass
class AttackReport:
    """Counts of one attacker process."""

    requests: int = 0
    codes: Counter[str] = field(default_factory=Counter)
    """Answers by code, status or close code; `lost` for connections that ended without an answer."""
    received: int = 0
    largest: int = 0
    """Bytes of the largest answer."""
    open_after: int = 0
    """Connections that the server has not closed at the end."""

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"codes": dict(self.codes)}


@dataclass
class Attacker:
    """One attack in progress. It ends after `count` requests, or at the deadline (`time.monotonic`)."""

    port: int
    user: str
    count: int
    rate: float
    """Requests a second. 0: as fast as the answers come."""
    deadline: float
    given: dict[str, Any]
    """The result of the attack's `prepare`."""
    report: AttackReport = field(default_factory=AttackReport)

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    @property
    def token(self) -> str:
        return token(self.user)

    async def turns(self) -> AsyncIterator[int]:
        """Yield the numbers of the requests at the attack's rate."""
        began = time.monotonic()
        for number in range(self.count):
            if self.rate:
                await asyncio.sleep(max(0.0, min(began + number / self.rate - time.monotonic(), self.seconds_left)))
            if self.seconds_left <= 0:
                return
            yield number

    async def flood(
        self, body_of: Callable[[int], bytes], *headers: str, token: str | None, at_once: int = _IN_FLIGHT
    ) -> None:
        """Send the bodies of all turns over some connections, each as soon as one is free."""
        free: asyncio.Queue[HttpConnection] = asyncio.Queue()
        connections = [HttpConnection(self.port, token, *headers) for _ in range(at_once)]
        for connection in connections:
            free.put_nowait(connection)

        async def one(connection: HttpConnection, number: int) -> None:
            await self.ask(connection, body_of(number))
            free.put_nowait(connection)

        try:
            async with asyncio.timeout(self.seconds_left + 1), asyncio.TaskGroup() as tasks:
                async for number in self.turns():
                    tasks.create_task(one(await free.get(), number))
        except TimeoutError:
            pass
        finally:
            for connection in connections:
                connection.close()

    async def ask(self, connection: HttpConnection, body: bytes) -> Answer | None:
        """Send a request and count its answer. Return None if the connection is lost."""
        self.report.requests += 1
        try:
            answer = await connection.ask(body)
        except OSError:
            self.report.codes["lost"] += 1
            await asyncio.sleep(0.01)
            return None
        self.count_answer(answer.body, answer.codes)
        return answer

    def count_answer(self, body: bytes, codes: Iterable[str]) -> None:
        """Count an answer."""
        self.report.codes.update(set(codes))
        self.report.received += len(body)
        self.report.largest = max(self.report.largest, len(body))

    async def socket(self, payload: dict[str, Any] | None = None, *, signed_in: bool = True) -> ClientConnection | None:
        """Open a WebSocket and sign in. Return None, and count how it ended, if it is refused."""
        if signed_in:
            payload = {"Authorization": f"Bearer {self.token}", **(payload or {})}
        self.report.requests += 1
        try:
            socket = await open_socket(f"ws://{HOST}:{self.port}/graphql", open_timeout=10)
            await socket.send(orjson.dumps({"type": "connection_init", "payload": payload}).decode())
            await socket.recv()
        except ConnectionClosed as end:
            self.report.codes[str(end.rcvd.code if end.rcvd else 1006)] += 1
            return None
        except (OSError, TimeoutError, WebSocketException):
            self.report.codes["lost"] += 1
            return None
        return socket

    async def subscribe(self, socket: ClientConnection, operation_id: str, query: str, **variables: Any) -> None:
        """Start an operation on a socket. `listen` counts its answers."""
        self.report.requests += 1
        frame = {"id": operation_id, "type": "subscribe", "payload": {"query": query, "variables": variables}}
        with suppress(ConnectionClosed):
            await socket.send(orjson.dumps(frame).decode())

    async def listen(self, socket: ClientConnection) -> None:
        """Count all frames of a socket until it closes or the attack ends."""
        try:
            async with asyncio.timeout(self.seconds_left):
                while True:
                    self._count_frame(await socket.recv(decode=False))
        except ConnectionClosed as end:
            self.report.codes[str(end.rcvd.code if end.rcvd else 1006)] += 1
        except TimeoutError:
            pass

    def _count_frame(self, frame: bytes) -> None:
        codes = []
        if b'"errors"' in frame[-2000:] or b'"type":"error"' in frame[:40]:
            payload = orjson.loads(frame)["payload"]
            errors = payload if isinstance(payload, list) else payload.get("errors", ())
            codes = [error["extensions"]["code"] for error in errors]
        self.count_answer(frame, codes or ["OK"])

    async def together(self, one: Callable[[int], Awaitable[None]]) -> None:
        """Run a function for each turn, all at the same time, until the deadline."""
        tasks = []
        try:
            async for number in self.turns():
                tasks += [asyncio.ensure_future(one(number))]
            await asyncio.wait(tasks, timeout=max(0.1, self.seconds_left))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def hold(self, connections: list[asyncio.StreamReader], end: bytes | None = None) -> None:
        """Keep connections until the deadline, or until the server has closed all. Count those that stay open.

        end: bytes of the server that count as the end of a connection.
        """
        closed = [asyncio.ensure_future(_until_closed(reader, end)) for reader in connections]
        if closed:
            await asyncio.wait(closed, timeout=max(0.1, self.seconds_left))
        self.report.open_after += sum(not task.done() for task in closed)
        for task in closed:
            task.cancel()


async def _until_closed(reader: asyncio.StreamReader, end: bytes | None) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            if end is not None and end in data:
                return
