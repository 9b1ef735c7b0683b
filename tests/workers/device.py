"""A client of `confab serve --workers`: it subscribes, resumes after each disconnect, and repeats its mutations."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import orjson
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.processes import ServerProcess, token
from tests.protocol.peer import Peer, open_socket
from tests.waiting import wait_for

PATIENCE = 180.0

LIVE = """subscription ($since: Cursor) { messageEvents(since: $since) { __typename
    ... on MessageCreated { cursor message { id content attachments { filename } } }
    ... on ReceiptAdvanced { cursor status seq user { id } }
    ... on TypingStarted { user { id } }
    ... on CaughtUp { cursor reset } } }"""
SYNC = "subscription { syncSession { reason sessions { readSeq conversation { id } } } }"
SEND = """mutation ($input: SendMessageInput!) { sendMessage(input: $input) {
    message { id conversationId seq content } } }"""

_PAUSE_SECONDS = 0.2
_TRIES = 200


class Refused(Exception):
    """Raised when the API answered with an error."""

    def __init__(self, error: Any) -> None:
        extensions = error["extensions"]
        super().__init__(str(error))
        self.code = str(extensions["code"])
        self.is_retryable = bool(extensions.get("retryable"))
        self.retry_after_ms = int(extensions.get("retryAfterMs", 0))


class Device:
    """One WebSocket, with a subscription to messages. `run` keeps it connected."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self.user = user
        self.events: list[tuple[str, str]] = []
        """Kind and content of every event except CaughtUp, in order."""
        self.connections = 0
        self.caught_up = asyncio.Event()
        """Set while the subscription runs."""
        self.local_port = 0
        """Port of the client's end of the connection."""
        self._server = server
        self._cursor: str | None = None
        self._peer: Peer | None = None
        self._ids = itertools.count()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._listeners: dict[str, Callable[[Any], None]] = {}

    async def run(self) -> None:
        """Connect, listen, and connect again after each disconnect."""
        while True:
            with suppress(ConnectionClosed, InvalidHandshake, OSError, EOFError, TimeoutError):
                await self._connect_once()
            self.caught_up.clear()
            self._peer = None
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the connection ended"))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def ask(self, query: str, **variables: Any) -> Any:
        """Return the value of the one field of an operation on this connection. Raises Refused or ConnectionError."""
        assert self._peer is not None
        name = f"ask-{next(self._ids)}"
        answer = self._answers[name] = asyncio.get_running_loop().create_future()
        await self._peer.subscribe(name, query, variables=variables)
        async with asyncio.timeout(PATIENCE):
            payload = await answer
        if "errors" in payload:
            raise Refused(payload["errors"][0])
        (value,) = payload["data"].values()
        return value

    async def listen(self, query: str, listener: Callable[[Any], None], **variables: Any) -> None:
        """Begin another subscription. It ends with the connection."""
        assert self._peer is not None
        name = f"more-{next(self._ids)}"
        self._listeners[name] = listener
        await self._peer.subscribe(name, query, variables=variables)

    async def disconnect(self) -> None:
        """Drop the connection, as a network does. `run` connects again."""
        assert self._peer is not None
        self.caught_up.clear()
        self._peer.socket.transport.abort()

    def contents(self) -> list[str]:
        """Return the contents of the messages in the order of their events."""
        return [content for kind, content in self.events if kind == "MessageCreated"]

    async def _connect_once(self) -> None:
        self._listeners.clear()
        async with open_socket(f"ws://127.0.0.1:{self._server.port}/graphql") as socket:
            peer = Peer(socket)
            await peer.init({"Authorization": f"Bearer {token(self.user)}"})
            self.local_port = socket.local_address[1]
            self.connections += 1
            self._peer = peer
            await peer.subscribe("live", LIVE, variables={"since": self._cursor})
            while True:
                self._take(await self._next(peer))

    async def _next(self, peer: Peer) -> Any:
        frame = orjson.loads(await peer.socket.recv())
        if frame["type"] == "ping":
            await peer.send({"type": "pong"})
        return frame

    def _take(self, frame: Any) -> None:
        name = frame.get("id", "")
        if frame["type"] == "next" and name == "live":
            self._apply(frame["payload"]["data"]["messageEvents"])
        elif frame["type"] in ("next", "error") and name in self._answers:
            payload = frame["payload"] if frame["type"] == "next" else {"errors": frame["payload"]}
            self._answers.pop(name).set_result(payload)
        elif frame["type"] == "next" and name in self._listeners:
            self._listeners[name](frame["payload"]["data"])

    def _apply(self, event: Any) -> None:
        kind = event["__typename"]
        self._cursor = event.get("cursor", self._cursor)
        if kind == "CaughtUp":
            # Nothing may be lost: the test would miss it.
            assert not event["reset"] or self.connections == 1
            self.caught_up.set()
        elif kind == "MessageCreated":
            self.events.append((kind, event["message"]["content"]))
        elif kind == "ReceiptAdvanced":
            self.events.append((kind, f"{event['user']['id']} {event['status']} {event['seq']}"))
        elif kind == "TypingStarted":
            self.events.append((kind, event["user"]["id"]))


@asynccontextmanager
async def connected(server: ServerProcess, *users: str) -> AsyncIterator[list[Device]]:
    """Connect a device of each user for the duration of the block. It begins when all have caught up."""
    devices = [Device(server, user) for user in users]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(device.run()) for device in devices]
        await wait_for(lambda: all(device.caught_up.is_set() for device in devices), PATIENCE)
        yield devices
        for task in tasks:
            task.cancel()


async def send(client: httpx.AsyncClient, to: str, content: str) -> int:
    """Send a message by HTTP, and repeat that with the same key until it is answered. Returns the number of tries.

    Raises Refused if the answer is an error that is not retryable, and TimeoutError.
    """
    variables = {"input": {"toUserId": to, "content": content, "idempotencyKey": content}}
    for number in range(_TRIES):
        with suppress(httpx.TransportError, orjson.JSONDecodeError):
            response = await client.post("/graphql", json={"query": SEND, "variables": variables})
            answer = orjson.loads(response.content)
            if "errors" not in answer:
                return number + 1
            refused = Refused(answer["errors"][0])
            if not refused.is_retryable:
                raise refused
        await asyncio.sleep(_PAUSE_SECONDS)
    raise TimeoutError(f"{content} was not sent in {_TRIES} tries")
