"""Connected members: connections that receive messages and record the time."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType

import orjson
from websockets.asyncio.client import ClientConnection

from tests.processes import ServerProcess, token
from tests.protocol.peer import open_socket

_LISTEN = """subscription { messageEvents { __typename ... on MessageCreated { cursor message {
    id seq content createdAt sender { id displayName } } } ... on CaughtUp { cursor reset } } }"""
_PATIENCE_SECONDS = 60.0


class Listeners:
    """One connection per user, for the time of the block. All have caught up when it begins."""

    def __init__(self, server: ServerProcess, users: Sequence[str]) -> None:
        self._url = f"ws://127.0.0.1:{server.port}/graphql"
        self._users = users
        self._sockets: list[ClientConnection] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._heard: dict[str, list[float]] = defaultdict(list)

    async def __aenter__(self) -> Listeners:
        for user in self._users:
            socket = await open_socket(self._url)
            self._sockets.append(socket)
            hello = {"type": "connection_init", "payload": {"Authorization": f"Bearer {token(user)}"}}
            await socket.send(orjson.dumps(hello).decode())
            assert orjson.loads(await socket.recv())["type"] == "connection_ack"
            wanted = {"id": "1", "type": "subscribe", "payload": {"query": _LISTEN}}
            await socket.send(orjson.dumps(wanted).decode())
            assert b"CaughtUp" in await socket.recv(decode=False)
            self._tasks.append(asyncio.create_task(self._listen(socket)))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for socket in self._sockets:
            await socket.close()

    async def _listen(self, socket: ClientConnection) -> None:
        while True:
            frame = orjson.loads(await socket.recv())
            if frame["type"] == "ping":
                await socket.send('{"type": "pong"}')
                continue
            message = frame["payload"]["data"]["messageEvents"]["message"]
            sent = datetime.fromisoformat(message["createdAt"]).timestamp()
            self._heard[message["id"]].append(time.time() - sent)

    async def wait_for(self, messages: int) -> None:
        """Wait until everybody has received a number of messages."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while sum(map(len, self._heard.values())) < messages * len(self._users):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def latest(self) -> float:
        """Return the seconds from sending a message until the last member received it: the median over messages."""
        latest = sorted(max(times) for times in self._heard.values())
        return latest[len(latest) // 2]
