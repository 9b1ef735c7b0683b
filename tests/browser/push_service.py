"""A push service for browsers on loopback: the protocol of Firefox (autopush), and Web Push (RFC 8030) for servers."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.protocol.serving import open_listener, serving

_SUBPROTOCOL = "push-notification"


def decode(text: str) -> bytes:
    """Return the bytes of base64url with or without padding."""
    return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def encode(data: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Channel:
    """A subscription of the browser.

    Attributes:
        key: Public key of the only server that may push here.
        accepted: Ids of the pushes that were accepted for the browser.
        delivered: Ids of those that the browser has acknowledged.
    """

    key: bytes
    accepted: list[str] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list)


@dataclass
class LocalPushService:
    """The service: one browser, and any servers.

    Attributes:
        url: Its address for servers.
        channels: By id. A channel that the browser has unregistered is not there any more.
        refusals: Reasons why pushes of servers were refused.
    """

    url: str = ""
    channels: dict[str, Channel] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    _browser: WebSocket | None = None
    _waiting: list[dict[str, Any]] = field(default_factory=list)

    @property
    def websocket_url(self) -> str:
        """The value of Firefox's preference `dom.push.serverURL`."""
        return f"ws{self.url.removeprefix('http')}/"

    @property
    def channel(self) -> Channel:
        """The only channel."""
        (channel,) = self.channels.values()
        return channel

    async def serve_browser(self, socket: WebSocket) -> None:
        """Speak with the browser until it disconnects."""
        await socket.accept(subprotocol=_SUBPROTOCOL if _SUBPROTOCOL in socket.scope["subprotocols"] else None)
        self._browser = socket
        try:
            while True:
                await self._answer(socket, json.loads(await socket.receive_text()))
        except WebSocketDisconnect:
            if self._browser is socket:
                self._browser = None

    async def _answer(self, socket: WebSocket, message: dict[str, Any]) -> None:
        kind = message.get("messageType")
        answer: dict[str, Any] = {"messageType": kind, "status": 200}
        match kind:
            case None:
                await socket.send_text("{}")
            case "hello":
                uaid = message.get("uaid") or uuid.uuid4().hex
                await socket.send_json(answer | {"uaid": uaid, "use_webpush": True, "broadcasts": {}})
                for each in self._waiting:
                    await socket.send_json(each)
                self._waiting.clear()
            case "register":
                id = message["channelID"]
                self.channels[id] = Channel(decode(message["key"]))
                await socket.send_json(answer | {"channelID": id, "pushEndpoint": f"{self.url}/push/{id}"})
            case "unregister":
                self.channels.pop(message["channelID"], None)
                await socket.send_json(answer | {"channelID": message["channelID"]})
            case "ack":
                for update in message["updates"]:
                    if update["channelID"] in self.channels:
                        self.channels[update["channelID"]].delivered.append(update["version"])

    async def take_push(self, request: Request) -> Response:
        """Take a push of a server, and pass it on to the browser."""
        id = request.path_params["channel"]
        channel = self.channels.get(id)
        if channel is None:
            return Response(status_code=410)
        content = await request.body()
        reason = self._find_fault(request, channel, content)
        if reason is not None:
            self.refusals.append(reason)
            return Response(reason, 403 if "vapid" in reason else 400)
        version = uuid.uuid4().hex
        channel.accepted.append(version)
        push = {
            "messageType": "notification",
            "channelID": id,
            "version": version,
            "data": encode(content),
            "headers": {"encoding": "aes128gcm"},
        }
        if self._browser is None:
            self._waiting.append(push)
        else:
            await self._browser.send_json(push)
        return Response(status_code=201, headers={"location": f"{self.url}/message/{version}"})

    def _find_fault(self, request: Request, channel: Channel, content: bytes) -> str | None:
        if not 0 < len(content) <= 4096:
            return f"a body of {len(content)} bytes"
        if request.headers.get("content-encoding") != "aes128gcm":
            return "another encoding than aes128gcm"
        if not request.headers.get("ttl", "").isdigit():
            return "no TTL"
        if len(request.headers.get("topic", "")) > 32:
            return "a topic of more than 32 characters"
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        fields = dict(each.strip().partition("=")[::2] for each in given.split(","))
        if scheme.lower() != "vapid" or decode(fields.get("k", "")) != channel.key:
            return "vapid: another key than that of the subscription"
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), channel.key)
        try:
            jwt.decode(fields["t"], key, algorithms=["ES256"], audience=self.url)
        except jwt.InvalidTokenError as error:
            return f"vapid: {error}"
        return None


@asynccontextmanager
async def local_push_service() -> AsyncIterator[LocalPushService]:
    """Run a push service for the time of the block."""
    service = LocalPushService()
    routes = [
        WebSocketRoute("/", service.serve_browser),
        Route("/push/{channel}", service.take_push, methods=["POST"]),
    ]
    listener = open_listener()
    service.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    async with serving(config, listener):
        yield service
