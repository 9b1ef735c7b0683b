"""A small server of the tests' own that behaves like LiveKit, because the real one is not installed here.

It is a real HTTP server on loopback. It checks tokens by LiveKit's rules, answers the calls of the server API that
Confab makes, in the same JSON, and sends signed webhooks. There is no sound: participants join by a call of the test.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import jwt
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from store.base.clock import Clock
from tests.protocol.serving import PATIENCE, open_listener, serving, until

API_KEY = "APItest"
SECRET = "a-secret-of-livekit-with-more-than-32-bytes"
LEEWAY_SECONDS = 60
ALL_SOURCES = ("MICROPHONE", "CAMERA", "SCREEN_SHARE", "SCREEN_SHARE_AUDIO")

Json = dict[str, Any]


class Refused(Exception):
    """Raised when LiveKit refuses a token or a call."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer = {"code": code, "msg": message}


@dataclass
class FakeParticipant:
    identity: str
    permission: Json
    attributes: Json = field(default_factory=dict)
    kind: str = "STANDARD"
    state: str = "ACTIVE"

    def can_publish(self, source: str) -> bool:
        """Return whether the participant may publish a source: an empty list of sources allows all."""
        allowed = self.permission["can_publish_sources"] or ALL_SOURCES
        return self.permission["can_publish"] and source in allowed


@dataclass
class FakeRoom:
    sid: str
    participants: dict[str, FakeParticipant] = field(default_factory=dict)


@dataclass
class LiveKitServer:
    """The state of the server, what tests make it do, and the calls that it received.

    status: if it is not 0, all calls, or those of `failing`, are answered with this status. failures: how many
    calls are; None: all of them. delay_seconds: each answer waits so long.
    """

    clock: Clock
    port: int = 0
    rooms: dict[str, FakeRoom] = field(default_factory=dict)
    calls: list[tuple[str, Json]] = field(default_factory=list)
    status: int = 0
    failing: set[str] = field(default_factory=set)
    failures: int | None = None
    delay_seconds: float = 0.0
    is_held: bool = False
    """No call is answered."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        """Return the settings of Confab for this server."""
        return {
            "livekit_url": f"ws://127.0.0.1:{self.port}",
            "livekit_api_key": API_KEY,
            "livekit_api_secret": SECRET,
        }

    def claims_of(self, token: str) -> Json:
        """Return the claims of a token that is valid at present."""
        options: Any = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "require": ["exp", "iss"]}
        try:
            claims: Json = jwt.decode(token, SECRET, ["HS256"], issuer=API_KEY, options=options)
        except jwt.PyJWTError as error:
            raise Refused(401, "unauthenticated", str(error)) from error
        now = self.clock.now_ms() / 1000
        if now >= claims["exp"] + LEEWAY_SECONDS or now < claims.get("nbf", 0) - LEEWAY_SECONDS:
            raise Refused(401, "unauthenticated", "token has expired")
        return claims

    def join(self, token: str) -> FakeParticipant:
        """Join the room of a token, as a client does. Another participant with the same identity is removed."""
        claims = self.claims_of(token)
        video = claims.get("video", {})
        if not video.get("roomJoin") or not video.get("room") or not claims.get("sub"):
            raise Refused(401, "unauthenticated", "no permission to join")
        publish = video.get("canPublish", True)
        participant = FakeParticipant(
            claims["sub"],
            {
                "can_publish": publish,
                "can_publish_sources": [source.upper() for source in video.get("canPublishSources", [])],
                "can_publish_data": video.get("canPublishData", publish),
                "can_subscribe": video.get("canSubscribe", True),
                "can_update_metadata": video.get("canUpdateOwnMetadata", False),
            },
            claims.get("attributes", {}),
        )
        self.room(video["room"]).participants[participant.identity] = participant
        return participant

    def room(self, name: str) -> FakeRoom:
        """Return a room, which is created by the first who joins."""
        if name not in self.rooms:
            self.rooms[name] = FakeRoom(f"RM_{next(self.numbers)}")
        return self.rooms[name]

    def leave(self, room: str, identity: str) -> None:
        """End a participant's connection. No webhook is sent: it is lost unless the test sends it."""
        del self.rooms[room].participants[identity]

    def identities(self, room: str) -> set[str]:
        """Return who is in a room."""
        return set(self.rooms[room].participants) if room in self.rooms else set()

    def restart(self) -> None:
        """Lose all rooms, as a LiveKit server without Redis does."""
        self.rooms.clear()

    def made(self, method: str) -> list[Json]:
        """Return the bodies of the calls of a method."""
        return [body for name, body in self.calls if name == method]

    async def send_webhook(
        self, url: str, event: str, room: str, *, secret: str = SECRET, body: bytes | None = None, seconds: int = 300
    ) -> int:
        """Send a webhook as LiveKit does. body: sent in place of the one that is signed. Return the status."""
        now = self.clock.now_ms() // 1000
        content = {"event": event, "room": {"name": room}, "id": f"EV_{next(self.numbers)}", "createdAt": str(now)}
        signed = json.dumps(content).encode()
        token = sign_webhook(signed, now, seconds, secret)
        headers = {"authorization": token, "content-type": "application/webhook+json"}
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            return (await client.post(url, content=signed if body is None else body, headers=headers)).status_code

    async def answer(self, request: Request) -> Response:
        """Answer a call of the server API."""
        method = request.path_params["method"]
        body = await request.json()
        self.calls.append((method, body))
        await asyncio.sleep(self.delay_seconds)
        await until(lambda: not self.is_held)
        if self.status and self.failures != 0 and (not self.failing or method in self.failing):
            if self.failures is not None:
                self.failures -= 1
            return Response("failing", self.status)
        try:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme != "Bearer":
                raise Refused(401, "unauthenticated", "no token")
            return JSONResponse(self._carry_out(method, body, self.claims_of(token).get("video", {})))
        except Refused as refusal:
            return JSONResponse(refusal.answer, refusal.status)

    def _carry_out(self, method: str, body: Json, grants: Json) -> Json:
        name = body.get("room", "")
        if method == "ListRooms":
            _require(grants.get("roomList"))
            names = body.get("names") or list(self.rooms)
            found = [(name, room) for name, room in self.rooms.items() if name in names]
            return {"rooms": [{"name": name, "sid": room.sid} for name, room in found]}
        _require(grants.get("roomAdmin") and grants.get("room") == name)
        participants = self.rooms[name].participants if name in self.rooms else {}
        if method == "ListParticipants":
            return {"participants": [vars(participant) for participant in participants.values()]}
        if body["identity"] not in participants:
            raise Refused(404, "not_found", "participant does not exist")
        if method == "RemoveParticipant":
            del participants[body["identity"]]
            return {}
        if method == "UpdateParticipant":
            participant = participants[body["identity"]]
            empty = {"can_publish": False, "can_publish_sources": [], "can_publish_data": False, "can_subscribe": False}
            participant.permission = {**empty, "can_update_metadata": False, **body["permission"]}
            return vars(participant)
        raise Refused(404, "bad_route", f"no handler for {method}")


def sign_webhook(body: bytes, now: int, seconds: int = 300, secret: str = SECRET) -> str:
    """Return the token of a webhook."""
    digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
    claims = {"iss": API_KEY, "iat": now, "nbf": now, "exp": now + seconds, "sha256": digest}
    return jwt.encode(claims, secret, algorithm="HS256")


def _require(is_allowed: object) -> None:
    if not is_allowed:
        raise Refused(401, "unauthenticated", "permissions denied")


@asynccontextmanager
async def serving_livekit(clock: Clock) -> AsyncIterator[LiveKitServer]:
    """Serve on a free port of loopback while the block runs."""
    livekit = LiveKitServer(clock)
    app = Starlette(routes=[Route("/twirp/livekit.RoomService/{method}", livekit.answer, methods=["POST"])])
    config = uvicorn.Config(app, log_config=None, lifespan="off", access_log=False)
    with open_listener() as listener:
        async with serving(config, listener) as served:
            livekit.port = served.port
            yield livekit
