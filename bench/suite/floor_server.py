"""The floor: the same frames by a bare socket and the same round trips by bare drivers.

No GraphQL, no rules, no ASGI.

`python -m bench.suite.floor_server PORT MONGO_URL REDIS_URL` understands just enough of HTTP, WebSockets and the
operations to serve the clients of this suite. A user's token is `Bearer <user id>`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import orjson
import uvloop

from bench.suite.floor_work import Databases, Message, session_of, shown

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_USER = re.compile(rb"\r\nauthorization: *Bearer ([^\r]+)", re.IGNORECASE)
_KEY = re.compile(rb"\r\nsec-websocket-key: *([^\r]+)", re.IGNORECASE)

Reply = Callable[[bytes], None]


class Floor:
    """The listeners, the groups and their members, and the work for each request."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._groups: dict[str, list[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.listeners: defaultdict[str, list[Connection]] = defaultdict(list)

    def ask(self, user: str, body: bytes, reply: Reply) -> None:
        task = asyncio.create_task(self._answer(user, body, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, user: str, body: bytes, reply: Reply) -> None:
        request = orjson.loads(body)
        query, variables = request["query"], request.get("variables") or {}
        answer: Any
        if "sendMessage(" in query:
            message = await self._send(user, variables["input"])
            kept = ("id", "conversationId", "seq", "content", "createdAt")
            told = shown(message)
            answer = {
                "sendMessage": {
                    "replayed": False,
                    "message": {name: told[name] for name in kept},
                    "session": session_of(message),
                }
            }
            reply(orjson.dumps({"data": answer}))
            self._tell(message, told)
            return
        if "syncSessions(" in query:
            answer = {"syncSessions": {"cursor": "c" * 40, "sessions": await self._databases.changed(user)}}
        elif "sessions(" in query:
            edges = [{"node": node} for node in await self._databases.page(user)]
            answer = {"sessions": {"totalUnread": 1, "cursor": "c" * 40, "edges": edges}}
        elif "messages(" in query:
            edges = [{"node": node} for node in await self._databases.history(user, variables["id"])]
            answer = {"messages": {"pageInfo": {"hasPreviousPage": True}, "edges": edges}}
        elif "markRead(" in query:
            await self._databases.read(user, variables["id"])
            answer = {"markRead": {"id": f"s_{user}_{variables['id']}", "readSeq": 500, "unreadCount": 0}}
        elif "createGroup(" in query:
            answer = {"createGroup": self._create(user, variables["input"])}
        else:
            answer = None
        reply(orjson.dumps({"data": answer}))

    def _create(self, user: str, given: dict[str, Any]) -> dict[str, Any]:
        members = [user, *given["memberIds"]]
        group = f"g_{len(self._groups)}"
        self._groups[group] = members
        return {"id": group, "memberCount": len(members)}

    async def _send(self, user: str, given: dict[str, Any]) -> Message:
        to = given.get("toUserId")
        if to is not None:
            conversation, members = f"p_{user}_{to}", [user, to]
        else:
            conversation = given["conversationId"]
            members = self._groups[conversation]
        message = Message(user, conversation, members, given["content"])
        message.seq = await self._databases.reserve(message)
        await self._databases.commit(message)
        await self._databases.show(message)
        return message

    def _tell(self, message: Message, told: dict[str, Any]) -> None:
        event = {"__typename": "MessageCreated", "cursor": "c" * 40, "message": told}
        tail = b'","type":"next","payload":{"data":{"messageEvents":%b}}}' % orjson.dumps(event)
        for member in message.members:
            for listener in self.listeners.get(member, ()):
                listener.tell(tail)


class Connection(asyncio.Protocol):
    """A socket: HTTP with one request at a time, or a WebSocket."""

    __slots__ = ("_buffer", "_floor", "_subscription", "_transport", "_upgraded", "_user")

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._buffer = b""
        self._upgraded = False
        self._subscription = b""
        self._user = ""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._subscription and self in self._floor.listeners[self._user]:
            self._floor.listeners[self._user].remove(self)

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data if self._buffer else data
        if self._upgraded:
            self._frames(data, 0)
            return
        end = data.find(b"\r\n\r\n")
        self._buffer = data
        if end < 0:
            return
        end += 4
        if key := _KEY.search(data, 0, end):
            self._upgrade(key[1])
            self._frames(data, end)
            return
        length = _LENGTH.search(data, 0, end)
        stop = end + (int(length[1]) if length else 0)
        if len(data) < stop:
            return
        self._buffer = b""
        user = _USER.search(data, 0, end)
        self._floor.ask(user[1].decode() if user else "", data[end:stop] or b'{"query":""}', self._reply_http)

    def _reply_http(self, answer: bytes) -> None:
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\ncontent-length: %d\r\n\r\n%b"
            % (len(answer), answer)
        )

    # WebSocket.

    def _upgrade(self, key: bytes) -> None:
        assert self._transport is not None
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        self._transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: graphql-transport-ws\r\nSec-WebSocket-Accept: %b\r\n\r\n" % accept
        )
        self._upgraded = True

    def _frames(self, data: bytes, at: int) -> None:
        frames, self._buffer = _client_frames(data, at)
        for payload in frames:
            self._frame(orjson.loads(payload))

    def _frame(self, frame: dict[str, Any]) -> None:
        assert self._transport is not None
        if frame["type"] == "connection_init":
            self._user = frame["payload"]["Authorization"].partition(" ")[2]
            self._transport.write(_frame_of(b'{"type":"connection_ack"}'))
        elif frame["type"] == "subscribe":
            name = frame["id"].encode()
            if "messageEvents" in frame["payload"]["query"]:
                self._subscription = b'{"id":"' + name
                self._floor.listeners[self._user].append(self)
                caught_up = b'{"__typename":"CaughtUp","cursor":"c","reset":false}'
                self.tell(b'","type":"next","payload":{"data":{"messageEvents":%b}}}' % caught_up)
            else:
                self._floor.ask(self._user, orjson.dumps(frame["payload"]), lambda answer: self._reply(name, answer))

    def _reply(self, name: bytes, answer: bytes) -> None:
        assert self._transport is not None
        answered = _frame_of(b'{"id":"%b","type":"next","payload":%b}' % (name, answer))
        self._transport.write(answered + _frame_of(b'{"id":"%b","type":"complete"}' % name))

    def tell(self, tail: bytes) -> None:
        """Send a frame of the subscription."""
        assert self._transport is not None
        self._transport.write(_frame_of(self._subscription + tail))


def _frame_of(payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((0x81, size)) + payload
    if size < 65_536:
        return b"\x81\x7e" + size.to_bytes(2, "big") + payload
    return b"\x81\x7f" + size.to_bytes(8, "big") + payload


def _client_frames(data: bytes, at: int) -> tuple[list[bytes], bytes]:
    """Return text frames masked with zeros, as this suite's clients send them."""
    frames, size = [], len(data)
    while size - at >= 6:
        length, start = data[at + 1] & 0x7F, at + 2
        if length == 126:
            length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
        elif length == 127:
            length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
        start += 4
        if start + length > size:
            break
        if data[at] & 0x0F == 0x1:
            frames.append(data[start : start + length])
        at = start + length
    return frames, data[at:]


async def _main(port: int, mongo_url: str, redis_url: str) -> None:
    databases = Databases(mongo_url, redis_url)
    await databases.open()
    floor = Floor(databases)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(floor), "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1]), *sys.argv[2:4]))
