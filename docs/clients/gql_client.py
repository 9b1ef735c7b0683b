"""Confab from Python, with gql: `pip install "gql[httpx,websockets]"`."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
from gql import Client, GraphQLRequest
from gql.client import AsyncClientSession
from gql.transport.exceptions import TransportError, TransportQueryError
from gql.transport.httpx import HTTPXAsyncTransport
from gql.transport.websockets import WebsocketsTransport

Token = Callable[[], Awaitable[str]]

SYNC = """query ($since: Cursor) {
  syncSessions(since: $since) {
    cursor hasMore reset totalUnread sessions { id status unreadCount conversation { id title } } } }"""
SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { replayed message { id seq } } }"
RENEW = "mutation ($token: String!) { renewAuth(token: $token) }"
EVENTS = """subscription ($since: Cursor) { messageEvents(since: $since) { __typename
  ... on MessageCreated { cursor message { id conversationId seq content sender { id } } }
  ... on MessageUpdated { cursor message { id content } }
  ... on MessageRecalled { cursor message { id } }
  ... on ReceiptAdvanced { cursor conversationId status seq }
  ... on CaughtUp { cursor reset } } }"""


def wait_before(error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait before a retry; None if a retry cannot help."""
    errors = (error.errors or []) if isinstance(error, TransportQueryError) else []
    told = [each.get("extensions") or {} for each in errors]
    if not all(extensions.get("retryable") for extensions in told):
        return None
    asked = max((extensions.get("retryAfterMs", 0) for extensions in told), default=0)
    return asked / 1000 + random.random() * min(0.25 * 2**attempt, 10)


class Confab:
    """A client for one user: `async with Confab(url, token) as confab`. token() returns a valid token."""

    def __init__(self, url: str, token: Token) -> None:
        self._url = url
        self._token = token
        self._client = Client(transport=HTTPXAsyncTransport(url=url, auth=_Bearer(token)))

    async def __aenter__(self) -> Confab:
        self._http = await self._client.connect_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close_async()

    async def ask(self, query: str, /, *, repeatable: bool = True, **variables: Any) -> dict[str, Any]:
        """Return the data of a query or mutation. Raises TransportQueryError, whose `errors` have extensions.code."""
        attempt = 1
        while True:
            try:
                return await self._http.execute(GraphQLRequest(query, variable_values=variables))
            except TransportError as error:
                wait = wait_before(error, attempt) if repeatable and attempt < 10 else None
                if wait is None:
                    raise
                await asyncio.sleep(wait)
                attempt += 1

    async def send(self, **message: Any) -> dict[str, Any]:
        """Send a message. It is stored exactly once, however many attempts it takes."""
        answer = await self.ask(SEND, input={"idempotencyKey": str(uuid.uuid4()), **message})
        sent: dict[str, Any] = answer["sendMessage"]["message"]
        return sent

    async def sessions(self, since: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield pages of sessions that changed since a cursor. Store the last page's cursor for the next call."""
        more = True
        while more:
            page = (await self.ask(SYNC, since=since))["syncSessions"]
            yield page
            since, more = page["cursor"], page["hasMore"]

    async def events(self, since: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield every event, across all disconnects. Store the cursor of the last event you have handled."""
        attempt = 1
        while True:
            token = await self._token()
            # A new transport each time: gql's own reconnecting session would use the first token, and no cursor.
            transport = WebsocketsTransport(
                url=self._url.replace("http", "ws", 1), init_payload={"Authorization": f"Bearer {token}"}
            )
            try:
                async with Client(transport=transport) as session, self._renewing(session):
                    request = GraphQLRequest(EVENTS, variable_values={"since": since})
                    async for data in session.subscribe(request):
                        event = data["messageEvents"]
                        yield event
                        since = event.get("cursor", since)
                        attempt = 1
            except (TransportError, OSError) as error:
                wait = wait_before(error, attempt)
                if wait is None:
                    raise
                await asyncio.sleep(wait)
                attempt += 1

    @asynccontextmanager
    async def _renewing(self, session: AsyncClientSession) -> AsyncIterator[None]:
        """Renew the token. A failure loses nothing: the next connection has a new token."""

        async def renew() -> None:
            while True:
                request = GraphQLRequest(RENEW, variable_values={"token": await self._token()})
                until = datetime.fromisoformat((await session.execute(request))["renewAuth"])
                await asyncio.sleep(max(1.0, 0.5 * (until - datetime.now(UTC)).total_seconds()))

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class _Bearer(httpx.Auth):
    def __init__(self, token: Token) -> None:
        self._token = token

    async def async_auth_flow(self, request: httpx.Request) -> Any:
        request.headers["Authorization"] = f"Bearer {await self._token()}"
        yield request
