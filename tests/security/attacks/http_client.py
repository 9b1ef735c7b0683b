"""A small HTTP client for GraphQL, so that the attacker and the bystander cost little."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over HTTP."""

    status: int
    body: bytes

    @property
    def codes(self) -> list[str]:
        """The codes of its errors; OK if it has none; the status if it is not a GraphQL response."""
        try:
            errors = orjson.loads(self.body).get("errors", ())
        except (orjson.JSONDecodeError, AttributeError):
            return [str(self.status)]
        return [error["extensions"]["code"] for error in errors] or ["OK"]


def post_head(token: str | None, length: int, *headers: str) -> bytes:
    """Return the head of a POST of JSON with a body of this length."""
    lines = ["POST /graphql HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", f"content-length: {length}"]
    lines += ["accept: application/graphql-response+json", *headers]
    if token is not None:
        lines.append(f"authorization: Bearer {token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def graphql_body(query: str, variables: dict[str, Any] | None = None, **more: Any) -> bytes:
    """Return the body of a request."""
    return orjson.dumps({"query": query, "variables": variables or {}, **more})


class HttpConnection:
    """A kept-alive connection. It opens itself when it is used, and again after it was lost."""

    def __init__(self, port: int, token: str | None, *headers: str) -> None:
        self._port = port
        self._token = token
        self._headers = headers
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connect. Raises OSError."""
        self._reader, self._writer = await asyncio.open_connection(HOST, self._port, limit=1 << 20)

    async def ask(self, body: bytes) -> Answer:
        """Send a request and return its answer. Raises OSError if the connection is lost."""
        await self.send(body)
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").lower().split("\r\n")
            length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
            answer = Answer(int(lines[0].split(" ")[1]), await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, StopIteration) as error:
            self.close()
            raise ConnectionResetError("the server closed the connection") from error
        except BaseException:
            self.close()
            raise
        if "connection: close" in lines:
            self.close()
        return answer

    async def send(self, body: bytes) -> None:
        """Send a request without reading its answer. Raises OSError."""
        if self._writer is None or self._writer.is_closing():
            await self.open()
        assert self._writer is not None
        self._writer.write(post_head(self._token, len(body), *self._headers) + body)
        await self._writer.drain()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
