"""The same subscription with Strawberry's own means: its schema, its WebSocket handler, a broadcast in memory.

An ASGI application. POST /send passes its JSON, a message, to all subscriptions of /graphql, then answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated

import strawberry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from strawberry.asgi import GraphQL
from strawberry.extensions import ParserCache, ValidationCache
from strawberry.schema.config import StrawberryConfig
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL


@strawberry.enum
class ContentType(Enum):
    TEXT = "TEXT"
    SYSTEM = "SYSTEM"


@strawberry.enum
class MessageState(Enum):
    NORMAL = "NORMAL"
    RECALLED = "RECALLED"


@strawberry.type
class User:
    id: strawberry.ID
    display_name: str
    avatar_url: str | None


@strawberry.type
class Message:
    id: strawberry.ID
    conversation_id: strawberry.ID
    seq: int
    sender: User
    content_type: ContentType
    content: str | None
    state: MessageState
    created_at: datetime


@strawberry.type
class MessageCreated:
    message: Message
    cursor: str


@strawberry.type
class CaughtUp:
    cursor: str
    reset: bool


MessageEvent = Annotated[MessageCreated | CaughtUp, strawberry.union("MessageEvent")]

_queues: set[asyncio.Queue[MessageCreated]] = set()


@strawberry.type
class Query:
    total_unread: int = 0


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def message_events(
        self, since: str | None = None, conversation_id: strawberry.ID | None = None
    ) -> AsyncGenerator[MessageEvent, None]:
        queue: asyncio.Queue[MessageCreated] = asyncio.Queue()
        _queues.add(queue)
        try:
            yield CaughtUp(cursor="beginning", reset=False)
            while True:
                yield await queue.get()
        finally:
            _queues.discard(queue)


async def _ready(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ready")


async def _send(request: Request) -> PlainTextResponse:
    given = await request.json()
    sender = given["sender"]
    event = MessageCreated(
        message=Message(
            id=given["id"],
            conversation_id=given["conversationId"],
            seq=given["seq"],
            sender=User(id=sender["id"], display_name=sender["displayName"], avatar_url=sender["avatarUrl"]),
            content_type=ContentType.TEXT,
            content=given["content"],
            state=MessageState.NORMAL,
            created_at=datetime.now(UTC),
        ),
        cursor=given["cursor"],
    )
    for queue in _queues:
        queue.put_nowait(event)
    return PlainTextResponse(str(len(_queues)))


_schema = strawberry.Schema(
    Query, subscription=Subscription, extensions=[ParserCache, ValidationCache], config=StrawberryConfig()
)

app = Starlette(
    routes=[
        Route("/readyz", _ready),
        Route("/send", _send, methods=["POST"]),
        Mount("/", GraphQL(_schema, subscription_protocols=[GRAPHQL_TRANSPORT_WS_PROTOCOL])),
    ]
)
