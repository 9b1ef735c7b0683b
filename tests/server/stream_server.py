"""A server for event streams in single connection mode, called without a socket."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import jwt
from starlette.applications import Starlette

from tests.server.sse_peer import SSEPeer
from tests.server.tokens import SECRET

SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { content } } }"
HEADER = "x-graphql-event-stream-token"


def authorization(user: str) -> str:
    claims = {"sub": user, "exp": time.time() + 3600}
    return f"Bearer {jwt.encode(claims, SECRET, algorithm='HS256')}"


@dataclass
class Server:
    """One server, called without a socket."""

    app: Starlette
    client: httpx.AsyncClient
    peers: list[SSEPeer] = field(default_factory=list)

    async def ask(self, method: str, user: str | None, stream: str | None = None, **more: Any) -> httpx.Response:
        headers = {"authorization": authorization(user)} if user else {}
        if stream is not None:
            headers[HEADER] = stream
        return await self.client.request(method, "/graphql", headers=headers, **more)

    async def reserve(self, user: str) -> str:
        response = await self.ask("PUT", user)
        assert (response.status_code, response.headers["content-type"]) == (201, "text/plain; charset=utf-8")
        return response.text

    async def open(self, user: str, stream: str) -> SSEPeer:
        peer = SSEPeer(self.app, parameters={"token": stream}, authorization=authorization(user))
        self.peers.append(peer)
        await peer.until(lambda: peer.chunks)
        return peer

    async def perform(self, user: str, stream: str, id: Any, query: str, **variables: Any) -> httpx.Response:
        extensions = {} if id is None else {"operationId": id}
        body = {"query": query, "variables": variables, "extensions": extensions}
        return await self.ask("POST", user, stream, json=body)

    async def begin(self, user: str, stream: str, id: str, query: str, **variables: Any) -> None:
        response = await self.perform(user, stream, id, query, **variables)
        assert (response.status_code, response.content) == (202, b""), response.text

    async def stop(self, user: str, stream: str, id: str) -> httpx.Response:
        return await self.ask("DELETE", user, stream, params={"operationId": id})

    async def send(self, sender: str, to: str, content: str) -> None:
        body = {"query": SEND, "variables": {"input": {"toUserId": to, "content": content}}}
        response = await self.ask("POST", sender, json=body)
        assert "errors" not in response.json(), response.text


def client_of(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://confab")


def events_of(peer: SSEPeer, id: str) -> list[Any]:
    """Return the events of one operation: data or errors of responses, and None for complete."""
    return [
        None if name == "complete" else data["payload"].get("errors") or data["payload"]["data"]
        for name, data in peer.events
        if data["id"] == id
    ]
