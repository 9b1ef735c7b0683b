"""How the torture's devices speak to servers: graphql-transport-ws as npm's client does, and HTTP beside it."""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.chaos.history import Json
from tests.processes import ServerProcess, token
from tests.protocol.peer import open_socket

RETRIED = frozenset({1000, 1001, 1005, 1006, 1012, 1013, 1014, 4403, 4408})
"""Close codes after which npm's graphql-ws comes back. After any other it gives up for good."""

_OPEN_SECONDS = 15.0
_ANSWER_SECONDS = 25.0
_SILENCE_SECONDS = 20.0
"""Without a word for so long, a client asks whether anybody is there, and gives up on the connection a little later."""

_NOTHING: Json = {}
_MOST_PROBLEMS = 500
_SMALL_BUFFER = 4096

_SESSION = """{
    id writeSeq readSeq deliveredSeq unreadCount unreadMentionCount unreadStatus muteStatus mutedUntil priority categoryId
    status activeTs peerDeliveredSeq peerReadSeq conversation { id } lastMessage { id seq content state editCount } }"""
_SHOWN = "id seq content state editCount"
_COUNTED = "contentType mentionsAll sender { id } mentions { id }"
_MESSAGE = f"{_SHOWN} {_COUNTED} conversationId createdAt idempotencyKey replyTo {{ id seq }}"


def _changing(name: str, parameters: str, arguments: str) -> str:
    return f"mutation ($id: ID!{parameters}) {{ {name}(conversationId: $id{arguments}) {_SESSION} }}"


QUERIES = {
    "sendMessage": f"""mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{
        replayed message {{ id conversationId seq content }} session {_SESSION} }} }}""",
    "markRead": _changing("markRead", ", $seq: Int", ", upToSeq: $seq"),
    "ackDelivered": _changing("ackDelivered", ", $seq: Int!", ", upToSeq: $seq"),
    "deleteSession": _changing("deleteSession", ", $hard: Boolean", ", hard: $hard"),
    "muteSession": _changing("muteSession", ", $muted: Boolean!, $until: DateTime", ", muted: $muted, until: $until"),
    "pinSession": _changing("pinSession", ", $priority: Int", ", priority: $priority"),
    "setUnread": _changing("setUnread", "", ""),
    "assignCategory": f"""mutation ($ids: [ID!]!, $category: ID) {{
        assignCategory(conversationIds: $ids, categoryId: $category) {_SESSION} }}""",
    "editMessage": "mutation ($id: ID!, $text: String!) { editMessage(messageId: $id, content: $text) { editCount } }",
    "recallMessage": "mutation ($id: ID!) { recallMessage(messageId: $id) { state } }",
    "createGroup": "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }",
    "inviteMembers": "mutation ($id: ID!, $users: [ID!]!) { inviteMembers(groupId: $id, userIds: $users) { id } }",
    "removeMember": "mutation ($id: ID!, $user: ID!) { removeMember(groupId: $id, userId: $user) { id } }",
    "leaveGroup": "mutation ($id: ID!) { leaveGroup(groupId: $id) }",
    "deleteConversation": "mutation ($id: ID!) { deleteConversation(conversationId: $id) }",
    "startTyping": "mutation ($id: ID!) { startTyping(conversationId: $id) }",
    "renewAuth": "mutation ($token: String!) { renewAuth(token: $token) }",
    "upsertUsers": "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id } }",
    "session": f"query ($id: ID!) {{ session(conversationId: $id) {_SESSION} }}",
    "syncSessions": f"""query ($since: Cursor) {{ syncSessions(since: $since, first: 100) {{
        cursor hasMore totalUnread reset sessions {_SESSION} }} }}""",
    "messages": f"""query ($id: ID!, $last: Int, $first: Int, $after: String) {{
        messages(conversationId: $id, last: $last, first: $first, after: $after) {{
        pageInfo {{ hasPreviousPage hasNextPage endCursor }} edges {{ node {{ {_SHOWN} {_COUNTED} }} }} }} }}""",
    "ticks": """query ($id: ID!) { message(id: $id) { id delivery { status recipientCount deliveredCount readCount } } }""",
    "me": "{ me { id } }",
}
LIVE_SESSIONS = f"""subscription ($since: Cursor) {{ syncSession(since: $since) {{
    reason hasMore totalUnread cursor reset sessions {_SESSION} }} }}"""


def live_messages(*, ticks: bool) -> str:
    """messageEvents, with or without what only a sender is shown. Two selections, so that a server has two to make."""
    message = f"{{ {_MESSAGE} {'delivery { status }' if ticks else ''} }}"
    return f"""subscription ($since: Cursor, $id: ID) {{ messageEvents(since: $since, conversationId: $id) {{ __typename
        ... on MessageCreated {{ cursor message {message} }}
        ... on MessageUpdated {{ cursor message {message} }}
        ... on MessageRecalled {{ cursor message {message} }}
        ... on ReceiptAdvanced {{ cursor conversationId status seq user {{ id }} }}
        ... on TypingStarted {{ conversationId at user {{ id }} }}
        ... on CaughtUp {{ cursor reset }} }} }}"""


class Refused(Exception):
    """The API answered an error."""

    def __init__(self, kind: str, error: Json) -> None:
        extensions = error.get("extensions") or {}
        self.code = str(extensions.get("code"))
        self.retryable = bool(extensions.get("retryable"))
        super().__init__(f"{kind}: {self.code} {extensions.get('field', '')}: {error.get('message')}")


class Lost(Exception):
    """No answer. Whether it was done is unknown."""


@dataclass
class Tally:
    """What happened, and what should not have. Bounded, however much goes wrong."""

    operations: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By kind, how often each outcome."""
    events: Counter[str] = field(default_factory=Counter)
    closes: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)
    """Milliseconds from a message's createdAt until a device that was caught up had it."""
    longest: dict[str, float] = field(default_factory=dict)
    """Seconds that something took at most."""
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def problem(self, sentence: str) -> None:
        self.problem_count += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(sentence[:3000])

    def took(self, what: str, seconds: float) -> None:
        self.longest[what] = max(seconds, self.longest.get(what, 0.0))


@cache
def token_of(user: str, role: str = "user") -> str:
    """One token a user for the whole run."""
    return token(user, role)


async def ask_by_http(http: httpx.AsyncClient, server: ServerProcess, user: str, kind: str, variables: Json) -> Any:
    """The value of the operation's one field. Raises Refused or Lost."""
    body = orjson.dumps({"query": QUERIES[kind], "variables": variables})
    role = "service" if kind == "upsertUsers" else "user"
    headers = {"authorization": f"Bearer {token_of(user, role)}", "content-type": "application/json"}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            response = await http.post(f"{server.url}/graphql", content=body, headers=headers)
        return _value(kind, orjson.loads(response.content))
    except (httpx.TransportError, TimeoutError, orjson.JSONDecodeError) as error:
        raise Lost(f"{type(error).__name__} by HTTP") from error


def _value(kind: str, answer: Json) -> Any:
    if "errors" in answer:
        raise Refused(kind, answer["errors"][0])
    (value,) = answer["data"].values()
    return value


class Line:
    """One acknowledged WebSocket of a device. Events are handed over in order, within `run`."""

    def __init__(self, socket: ClientConnection, tally: Tally) -> None:
        self._socket = socket
        self._tally = tally
        self._ids = itertools.count()
        self._hearers: dict[str, Callable[[Json], None]] = {}
        self._asked: dict[str, tuple[str, asyncio.Future[Json]]] = {}
        self._dropped: set[str] = set()
        self._stall = 0.0
        self._awake = asyncio.Event()
        self._left = ""
        self._ponging: asyncio.Task[None] | None = None
        self.stalled = False
        """Whether it stopped reading at some time."""

    @classmethod
    async def open(cls, server: ServerProcess, user: str, tally: Tally, *, small: bool) -> Line:
        """small: the kernel keeps little of what isn't read. Raises Lost."""
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                sock = await _connected(server.port, small=small)
                # From here on the socket is the library's to close.
                connection = await open_socket(f"ws://127.0.0.1:{server.port}/graphql", sock=sock)
                line = cls(connection, tally)
                payload = {"Authorization": f"Bearer {token_of(user)}"}
                await line._send({"type": "connection_init", "payload": payload})
                first = orjson.loads(await connection.recv())
            if first["type"] != "connection_ack":
                tally.problem(f"{user}: {first} instead of an acknowledgement")
            return line
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            if connection is not None:
                connection.transport.abort()
            raise Lost(f"{type(error).__name__} on connecting") from error
        except ConnectionClosed as closed:
            raise Lost(f"closed with {_code(closed)} on connecting") from closed

    async def ask(self, kind: str, variables: Json) -> Any:
        """The value of the operation's one field. Raises Refused or Lost."""
        name = f"{kind}-{next(self._ids)}"
        answered: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[name] = kind, answered
        try:
            payload = {"query": QUERIES[kind], "variables": variables}
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._send({"id": name, "type": "subscribe", "payload": payload})
                answer = await answered
        except (ConnectionClosed, TimeoutError) as error:
            raise Lost(f"{type(error).__name__} on the socket") from error
        finally:
            del self._asked[name]
            self._dropped.add(name)
        if answer is _NOTHING:
            raise Lost("the connection ended")
        return _value(kind, answer)

    async def subscribe(self, query: str, variables: Json, hear: Callable[[Json], None]) -> str:
        """Begins a subscription; `hear` gets its payloads. Answers its id. Raises ConnectionClosed."""
        name = f"live-{next(self._ids)}"
        self._hearers[name] = hear
        payload = {"query": query, "variables": variables}
        await self._send({"id": name, "type": "subscribe", "payload": payload})
        return name

    async def unsubscribe(self, name: str) -> None:
        """What comes of it from now on is passed over. Raises ConnectionClosed."""
        if self._hearers.pop(name, None) is not None:
            self._dropped.add(name)
            await self._send({"id": name, "type": "complete"})

    def stall(self, seconds: float) -> None:
        """From the next frame on it reads nothing for so long, as a device does that sleeps with its radio on."""
        self._stall = seconds
        self.stalled = True

    def wake(self) -> None:
        """Ends a stall, and whatever was to come."""
        self._stall = 0.0
        self._awake.set()

    async def leave(self, *, politely: bool) -> None:
        """Closes, or drops the connection without a word."""
        self._left = "closed by us" if politely else "aborted by us"
        if politely:
            await self._socket.close()
        else:
            self._socket.transport.abort()

    async def run(self) -> tuple[str, str]:
        """Reads until the end. Answers how it ended, a close code or what we did, and the server's reason."""
        try:
            while True:
                if self._stall:
                    seconds, self._stall = self._stall, 0.0
                    self._awake.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await self._awake.wait()
                self._take(orjson.loads(await self._receive()))
        except ConnectionClosed as closed:
            return self._left or _code(closed), closed.rcvd.reason if closed.rcvd else ""
        except TimeoutError:
            await self.leave(politely=False)
            return "silent server", ""
        finally:
            for _, answered in self._asked.values():
                if not answered.done():
                    answered.set_result(_NOTHING)
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
                self._ponging = asyncio.create_task(self._pong())
            case "pong":
                pass
            case "next" | "error" if name in self._asked:
                payload = frame["payload"] if kind == "next" else {"errors": frame["payload"]}
                answered = self._asked[name][1]
                if not answered.done():
                    answered.set_result(payload)
            case "next" | "error" if name in self._hearers:
                self._hearers[name](frame["payload"] if kind == "next" else {"errors": frame["payload"]})
            case "complete" if name in self._hearers:
                self._hearers[name]({"complete": True})
            case "next" | "error" | "complete" if name in self._dropped or name in self._asked:
                pass
            case _:
                self._tally.problem(f"a frame that nobody asked for: {frame}")

    async def _pong(self) -> None:
        try:
            await self._send({"type": "pong"})
        except ConnectionClosed:
            return

    async def _send(self, frame: Json) -> None:
        await self._socket.send(orjson.dumps(frame).decode())


async def _connected(port: int, *, small: bool) -> socket.socket:
    sock = socket.socket()
    try:
        sock.setblocking(False)
        if small:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    except BaseException:
        sock.close()
        raise
    return sock


def _code(closed: ConnectionClosed) -> str:
    return str(closed.rcvd.code if closed.rcvd else 1006)


def hinted_pause(reason: str) -> float | None:
    """The seconds after which a server that restarts asks its clients to come back."""
    found = re.search(r"retry in (\d+) ms", reason)
    return int(found[1]) / 1000 if found else None


def lines_of(log: Path) -> list[Json]:
    """A server's log. What isn't JSON is an error."""
    entries = []
    for line in log.read_text(errors="replace").splitlines():
        try:
            entries.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            entries.append({"level": "error", "event": line})
    return entries
