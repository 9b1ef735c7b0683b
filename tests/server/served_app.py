"""Serves the application like `confab serve`, but in the process of the test."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from socket import socket
from typing import Any

import httpx
import pytest

from server.app import create_app
from server.cli.serve import _config
from server.overload.deadlines import Deadlines
from server.settings import Settings
from subscriptions.transport.engine import Json
from tests.protocol.peer import Peer, open_admitted_socket
from tests.protocol.serving import PATIENCE, Served, open_listener, serving
from tests.server.tokens import bearer

LIVE = "subscription { messageEvents { __typename ... on MessageCreated { message { content sender { id } } } } }"
SEND = 'mutation { sendMessage(input: {toUserId: "bob", content: "hello"}) { message { id } } }'


@dataclass
class App:
    """A served application and its clients."""

    served: Served
    http: httpx.AsyncClient
    sockets: AsyncExitStack

    async def ask(self, query: str, user: str | None = None, **headers: str) -> httpx.Response:
        if user:
            headers["authorization"] = bearer(sub=user, exp=time.time() + 60)
        return await self.http.post("/graphql", json={"query": query}, headers=headers)

    async def data(self, query: str, user: str) -> Json:
        """Return the data of a query, which must have no errors."""
        answer = (await self.ask(query, user)).json()
        assert "errors" not in answer, answer
        found = answer["data"]
        assert isinstance(found, dict)
        return found

    async def socket(self) -> Peer:
        """Open a WebSocket without connection_init."""
        url = f"ws://127.0.0.1:{self.served.port}/graphql"
        return await self.sockets.enter_async_context(open_admitted_socket(url))

    async def signed_in(self, user: str, **claims: Any) -> Peer:
        """Open a WebSocket of a user."""
        peer = await self.socket()
        await peer.init({"Authorization": bearer(sub=user, exp=time.time() + 60, **claims)})
        return peer


ServeApp = Callable[..., AbstractAsyncContextManager[App]]
"""Serve the application with these settings: `async with serve_app(graphiql=False) as app`."""


@contextmanager
def without_deadlines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let operations of served applications that begin in the block take any time."""
    with monkeypatch.context() as patch:
        patch.setattr(Deadlines, "add", lambda *_: None)
        yield


@asynccontextmanager
async def serving_app(settings: Settings) -> AsyncIterator[App]:
    with open_listener() as listener:
        # Addresses of files have it.
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = settings.model_copy(update={"public_url": settings.public_url or address})
        async with _serving(settings, listener) as app:
            yield app


@asynccontextmanager
async def _serving(settings: Settings, listener: socket) -> AsyncIterator[App]:
    config = _config(create_app(settings), settings)
    async with serving(config, listener) as served, AsyncExitStack() as sockets:
        url = f"http://127.0.0.1:{served.port}"
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            yield App(served, http, sockets)
