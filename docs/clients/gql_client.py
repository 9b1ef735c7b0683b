"""Confab from Python, with gql: `pip install "gql[httpx,websockets]"`."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from gql import Client, GraphQLRequest
from gql.client import AsyncClientSession
from gql.transport.exceptions import TransportError, TransportQueryError
from gql.transport.httpx import HTTPXAsyncTransport
from gql.transport.websockets import WebsocketsTransport
from websockets.exceptions import ConnectionClosed

Token = Callable[[], Awaitable[str]]

SYNC = """query ($since: Cursor) {
  syncSessions(since: $since) {
    cursor hasMore reset totalUnread sessions { id status unreadCount conversation { id title } } } }"""
HISTORY = """query ($conversationId: ID!, $before: String) {
  messages(conversationId: $conversationId, last: 50, before: $before) {
    pageInfo { hasPreviousPage startCursor }
    edges { node {
      id seq state content sender { id displayName } attachments { id filename contentType sizeBytes url } } } } }"""
MUTATIONS = {
    "sendMessage": """mutation ($input: SendMessageInput!) {
      sendMessage(input: $input) { replayed message { id seq conversationId } } }""",
    "editMessage": """mutation ($messageId: ID!, $content: String!) {
      editMessage(messageId: $messageId, content: $content) { id content editCount } }""",
    "recallMessage": "mutation ($messageId: ID!) { recallMessage(messageId: $messageId) { id state } }",
    "markRead": """mutation ($conversationId: ID!, $upToSeq: Int) {
      markRead(conversationId: $conversationId, upToSeq: $upToSeq) { id readSeq unreadCount } }""",
    "ackDelivered": """mutation ($conversationId: ID!, $upToSeq: Int!) {
      ackDelivered(conversationId: $conversationId, upToSeq: $upToSeq) { id deliveredSeq } }""",
    "startTyping": "mutation ($conversationId: ID!) { startTyping(conversationId: $conversationId) }",
    "stopTyping": "mutation ($conversationId: ID!) { stopTyping(conversationId: $conversationId) }",
    "createGroup": "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id name } }",
    "updateGroup": """mutation ($groupId: ID!, $input: UpdateGroupInput!) {
      updateGroup(groupId: $groupId, input: $input) { id name } }""",
    "inviteMembers": """mutation ($groupId: ID!, $userIds: [ID!]!) {
      inviteMembers(groupId: $groupId, userIds: $userIds) { id memberCount } }""",
    "createUpload": """mutation ($input: CreateUploadInput!) {
      createUpload(input: $input) { id url method headers { name value } } }""",
    "completeUpload": """mutation ($uploadId: ID!) {
      completeUpload(uploadId: $uploadId) { id state contentType sizeBytes width height } }""",
    "leaveGroup": "mutation ($groupId: ID!) { leaveGroup(groupId: $groupId) }",
}
REPEATABLE = {
    "editMessage",
    "recallMessage",
    "markRead",
    "ackDelivered",
    "updateGroup",
    "inviteMembers",
    "completeUpload",
}
"""Mutations with the same effect if they are executed twice. Others need an idempotencyKey."""

TERMINAL = {1002, 1007, 1009, 4400, 4401, 4406, 4409, 4429, 4500}
"""Close codes after which the same client would be refused again."""

REFUSED = {400, 411, 413, 422}
"""Answers to an upload that is not what was announced."""

STEADY = 10.0
"""A connection that lasted so many seconds was no failure."""

RENEW = "mutation ($token: String!) { renewAuth(token: $token) }"
EVENTS = """subscription ($since: Cursor) { messageEvents(since: $since) { __typename
  ... on MessageCreated { cursor message { id conversationId seq content sender { id } } }
  ... on MessageUpdated { cursor message { id content } }
  ... on MessageRecalled { cursor message { id } }
  ... on ReceiptAdvanced { cursor conversationId status seq user { id } }
  ... on TypingStarted { conversationId user { id displayName } }
  ... on TypingStopped { conversationId user { id } }
  ... on GroupChanged { cursor group { id name } }
  ... on CaughtUp { cursor reset } } }"""


def wait_before(error: Exception, attempt: int) -> float | None:
    """Return the seconds to wait before a retry; None if a retry cannot help."""
    if _close_code(error) in TERMINAL:
        return None
    errors = (error.errors or []) if isinstance(error, TransportQueryError) else []
    told = [each.get("extensions") or {} for each in errors]
    if not all(extensions.get("retryable") for extensions in told):
        return None
    asked = max((extensions.get("retryAfterMs", 0) for extensions in told), default=0)
    return asked / 1000 + (0.5 + 0.5 * random.random()) * min(0.25 * 2**attempt, 15)


def _close_code(error: BaseException | None) -> int | None:
    while error is not None and not isinstance(error, ConnectionClosed):
        error = error.__cause__
    return error.rcvd.code if error is not None and error.rcvd is not None else None


class Confab:
    """A client for one user: `async with Confab(url, token) as confab`. token() returns a valid token.

    device_id: the same at each start, if the user shall see this program among their devices; 1 to 64 characters.
    device_type: WEB, DESKTOP or MOBILE.
    """

    def __init__(self, url: str, token: Token, device_id: str | None = None, device_type: str = "DESKTOP") -> None:
        self._url = url
        self._token = token
        self._device = {"deviceId": device_id, "deviceType": device_type} if device_id is not None else {}
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

    async def act(self, name: str, /, **variables: Any) -> Any:
        """Execute one of MUTATIONS, and return its answer."""
        repeatable = name in REPEATABLE or "idempotencyKey" in variables.get("input", {})
        return (await self.ask(MUTATIONS[name], repeatable=repeatable, **variables))[name]

    async def send(self, **message: Any) -> dict[str, Any]:
        """Send a message. It is stored exactly once, however many attempts it takes."""
        answer = await self.act("sendMessage", input={"idempotencyKey": str(uuid.uuid4()), **message})
        sent: dict[str, Any] = answer["message"]
        return sent

    async def upload(
        self,
        path: Path,
        conversation_id: str,
        *,
        key: str | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Send a file and return its attachment, for `send(attachmentIds=[attachment["id"]])`.

        progress: called with the number of bytes sent. key: with the same key a later call continues this one, and the
        server stores one file.
        """
        size = (await asyncio.to_thread(path.stat)).st_size
        given = {"filename": path.name, "sizeBytes": size, "conversationId": conversation_id}
        given["idempotencyKey"] = key or str(uuid.uuid4())

        async def content() -> AsyncIterator[bytes]:
            with path.open("rb") as file:
                while chunk := file.read(256 * 1024):
                    yield chunk
                    progress(file.tell())

        for attempt in range(1, 9):
            # The same key answers the same upload, with an address that is valid again.
            to = await self.act("createUpload", input=given)
            headers = {"Content-Length": str(size)} | {each["name"]: each["value"] for each in to["headers"]}
            try:
                async with httpx.AsyncClient(timeout=60) as http:
                    answer = await http.request(to["method"], to["url"], headers=headers, content=content())
            except httpx.TransportError as error:
                await asyncio.sleep(wait_before(error, attempt) or 0)
                continue
            # 409: an earlier attempt has completed it.
            if answer.is_success or answer.status_code == 409:
                attachment: dict[str, Any] = await self.act("completeUpload", uploadId=to["id"])
                return attachment
            if answer.status_code in REFUSED:
                raise ValueError(f"{path.name} was refused: {answer.status_code} {answer.text}")
            await asyncio.sleep(0.25 * 2**attempt)
        raise OSError(f"{path.name} did not arrive")

    async def history(self, conversation_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of a conversation, newest first."""
        before, more = None, True
        while more:
            # Null: the conversation has no messages yet, or the user is not in it.
            page = (await self.ask(HISTORY, conversationId=conversation_id, before=before))["messages"]
            for edge in reversed(page["edges"] if page else []):
                yield edge["node"]
            more = page is not None and page["pageInfo"]["hasPreviousPage"]
            before = page["pageInfo"]["startCursor"] if page else None

    async def sessions(self, since: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield pages of sessions that changed since a cursor. Store the last page's cursor for the next call."""
        more = True
        while more:
            page = (await self.ask(SYNC, since=since))["syncSessions"]
            yield page
            since, more = page["cursor"], page["hasMore"]

    async def events(self, since: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield every event, across all disconnects. Store the cursor of the last event you have handled."""
        async with aclosing(self.subscribe(EVENTS, lambda: {"since": since})) as answers:
            async for data in answers:
                event = data["messageEvents"]
                yield event
                since = event.get("cursor", since)

    async def subscribe(
        self, document: str, variables: Callable[[], dict[str, Any]]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what a subscription sends, across all disconnects.

        variables: called for each connection. It returns the position after the last event that was handled.
        """
        attempt = 0
        while True:
            started = time.monotonic()
            try:
                init = {"Authorization": f"Bearer {await self._token()}"} | self._device
                # A new transport each time: gql's own reconnecting session would use the first token, and no cursor.
                transport = WebsocketsTransport(url=self._url.replace("http", "ws", 1), init_payload=init)
                async with Client(transport=transport) as session, self._renewing(session):
                    async for data in session.subscribe(GraphQLRequest(document, variable_values=variables())):
                        yield data
            except (TransportError, OSError, httpx.HTTPError) as error:
                attempt = 1 if time.monotonic() - started > STEADY else attempt + 1
                wait = wait_before(error, attempt)
                if wait is None:
                    raise
                await asyncio.sleep(wait)

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
