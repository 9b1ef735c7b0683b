"""Webhooks: believed only with a valid signature of their body, and then only a hint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from server.voice.livekit_webhook import MOST_BYTES, WEBHOOK_PATH, livekit_webhook_route
from tests.protocol.serving import open_listener, serving
from tests.voice.conftest import ROOM, Media
from tests.voice.livekit_server import sign_webhook


@dataclass
class Endpoint:
    """The endpoint, served over HTTP, and the rooms that it named."""

    url: str
    noted: list[str] = field(default_factory=list)

    async def post(self, body: bytes, token: str | None) -> httpx.Response:
        headers = {"content-type": "application/webhook+json"} | ({"authorization": token} if token else {})
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            return await client.post(self.url, content=body, headers=headers)


@pytest.fixture
async def endpoint(media: Media) -> AsyncIterator[Endpoint]:
    found = Endpoint("")
    app = Starlette(routes=[livekit_webhook_route(media.tokens, found.noted.append)])
    with open_listener() as listener:
        config = uvicorn.Config(app, log_config=None, lifespan="off", access_log=False)
        async with serving(config, listener) as served:
            found.url = f"http://127.0.0.1:{served.port}{WEBHOOK_PATH}"
            yield found


@pytest.mark.parametrize(
    "event",
    ["participant_joined", "participant_left", "participant_connection_aborted", "room_started", "room_finished"],
)
async def test_a_webhook_names_the_room_that_changed(media: Media, endpoint: Endpoint, event: str) -> None:
    assert await media.server.send_webhook(endpoint.url, event, ROOM) == 200
    assert endpoint.noted == [ROOM]


async def test_other_events_are_accepted_and_name_nothing(media: Media, endpoint: Endpoint) -> None:
    for event in ("track_published", "egress_started", "anything"):
        assert await media.server.send_webhook(endpoint.url, event, ROOM) == 200
    assert not endpoint.noted


async def test_forged_and_altered_webhooks_are_refused(media: Media, endpoint: Endpoint) -> None:
    send = media.server.send_webhook
    assert await send(endpoint.url, "participant_left", ROOM, secret="another-secret-of-more-than-32-bytes") == 401
    assert await send(endpoint.url, "participant_left", ROOM, body=b'{"event": "room_finished"}') == 401
    assert await send(endpoint.url, "participant_left", ROOM, body=b"") == 401
    assert await send(endpoint.url, "participant_left", ROOM, seconds=-61) == 401
    assert not endpoint.noted


async def test_tokens_for_something_else_are_refused(media: Media, endpoint: Endpoint) -> None:
    body = json.dumps({"event": "participant_left", "room": {"name": ROOM}}).encode()
    now = media.clock.ms // 1000
    call = media.tokens.sign_call({"roomAdmin": True, "room": ROOM})
    later = sign_webhook(body, now + 120)
    unsigned = sign_webhook(body, now).rpartition(".")[0] + "."
    for token in (None, "nothing", "a.b.c", "Bearer", call, later, unsigned):
        assert (await endpoint.post(body, token)).status_code == 401
    assert not endpoint.noted
    assert (await endpoint.post(body, f"Bearer {sign_webhook(body, now)}")).status_code == 200
    assert endpoint.noted == [ROOM]


async def test_an_oversized_webhook_is_refused(media: Media, endpoint: Endpoint) -> None:
    event = {"event": "participant_left", "room": {"name": ROOM}, "more": ""}
    event["more"] = "x" * (MOST_BYTES - len(json.dumps(event)))
    fitting, now = json.dumps(event).encode(), media.clock.ms // 1000
    assert (await endpoint.post(fitting + b" ", sign_webhook(fitting + b" ", now))).status_code == 413
    assert not endpoint.noted
    assert (await endpoint.post(fitting, sign_webhook(fitting, now))).status_code == 200
    assert endpoint.noted == [ROOM]


@pytest.mark.parametrize("body", [b"[]", b"nothing", b'"text"', b"\xff"])
async def test_a_body_that_is_no_event_is_refused(media: Media, endpoint: Endpoint, body: bytes) -> None:
    assert (await endpoint.post(body, sign_webhook(body, media.clock.ms // 1000))).status_code == 400
    assert not endpoint.noted


@pytest.mark.parametrize("room", [b"null", b'"text"', b"{}", b'{"name": 3}'])
async def test_an_event_without_a_room_names_nothing(media: Media, endpoint: Endpoint, room: bytes) -> None:
    body = b'{"event": "participant_left", "room": ' + room + b"}"
    assert (await endpoint.post(body, sign_webhook(body, media.clock.ms // 1000))).status_code == 200
    assert not endpoint.noted


async def test_the_endpoint_takes_only_post(endpoint: Endpoint) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        assert (await client.get(endpoint.url)).status_code == 405
