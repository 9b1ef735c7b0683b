"""Connections of the load: graphql-transport-ws as npm's graphql-ws speaks it, and single requests by HTTP."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import httpx
import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.chaos.judges.history import Json
from tests.chaos.load.documents import DOCUMENTS
from tests.chaos.tally import RunTally
from tests.processes import ServerProcess, token
from tests.protocol.peer import open_socket

RETRIED = frozenset({1000, 1001, 1005, 1006, 1012, 1013, 1014, 4403, 4408})
"""Close codes after which npm's graphql-ws connects again. After any other code it gives up for good."""

_OPEN_SECONDS = 15.0
_ANSWER_SECONDS = 25.0
_SILENCE_SECONDS = 20.0
"""After this long without a frame the client pings, and gives up if nothing comes for as long again."""

_NO_ANSWER: Json = {}
_SMALL_BUFFER = 4096


class RequestFailed(Exception):
    """Raised when the API answered with an error."""

    def __init__(self, operation: str, error: Json) -> None:
        extensions = error.get("extensions") or {}
        self.code = str(extensions.get("code"))
        self.retryable = bool(extensions.get("retryable"))
        super().__init__(f"{operation}: {self.code} {extensions.get('field', '')}: {error.get('message')}")


class AnswerLost(Exception):
    """Raised when no answer arrived. It is unknown whether the server carried out the request."""


@cache
def token_of(user: str, role: str = "user") -> str:
    """Return the user's token, the same for the whole run."""
    return token(user, role)


async def request_by_http(
    http: httpx.AsyncClient, server: ServerProcess, user: str, operation: str, variables: Json
) -> Any:
    """Return the value of the operation's one field.

    Raises:
        RequestFailed: The API answered with an error.
        AnswerLost: No answer arrived.
    """
    body = orjson.dumps({"query": DOCUMENTS[operation], "variables": variables})
    role = "service" if operation == "upsertUsers" else "user"
    headers = {"authorization": f"Bearer {token_of(user, role)}", "content-type": "application/json"}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            response = await http.post(f"{server.url}/graphql", content=body, headers=headers)
        return _value(operation, orjson.loads(response.content))
    except (httpx.TransportError, TimeoutError, orjson.JSONDecodeError) as error:
        raise AnswerLost(f"{type(error).__name__} by HTTP") from error


def _value(operation: str, answer: Json) -> Any:
    if "errors" in answer:
        raise RequestFailed(operation, answer["errors"][0])
    (value,) = answer["data"].values()
    return value


class LoadConnection:
    """One acknowledged WebSocket of a device. `run` hands over the events, in order."""

    def __init__(self, socket: ClientConnection, tally: RunTally) -> None:
        self._socket = socket
        self._tally = tally
        self._ids = itertools.count()
        self._listeners: dict[str, Callable[[Json], None]] = {}
        self._requests: dict[str, asyncio.Future[Json]] = {}
        self._ended: set[str] = set()
        self._stall_seconds = 0.0
        self._resumed = asyncio.Event()
        self._closed_by_device = ""
        self._pong_task: asyncio.Task[None] | None = None
        self.stalled = False
        """True if the device stopped reading at any time."""

    @classmethod
    async def open(cls, server: ServerProcess, user: str, tally: RunTally, *, small_buffer: bool) -> LoadConnection:
        """Connect and authenticate.

        Args:
            server: The server to connect to.
            user: Owner of the device.
            tally: Takes problems.
            small_buffer: Whether the kernel buffers only a little of what the device does not read.

        Raises:
            AnswerLost: The server did not accept the connection.
        """
        websocket: ClientConnection | None = None
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                sock = await _connected(server.port, small_buffer=small_buffer)
                # From here on the library closes the socket.
                websocket = await open_socket(f"ws://127.0.0.1:{server.port}/graphql", sock=sock)
                connection = cls(websocket, tally)
                payload = {"Authorization": f"Bearer {token_of(user)}"}
                await connection._send({"type": "connection_init", "payload": payload})
                first = orjson.loads(await websocket.recv())
            if first["type"] != "connection_ack":
                tally.problem(f"{user}: {first} instead of an acknowledgement")
            return connection
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            if websocket is not None:
                websocket.transport.abort()
            raise AnswerLost(f"{type(error).__name__} on connecting") from error
        except ConnectionClosed as closed:
            raise AnswerLost(f"closed with {_code(closed)} on connecting") from closed

    async def request(self, operation: str, variables: Json) -> Any:
        """Return the value of the operation's one field. Raises RequestFailed or AnswerLost."""
        name = f"{operation}-{next(self._ids)}"
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._requests[name] = answered
        try:
            payload = {"query": DOCUMENTS[operation], "variables": variables}
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._send({"id": name, "type": "subscribe", "payload": payload})
                answer = await answered
        except (ConnectionClosed, TimeoutError) as error:
            raise AnswerLost(f"{type(error).__name__} on the socket") from error
        finally:
            del self._requests[name]
            self._ended.add(name)
        if answer is _NO_ANSWER:
            raise AnswerLost("the connection ended")
        return _value(operation, answer)

    async def subscribe(self, document: str, variables: Json, listener: Callable[[Json], None]) -> str:
        """Begin a subscription, whose payloads go to the listener. Returns its id. Raises ConnectionClosed."""
        name = f"live-{next(self._ids)}"
        self._listeners[name] = listener
        payload = {"query": document, "variables": variables}
        await self._send({"id": name, "type": "subscribe", "payload": payload})
        return name

    async def unsubscribe(self, name: str) -> None:
        """End a subscription; ignore what still arrives for it. Raises ConnectionClosed."""
        if self._listeners.pop(name, None) is not None:
            self._ended.add(name)
            await self._send({"id": name, "type": "complete"})

    def stall(self, seconds: float) -> None:
        """Stop reading after the next frame, like a device that sleeps with its radio on."""
        self._stall_seconds = seconds
        self.stalled = True

    def end_stall(self) -> None:
        """End a stall, also one that has not begun."""
        self._stall_seconds = 0.0
        self._resumed.set()

    async def close(self, *, politely: bool) -> None:
        """Close the connection, or drop it without a close frame."""
        self._closed_by_device = "closed by the device" if politely else "dropped by the device"
        if politely:
            await self._socket.close()
        else:
            self._socket.transport.abort()

    async def run(self) -> tuple[str, str]:
        """Read until the end. Returns the close code, or what the device did, and the server's reason."""
        try:
            while True:
                if self._stall_seconds:
                    seconds, self._stall_seconds = self._stall_seconds, 0.0
                    self._resumed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await self._resumed.wait()
                self._take(orjson.loads(await self._receive()))
        except ConnectionClosed as closed:
            return self._closed_by_device or _code(closed), closed.rcvd.reason if closed.rcvd else ""
        except TimeoutError:
            await self.close(politely=False)
            return "silent server", ""
        finally:
            for answered in self._requests.values():
                if not answered.done():
                    answered.set_result(_NO_ANSWER)
            await self._socket.close()

    async def _receive(self) -> str | bytes:
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                return await self._socket.recv()
        except TimeoutError:
            await self._send({"type": "ping"})
            async with asyncio.timeout(_SILENCE_SECONDS):
                return await self._socket.recv()

    def _take(self, frame: Json) -> None:
        kind, name = frame["type"], frame.get("id", "")
        match kind:
            case "ping":
                self._pong_task = asyncio.create_task(self._pong())
            case "pong":
                pass
            case "next" | "error" if name in self._requests:
                payload = frame["payload"] if kind == "next" else {"errors": frame["payload"]}
                if not self._requests[name].done():
                    self._requests[name].set_result(payload)
            case "next" | "error" if name in self._listeners:
                self._listeners[name](frame["payload"] if kind == "next" else {"errors": frame["payload"]})
            case "complete" if name in self._listeners:
                self._listeners[name]({"complete": True})
            case "next" | "error" | "complete" if name in self._ended or name in self._requests:
                pass
            case _:
                self._tally.problem(f"an unexpected frame: {frame}")

    async def _pong(self) -> None:
        with suppress(ConnectionClosed):
            await self._send({"type": "pong"})

    async def _send(self, frame: Json) -> None:
        await self._socket.send(orjson.dumps(frame).decode())


async def _connected(port: int, *, small_buffer: bool) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setblocking(False)
        if small_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


def _code(closed: ConnectionClosed) -> str:
    return str(closed.rcvd.code if closed.rcvd else 1006)


def retry_delay(reason: str) -> float | None:
    """Return the seconds after which a server that restarts asks its clients to connect again."""
    found = re.search(r"retry in (\d+) ms", reason)
    return int(found[1]) / 1000 if found else None
