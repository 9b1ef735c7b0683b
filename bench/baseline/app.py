"""The ASGI application."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
import orjson
from pymongo import AsyncMongoClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from strawberry.asgi import GraphQL
from strawberry.exceptions import ConnectionRejectionError
from strawberry.subscriptions import GRAPHQL_TRANSPORT_WS_PROTOCOL
from strawberry.types.unset import UnsetType

from bench.baseline.broadcast import Broadcast
from bench.baseline.chat import Chat
from bench.baseline.rows import Row
from bench.baseline.schema import schema
from bench.baseline.types import Context


def _user_of(header: str | None) -> str | None:
    """Return the user of `Bearer <user id>` or `Bearer <JSON Web Token>`, without verifying it."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    if token.startswith("eyJ"):
        return str(jwt.decode(token, options={"verify_signature": False})["sub"])
    return token or None


class ChatGraphQL(GraphQL[Context, None]):
    """Strawberry's application, with orjson as its documentation shows."""

    async def get_context(self, request: Request | WebSocket, response: Response | WebSocket) -> Context:
        user = _user_of(request.headers.get("authorization"))
        return Context(request.app.state.chat, user, isinstance(request, WebSocket))

    async def on_ws_connect(self, context: Context) -> UnsetType | dict[str, object] | None:
        given = (context.connection_params or {}).get("Authorization")
        try:
            context.user_id = _user_of(given) or context.user_id
        except jwt.PyJWTError as error:
            raise ConnectionRejectionError from error
        return await super().on_ws_connect(context)

    def encode_json(self, data: object) -> str:
        # The protocol uses text frames, not binary ones.
        return orjson.dumps(data).decode()

    def decode_json(self, data: str | bytes) -> Any:
        return orjson.loads(data)


@asynccontextmanager
async def _running(app: Starlette) -> AsyncIterator[None]:
    database = os.environ["BASELINE_DATABASE"]
    broadcast = Broadcast(os.environ["BASELINE_REDIS_URL"], database)
    async with AsyncMongoClient[Row](os.environ["BASELINE_MONGO_URL"]) as mongo, broadcast.running():
        app.state.chat = Chat(mongo, database, broadcast)
        await app.state.chat.prepare()
        yield


async def _ready(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ready")


_graphql = ChatGraphQL(schema, subscription_protocols=[GRAPHQL_TRANSPORT_WS_PROTOCOL])

app = Starlette(
    routes=[
        Route("/readyz", _ready),
        Route("/graphql", _graphql),
        WebSocketRoute("/graphql", _graphql),
    ],
    lifespan=_running,
)
