"""FCM: what arrives, access tokens, and what becomes of every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest

from resolvers.push.push_service import PushOutcome, PushResult
from resolvers.push.services import exchange
from resolvers.push.services.fcm import Fcm
from resolvers.push.services.fcm_tokens import parse_fcm_credentials
from store.devices.device import PushAddress, PushPlatform
from tests.clock import ManualClock
from tests.push.services.keys import SERVICE_ACCOUNT, service_account
from tests.push.services.push_server import (
    MESSAGE,
    QUIET,
    PushServer,
    Received,
    Reply,
    hang,
    open_push_server,
    reply,
    reset,
    send_endlessly,
    send_garbage,
)
from tests.waiting import wait_for

PHONE = PushAddress(PushPlatform.FCM, "bk3RNwTe3H0:CI2k_HHwgIpoDKCIZvvDMExUdFQ3P1")
SEND = "/v1/projects/chat-1234/messages:send"
FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


class Google:
    """Gives access tokens at /token, and answers pushes with `answer`. grants: answers at /token."""

    def __init__(self, server: PushServer) -> None:
        self.server = server
        self.grants: list[Reply] = []
        self.answer: Reply = reply(200, {"name": "projects/chat-1234/messages/1"})
        self.number = 0
        server.choose = self._choose

    def _choose(self, request: Received) -> Reply:
        if request.path != "/token":
            return self.answer
        self.number += 1
        grant = {"access_token": f"ya29.{self.number}", "expires_in": 3599, "token_type": "Bearer"}
        return self.grants.pop(0) if self.grants else reply(200, grant)

    @property
    def asked(self) -> list[Received]:
        return [request for request in self.server.received if request.path == "/token"]

    @property
    def pushes(self) -> list[Received]:
        return [request for request in self.server.received if request.path == SEND]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def google() -> AsyncIterator[Google]:
    async with open_push_server() as server:
        yield Google(server)


@pytest.fixture
async def service(clock: ManualClock, google: Google) -> AsyncIterator[Fcm]:
    url = f"http://127.0.0.1:{google.server.port}"
    push = Fcm(parse_fcm_credentials(service_account(token_uri=f"{url}/token")), clock, url=url)
    yield push
    await push.close()


def error(status: int, code: str, /, message: str = "", *details: dict[str, Any], **headers: str) -> bytes:
    body = {"error": {"code": status, "message": message, "status": code, "details": list(details)}}
    return reply(status, body, **headers)


def fcm_error(code: str) -> dict[str, Any]:
    return {"@type": FCM_ERROR, "errorCode": code}


async def test_the_app_gets_what_was_sent(service: Fcm, google: Google) -> None:
    assert await service.send(PHONE, MESSAGE) == PushResult(PushOutcome.ACCEPTED)
    (push,) = google.pushes
    assert push.json() == {
        "message": {
            "token": PHONE.token,
            "notification": {"title": "Alice", "body": "Hello, Bob! 🦊"},
            "data": {"conversationId": "g_1", "badge": "7", "tag": "tag-of-g_1"},
            "android": {
                "collapse_key": "tag-of-g_1",
                "priority": "HIGH",
                "ttl": "259200s",
                "notification": {"tag": "tag-of-g_1"},
            },
        }
    }
    assert push.headers["authorization"] == "Bearer ya29.1"


async def test_a_quiet_push_has_data_only(service: Fcm, google: Google) -> None:
    assert (await service.send(PHONE, replace(QUIET, conversation=None))).outcome is PushOutcome.ACCEPTED
    assert google.pushes[0].json() == {
        "message": {
            "token": PHONE.token,
            "data": {"badge": "3", "tag": "tag-of-g_1", "quiet": "true"},
            "android": {"collapse_key": "tag-of-g_1", "priority": "NORMAL", "ttl": "259200s"},
        }
    }


async def test_a_long_text_is_cut_to_4096_bytes(service: Fcm, google: Google) -> None:
    await service.send(PushAddress(PushPlatform.FCM, "t" * 4_096), replace(MESSAGE, body="🦊" * 4_000))
    message = google.pushes[0].json()["message"]
    assert message["notification"]["body"].endswith("🦊…")
    assert 3_500 < len(message["notification"]["body"].encode()) < 4_096


async def test_the_service_account_signs_for_an_access_token(service: Fcm, google: Google, clock: ManualClock) -> None:
    await service.send(PHONE, MESSAGE)
    form = parse_qs(google.asked[0].body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    (assertion,) = form["assertion"]
    assert jwt.get_unverified_header(assertion)["kid"] == "key-id"
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_aud": False}
    claims = jwt.decode(assertion, SERVICE_ACCOUNT.public_key(), ["RS256"], options=options)
    assert claims == {
        "iss": "confab@chat-1234.iam.gserviceaccount.com",
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
        "aud": f"http://127.0.0.1:{google.server.port}/token",
        "iat": clock.ms // 1000,
        "exp": clock.ms // 1000 + 3_600,
    }


async def test_an_access_token_is_fetched_once_and_replaced_before_it_ends(
    service: Fcm, google: Google, clock: ManualClock
) -> None:
    await asyncio.gather(*(service.send(PHONE, MESSAGE) for _ in range(30)))
    assert (len(google.asked), len(google.pushes)) == (1, 30)
    clock.ms += 3_298_000
    await service.send(PHONE, MESSAGE)
    assert len(google.asked) == 1
    clock.ms += 1_000
    await service.send(PHONE, MESSAGE)
    assert len(google.asked) == 2 and google.pushes[-1].headers["authorization"] == "Bearer ya29.2"


async def test_a_refused_access_token_is_replaced_once(service: Fcm, google: Google) -> None:
    google.answer = error(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
    result = await service.send(PHONE, MESSAGE)
    assert result.outcome is PushOutcome.REFUSED and (len(google.asked), len(google.pushes)) == (2, 2)
    google.answer = error(401, "UNAUTHENTICATED", "", fcm_error("THIRD_PARTY_AUTH_ERROR"))
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.REFUSED
    assert len(google.pushes) == 3


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (error(404, "NOT_FOUND", "not found", fcm_error("UNREGISTERED")), PushOutcome.GONE),
        (error(404, "NOT_FOUND", "Requested entity was not found."), PushOutcome.GONE),
        (
            error(400, "INVALID_ARGUMENT", "The registration token is not a valid FCM registration token",
                fcm_error("INVALID_ARGUMENT")),
            PushOutcome.GONE,
        ),
        (
            error(400, "INVALID_ARGUMENT", "Invalid value", fcm_error("INVALID_ARGUMENT"),
                {"@type": BAD_REQUEST, "fieldViolations": [{"field": "message.token", "description": "Invalid"}]}),
            PushOutcome.GONE,
        ),
        (
            error(400, "INVALID_ARGUMENT", "Invalid value of a registration token",
                {"@type": BAD_REQUEST, "fieldViolations": [{"field": "message.data[0].value"}]}),
            PushOutcome.REFUSED,
        ),
        (error(400, "INVALID_ARGUMENT", "Android message is too big"), PushOutcome.REFUSED),
        (error(403, "PERMISSION_DENIED", "", fcm_error("SENDER_ID_MISMATCH")), PushOutcome.REFUSED),
        (error(403, "PERMISSION_DENIED", "The API is not enabled"), PushOutcome.REFUSED),
        (reply(404, "<html>wrong address</html>"), PushOutcome.REFUSED),
        (reply(400, b"\xff\xfe"), PushOutcome.REFUSED),
        (reply(400, {"error": "x"}), PushOutcome.REFUSED),
        (reply(400, {"error": {"details": [7, {"errorCode": 7}], "status": 7, "message": 7}}), PushOutcome.REFUSED),
        (reply(302, Location="/elsewhere"), PushOutcome.REFUSED),
        (reply(201), PushOutcome.REFUSED),
        (error(429, "RESOURCE_EXHAUSTED", "", fcm_error("QUOTA_EXCEEDED")), PushOutcome.UNREACHABLE),
        (error(503, "UNAVAILABLE"), PushOutcome.UNREACHABLE),
        (error(500, "INTERNAL"), PushOutcome.UNREACHABLE),
        (reply(502, "<html>"), PushOutcome.UNREACHABLE),
    ],
)  # fmt: skip
async def test_each_answer_has_an_outcome(service: Fcm, google: Google, answer: bytes, outcome: PushOutcome) -> None:
    google.answer = answer
    result = await service.send(PHONE, MESSAGE)
    assert result.outcome is outcome and result.reason and len(google.pushes) == 1


@pytest.mark.parametrize(("headers", "seconds"), [({}, 60.0), ({"Retry_After": "17"}, 17.0)])
async def test_an_exceeded_quota_needs_a_pause(
    service: Fcm, google: Google, headers: dict[str, str], seconds: float
) -> None:
    google.answer = error(429, "RESOURCE_EXHAUSTED", "", fcm_error("QUOTA_EXCEEDED"), **headers)
    assert (await service.send(PHONE, MESSAGE)).retry_after_seconds == seconds


async def test_refused_credentials_say_why_and_are_not_tried_with_each_push(
    service: Fcm, google: Google, clock: ManualClock
) -> None:
    date = formatdate(clock.ms / 1000 - 7_200, usegmt=True)
    refused = {"error": "invalid_grant", "error_description": "Token must be a short-lived token"}
    google.grants = [reply(400, refused, Date=date)]
    results = [await service.send(PHONE, MESSAGE) for _ in range(3)]
    assert {result.outcome for result in results} == {PushOutcome.REFUSED} and len(google.asked) == 1
    reason = results[0].reason or ""
    assert "invalid_grant" in reason and "The clock of this server is 7200 s ahead" in reason
    clock.ms += 5_000
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED


@pytest.mark.parametrize(
    "grant",
    [
        reset,
        hang,
        send_garbage,
        send_endlessly,
        reply(200),
        reply(200, "[]"),
        reply(200, {"access_token": "a b\r\nX-Injected: 1"}),
        reply(200, {"access_token": 7}),
        reply(200, {"access_token": "ä"}),
        reply(503),
    ],
)
async def test_without_an_access_token_fcm_is_unreachable(
    service: Fcm, google: Google, grant: Reply, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 0.5)
    google.grants = [grant, grant]
    result = await service.send(PHONE, MESSAGE)
    assert result.outcome is PushOutcome.UNREACHABLE and result.reason and google.pushes == []


@pytest.mark.parametrize("seconds", [0, -1, "3599", None, 10**18, True])
async def test_a_nonsense_lifetime_counts_as_an_hour_at_most(
    service: Fcm, google: Google, clock: ManualClock, seconds: object
) -> None:
    google.grants = [reply(200, {"access_token": "first", "expires_in": seconds})]
    await service.send(PHONE, MESSAGE)
    clock.ms += 3_300_000
    assert (await service.send(PHONE, MESSAGE)).outcome is PushOutcome.ACCEPTED
    assert google.pushes[-1].headers["authorization"] == "Bearer ya29.2"


@pytest.mark.parametrize("behaviour", [hang, reset, send_garbage, send_endlessly])
async def test_servers_without_a_usable_answer_are_unreachable(
    service: Fcm, google: Google, behaviour: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 1.0)
    google.answer = behaviour
    result = await service.send(PHONE, MESSAGE)
    assert result.outcome is PushOutcome.UNREACHABLE and result.reason


async def test_closing_stops_the_fetching_of_a_token(google: Google, clock: ManualClock) -> None:
    url = f"http://127.0.0.1:{google.server.port}"
    service = Fcm(parse_fcm_credentials(service_account(token_uri=f"{url}/token")), clock, url=url)
    google.grants = [hang]
    sending = asyncio.create_task(service.send(PHONE, MESSAGE))
    await wait_for(lambda: bool(google.asked))
    await service.close()
    with pytest.raises(asyncio.CancelledError):
        await sending
