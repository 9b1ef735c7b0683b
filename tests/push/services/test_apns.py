"""APNs: what arrives over HTTP/2, and what becomes of every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from resolvers.push.push_service import PushOutcome, PushResult
from resolvers.push.services import apns, exchange
from resolvers.push.services.apns import Apns, ApnsOptions
from store.devices.device import PushAddress, PushPlatform
from tests.clock import ManualClock
from tests.push.services.apns_server import (
    ACCEPTED,
    GARBAGE,
    GOES_AWAY,
    RESETS,
    SILENT,
    ApnsReply,
    ApnsServer,
    open_apns_server,
    refusal,
)
from tests.push.services.push_server import MESSAGE, QUIET, Received, client_context

KEY = ec.generate_private_key(ec.SECP256R1())
DEVICE = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
PHONE = PushAddress(PushPlatform.APNS, DEVICE)
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server() -> AsyncIterator[ApnsServer]:
    async with open_apns_server() as apns_server:
        yield apns_server


@pytest.fixture
async def service(clock: ManualClock, server: ApnsServer) -> AsyncIterator[Apns]:
    options = ApnsOptions(KEY, "ABC123DEFG", "DEF123GHIJ", "org.example.chat", server.url)
    push = Apns(options, clock, ssl_context=client_context())
    yield push
    await push.close()


def claims_of(push: Received) -> dict[str, Any]:
    scheme, _, token = push.headers["authorization"].partition(" ")
    assert scheme == "bearer" and jwt.get_unverified_header(token) == {
        "alg": "ES256",
        "kid": "ABC123DEFG",
        "typ": "JWT",
    }
    options: Any = {"verify_iat": False}
    claims: dict[str, Any] = jwt.decode(token, KEY.public_key(), ["ES256"], options=options)
    return claims


async def test_the_app_gets_what_was_sent(service: Apns, server: ApnsServer, clock: ManualClock) -> None:
    assert await service.send(PHONE, MESSAGE) == PushResult(PushOutcome.ACCEPTED)
    (push,) = server.received
    assert push.json() == {
        "aps": {
            "alert": {"title": "Alice", "body": "Hello, Bob! 🦊"},
            "badge": 7,
            "sound": "default",
            "thread-id": "g_1",
        },
        "conversationId": "g_1",
        "badge": 7,
        "tag": "tag-of-g_1",
    }
    assert (push.method, push.path) == ("POST", f"/3/device/{DEVICE}")
    assert {name: text for name, text in push.headers.items() if name.startswith("apns-")} == {
        "apns-topic": "org.example.chat",
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": str(clock.ms // 1000 + 3 * 24 * 3600),
        "apns-collapse-id": "tag-of-g_1",
    }
    assert claims_of(push) == {"iss": "DEF123GHIJ", "iat": clock.ms // 1000}


async def test_a_quiet_push_wakes_the_app_and_sets_the_badge(service: Apns, server: ApnsServer) -> None:
    assert (await service.send(PHONE, QUIET)).outcome is PushOutcome.ACCEPTED
    assert server.received[0].json() == {
        "aps": {"badge": 3, "content-available": 1},
        "conversationId": "g_1",
        "badge": 3,
        "tag": "tag-of-g_1",
        "quiet": True,
    }
    assert server.received[0].headers["apns-priority"] == "5"


async def test_a_long_text_is_cut_to_4096_bytes(service: Apns, server: ApnsServer) -> None:
    await service.send(PHONE, replace(MESSAGE, body="🦊" * 4_000))
    (push,) = server.received
    assert 4_080 < len(push.body) <= 4_096 and push.json()["aps"]["alert"]["body"].endswith("🦊…")


async def test_a_token_is_used_for_50_minutes(service: Apns, server: ApnsServer, clock: ManualClock) -> None:
    for minutes in (0, 49, 1, 30):
        clock.ms += minutes * MINUTE_MS
        await service.send(PHONE, MESSAGE)
    tokens = [push.headers["authorization"] for push in server.received]
    assert tokens[0] == tokens[1] and tokens[2] == tokens[3] and tokens[1] != tokens[2]
    # A clock that was set back does not make the token valid for longer.
    clock.ms -= 24 * 60 * MINUTE_MS
    await service.send(PHONE, MESSAGE)
    assert claims_of(server.received[-1])["iat"] == clock.ms // 1000


async def test_pushes_share_one_connection(service: Apns, server: ApnsServer) -> None:
    results = await asyncio.gather(*(service.send(PHONE, MESSAGE) for _ in range(50)))
    assert {result.outcome for result in results} == {PushOutcome.ACCEPTED}
    assert (server.connections, len(server.received)) == (1, 50)


async def test_a_server_that_takes_one_stream_at_a_time_gets_all(service: Apns, server: ApnsServer) -> None:
    server.streams_at_once = 1
    results = await asyncio.gather(*(service.send(PHONE, MESSAGE) for _ in range(20)))
    assert {result.outcome for result in results} == {PushOutcome.ACCEPTED}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (refusal(410, "Unregistered", timestamp=1_700_000_000_000), PushOutcome.GONE),
        (refusal(410, "ExpiredToken"), PushOutcome.GONE),
        (refusal(410, "Unregistered", timestamp=10**18), PushOutcome.GONE),
        (refusal(400, "BadDeviceToken"), PushOutcome.REFUSED),
        (refusal(400, "DeviceTokenNotForTopic"), PushOutcome.REFUSED),
        (refusal(400, "TopicDisallowed"), PushOutcome.REFUSED),
        (refusal(403, "InvalidProviderToken"), PushOutcome.REFUSED),
        (refusal(403, "Forbidden"), PushOutcome.REFUSED),
        (refusal(404, "BadPath"), PushOutcome.REFUSED),
        (refusal(413, "PayloadTooLarge"), PushOutcome.REFUSED),
        (refusal(400, "IdleTimeout"), PushOutcome.UNREACHABLE),
        (refusal(429, "TooManyRequests"), PushOutcome.UNREACHABLE),
        (refusal(429, "TooManyProviderTokenUpdates"), PushOutcome.UNREACHABLE),
        (refusal(500, "InternalServerError"), PushOutcome.UNREACHABLE),
        (refusal(503, "Shutdown"), PushOutcome.UNREACHABLE),
        (ApnsReply(503, b"<html>"), PushOutcome.UNREACHABLE),
        (ApnsReply(400, b"\xff\x00"), PushOutcome.REFUSED),
        (ApnsReply(400, b"[]"), PushOutcome.REFUSED),
        (ApnsReply(400, {"reason": ["Unregistered"]}), PushOutcome.REFUSED),
        (ApnsReply(201, b""), PushOutcome.REFUSED),
        (ApnsReply(302, b"", {"location": "/elsewhere"}), PushOutcome.REFUSED),
    ],
)
async def test_each_answer_has_an_outcome(
    service: Apns, server: ApnsServer, answer: ApnsReply, outcome: PushOutcome
) -> None:
    server.reply = answer
    result = await service.send(PHONE, MESSAGE)
    assert result.outcome is outcome and result.reason and len(server.received) == 1


async def test_the_reason_says_since_when_a_token_is_not_valid(service: Apns, server: ApnsServer) -> None:
    server.reply = refusal(410, "Unregistered", timestamp=1_700_000_000_000)
    reason = (await service.send(PHONE, MESSAGE)).reason
    assert reason == "status 410: Unregistered, since 2023-11-14T22:13:20+00:00"


async def test_services_may_ask_for_a_pause(service: Apns, server: ApnsServer) -> None:
    server.reply = refusal(503, "ServiceUnavailable", {"retry-after": "17"})
    assert (await service.send(PHONE, MESSAGE)).retry_after_seconds == 17


async def test_an_expired_token_is_replaced_once(service: Apns, server: ApnsServer) -> None:
    first: set[str] = set()

    def refuse_first(push: Received) -> ApnsReply:
        token = push.headers["authorization"]
        if not first:
            first.add(token)
        return refusal(403, "ExpiredProviderToken") if token in first else ACCEPTED

    server.choose = refuse_first
    results = await asyncio.gather(*(service.send(PHONE, MESSAGE) for _ in range(10)))
    assert {result.outcome for result in results} == {PushOutcome.ACCEPTED}
    assert len({push.headers["authorization"] for push in server.received}) == 2


async def test_a_wrong_clock_does_not_cause_new_tokens_all_the_time(
    service: Apns, server: ApnsServer, clock: ManualClock
) -> None:
    server.reply = refusal(403, "ExpiredProviderToken", {"date": formatdate(clock.ms / 1000 + 7_200, usegmt=True)})
    for _ in range(5):
        result = await service.send(PHONE, MESSAGE)
        assert result.outcome is PushOutcome.REFUSED
        assert "The clock of this server is 7200 s behind" in (result.reason or "")
    assert len({push.headers["authorization"] for push in server.received}) == 2
    # Once the clock is right, pushes arrive again.
    server.reply = ACCEPTED
    clock.ms += 120 * MINUTE_MS
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED


@pytest.mark.parametrize("ending", [GOES_AWAY, RESETS, GARBAGE])
async def test_a_lost_connection_is_opened_again(service: Apns, server: ApnsServer, ending: ApnsReply) -> None:
    server.queue = [ACCEPTED, ending, ACCEPTED]
    for _ in range(2):
        assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED
    assert (server.connections, len(server.received)) == (2, 3)


async def test_a_connection_that_dies_silently_is_replaced(
    service: Apns, server: ApnsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 60.0)
    assert service._client.timeout.read == apns._STEP_SECONDS < exchange.PUSH_SECONDS
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED

    def be_silent_once(_: Received) -> ApnsReply:
        # The second connection has more time: a busy machine opens it slowly.
        service._client.timeout = 60.0
        server.choose = None
        return SILENT

    server.choose = be_silent_once
    service._client.timeout = httpx.Timeout(60.0, read=0.2)
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED
    assert server.connections == 2


@pytest.mark.parametrize("reply", [GOES_AWAY, RESETS, GARBAGE, SILENT, ApnsReply(500, b"x" * 10_000_000)])
async def test_a_server_that_never_answers_is_unreachable(
    service: Apns, server: ApnsServer, reply: ApnsReply, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The connection is open: only the answer has a short time.
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 1.0 if reply is SILENT else 60.0)
    server.reply = reply
    result = await service.send(PHONE, MESSAGE)
    assert result.outcome is PushOutcome.UNREACHABLE and result.reason
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 60.0)
    server.reply = ACCEPTED
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED


async def test_a_closed_port_is_unreachable(clock: ManualClock) -> None:
    async with open_apns_server() as server:
        url = server.url
    service = Apns(ApnsOptions(KEY, "K", "T", "topic", url), clock, ssl_context=client_context())
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.UNREACHABLE
    await service.close()


@pytest.mark.parametrize("token", ["../../admin", "abc?x=1", "xyz", "a", "f" * 202, "00fc/13ad", "00 fc", ""])
async def test_a_malformed_token_is_gone_without_a_request(service: Apns, server: ApnsServer, token: str) -> None:
    assert (await service.send(PushAddress(PushPlatform.APNS, token), MESSAGE)).outcome is PushOutcome.GONE
    assert server.connections == 0


def test_the_key_is_not_printed() -> None:
    options = ApnsOptions(KEY, "ABC123DEFG", "DEF123GHIJ", "org.example.chat")
    assert "key=" not in repr(options)
