"""Web Push: what arrives, and what becomes of every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from email.utils import formatdate

import pytest

from resolvers.push.push_service import PushOutcome, PushResult
from resolvers.push.services import exchange, web_push
from resolvers.push.services.vapid import VapidKey
from resolvers.push.services.web_push import WebPush
from resolvers.web_requests.addresses import outgoing_rules
from store.devices.device import PushAddress, PushPlatform
from tests.clock import ManualClock
from tests.push.services.push_server import (
    MESSAGE,
    QUIET,
    PushServer,
    Reply,
    client_context,
    hang,
    open_push_server,
    reply,
    reset,
    send_endlessly,
    send_garbage,
    send_headers_endlessly,
    server_context,
)
from tests.push.services.subscription import Subscription, encode, vapid_claims
from tests.waiting import wait_for

KEY = VapidKey.generate()
CONTACT = "mailto:admin@example.org"
DAY = 24 * 3600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def server() -> AsyncIterator[PushServer]:
    async with open_push_server() as push_server:
        yield push_server


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[WebPush]:
    push = WebPush(KEY, CONTACT, clock, outgoing_rules(allow_loopback=True))
    yield push
    await push.close()


@pytest.fixture
def browser(server: PushServer) -> Subscription:
    return Subscription(f"http://localhost:{server.port}/push/abc?d=1")


async def test_the_browser_reads_what_was_sent(service: WebPush, server: PushServer, browser: Subscription) -> None:
    assert await service.send(browser.address, MESSAGE) == PushResult(PushOutcome.ACCEPTED)
    push = server.last
    assert browser.read(push) == {
        "title": "Alice", "body": "Hello, Bob! 🦊", "conversationId": "g_1", "badge": 7, "tag": "tag-of-g_1"
    }  # fmt: skip
    assert (push.method, push.path) == ("POST", "/push/abc?d=1")
    assert (push.headers["topic"], push.headers["urgency"]) == ("tag-of-g_1", "high")
    assert int(push.headers["ttl"]) == 3 * DAY
    assert "cookie" not in push.headers and MESSAGE.body.encode() not in push.body


async def test_a_quiet_push_says_that_it_is_quiet(service: WebPush, server: PushServer, browser: Subscription) -> None:
    assert (await service.send(browser.address, QUIET)).outcome is PushOutcome.ACCEPTED
    assert browser.read(server.last) == {
        "title": "", "body": "", "conversationId": "g_1", "badge": 3, "tag": "tag-of-g_1", "quiet": True
    }  # fmt: skip
    assert server.last.headers["urgency"] == "normal"


@pytest.mark.parametrize("body", ["x" * 9_000, "🦊" * 3_000, '"\n' * 4_000])
async def test_a_long_text_is_cut_to_what_services_take(
    service: WebPush, server: PushServer, browser: Subscription, body: str
) -> None:
    await service.send(browser.address, replace(MESSAGE, body=body))
    shown = browser.read(server.last)["body"]
    assert shown.endswith("…") and body.startswith(shown[:-1]) and len(server.last.body) > 4_000
    await service.send(browser.address, replace(MESSAGE, title=body, body=body))
    payload = browser.read(server.last)
    assert payload["body"] == "" and payload["title"].endswith("…") and payload["tag"] == MESSAGE.tag


async def test_the_deployment_identifies_itself_with_a_token_for_six_hours(
    service: WebPush, server: PushServer, browser: Subscription, clock: ManualClock
) -> None:
    await service.send(browser.address, MESSAGE)
    claims = vapid_claims(server.last, KEY.public_text)
    assert claims["aud"] == f"http://localhost:{server.port}" and claims["sub"] == CONTACT
    assert 0 < claims["exp"] - clock.ms // 1000 <= DAY
    first = server.last.headers["authorization"]
    clock.ms += 6 * 3600 * 1000 - 1
    await service.send(browser.address, MESSAGE)
    assert server.last.headers["authorization"] == first
    clock.ms += 1
    await service.send(browser.address, MESSAGE)
    assert vapid_claims(server.last, KEY.public_text)["exp"] == clock.ms // 1000 + DAY // 2
    # Each service gets a token of its own.
    other = Subscription(f"http://127.0.0.1:{server.port}/push")
    await service.send(other.address, MESSAGE)
    assert vapid_claims(server.last, KEY.public_text)["aud"] == f"http://127.0.0.1:{server.port}"


async def test_connections_are_kept_open(service: WebPush, server: PushServer, browser: Subscription) -> None:
    for _ in range(5):
        await service.send(browser.address, MESSAGE)
    assert (server.connections, len(server.received)) == (1, 5)


async def test_every_push_is_encrypted_with_new_keys(
    service: WebPush, server: PushServer, browser: Subscription
) -> None:
    await service.send(browser.address, MESSAGE)
    await service.send(browser.address, MESSAGE)
    first, second = (push.body for push in server.received)
    assert first[:16] != second[:16] and first[21:86] != second[21:86]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, PushOutcome.ACCEPTED) for status in (200, 201, 202, 204)),
        *((status, PushOutcome.GONE) for status in (404, 410)),
        *((status, PushOutcome.REFUSED) for status in (400, 401, 403, 405, 413, 203)),
        *((status, PushOutcome.UNREACHABLE) for status in (408, 429, 500, 502, 503, 504)),
    ],
)
async def test_each_status_has_an_outcome(
    service: WebPush, server: PushServer, browser: Subscription, status: int, outcome: PushOutcome
) -> None:
    server.reply = reply(status, "a secret of an internal server")
    result = await service.send(browser.address, MESSAGE)
    assert result.outcome is outcome and len(server.received) == 1
    assert (result.reason is None) == (outcome is PushOutcome.ACCEPTED)
    # Users choose the server, and must not read through this one.
    assert "secret" not in (result.reason or "")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(
    service: WebPush, server: PushServer, browser: Subscription, status: int
) -> None:
    server.reply = reply(status, Location=f"http://localhost:{server.port}/elsewhere")
    result = await service.send(browser.address, MESSAGE)
    assert result.outcome is PushOutcome.REFUSED and "redirects" in (result.reason or "")
    assert [push.path for push in server.received] == ["/push/abc?d=1"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("999999999", 3600.0),
        ("9" * 5_000, 3600.0),
        ("@90", 90.0),
        ("@-5", 0.0),
        ("soon", None),
        ("-5", None),
        ("1e3", None),
        ("", None),
        ("Fri, 99 Foo 2027 99:99:99 GMT", None),
    ],
)
async def test_services_may_ask_for_a_pause(
    service: WebPush, server: PushServer, browser: Subscription, clock: ManualClock, text: str, seconds: float | None
) -> None:
    if text.startswith("@"):
        text = formatdate(clock.ms / 1000 + int(text[1:]), usegmt=True)
    server.reply = reply(429, Retry_After=text)
    result = await service.send(browser.address, MESSAGE)
    assert (result.outcome, result.retry_after_seconds) == (PushOutcome.UNREACHABLE, seconds)


async def test_a_date_counts_from_the_clock_of_the_service(
    service: WebPush, server: PushServer, browser: Subscription, clock: ManualClock
) -> None:
    theirs = clock.ms / 1000 - 86_400
    server.reply = reply(503, Date=formatdate(theirs, usegmt=True), Retry_After=formatdate(theirs + 30, usegmt=True))
    assert (await service.send(browser.address, MESSAGE)).retry_after_seconds == 30


@pytest.mark.parametrize(("ahead", "word"), [(-90_000, "ahead"), (90_000, "behind")])
async def test_a_refusal_says_that_the_clocks_differ(
    service: WebPush, server: PushServer, browser: Subscription, clock: ManualClock, ahead: int, word: str
) -> None:
    server.reply = reply(403, Date=formatdate(clock.ms / 1000 + ahead, usegmt=True))
    result = await service.send(browser.address, MESSAGE)
    assert result.outcome is PushOutcome.REFUSED
    assert f"The clock of this server is 90000 s {word}" in (result.reason or "")
    # The next push has a new token, signed after the clock was set.
    refused_token = server.last.headers["authorization"]
    server.reply = reply(201)
    await service.send(browser.address, MESSAGE)
    assert server.last.headers["authorization"] != refused_token


@pytest.mark.parametrize(
    "behaviour", [hang, reset, send_garbage, send_headers_endlessly, b"HTTP/1.1 abc\r\n\r\n", b"\r\n" * 100]
)
async def test_servers_without_a_usable_answer_are_unreachable(
    service: WebPush, server: PushServer, browser: Subscription, behaviour: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 0.5)
    server.reply = behaviour
    result = await service.send(browser.address, MESSAGE)
    assert result.outcome is PushOutcome.UNREACHABLE and result.reason


async def test_only_the_beginning_of_a_large_answer_is_read(
    service: WebPush, server: PushServer, browser: Subscription
) -> None:
    sent = 0

    async def count(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 201 Status\r\nContent-Length: 100000000\r\n\r\n")
        for _ in range(10_000):
            writer.write(b"x" * 10_000)
            await writer.drain()
            sent += 10_000

    server.reply = count
    assert (await service.send(browser.address, MESSAGE)).outcome is PushOutcome.ACCEPTED
    await wait_for(lambda: server.open_now == 0)
    assert sent < 10_000_000
    server.reply = send_endlessly
    assert (await service.send(browser.address, MESSAGE)).outcome is PushOutcome.UNREACHABLE


async def test_a_connection_that_the_service_has_closed_is_opened_again(
    service: WebPush, server: PushServer, browser: Subscription
) -> None:
    server.queue = [reply(201), reset, reply(201)]
    for _ in range(2):
        assert (await service.send(browser.address, MESSAGE)).outcome is PushOutcome.ACCEPTED
    assert (server.connections, len(server.received)) == (2, 3)


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("https://10.1.2.3/push", "no connection: refused: not a public address"),
        ("https://169.254.169.254/latest", "no connection: refused: not a public address"),
        ("https://[fd00::1]/push", "no connection: refused: not a public address"),
        ("https://0x0a.1.2.3/push", "no connection: refused: not a public address"),
        ("http://push.example.org/abc", "the endpoint is not allowed: not https"),
        ("ftp://localhost/abc", "the endpoint is not allowed"),
        ("https://user@localhost/abc", "the endpoint is not allowed"),
        ("nonsense", "the endpoint is not allowed"),
        ("https://", "the endpoint is not allowed"),
        ("https://name.invalid/abc", "no connection: name not resolved"),
    ],
)
async def test_endpoints_that_are_not_public_get_nothing(service: WebPush, endpoint: str, reason: str) -> None:
    result = await service.send(Subscription(endpoint).address, MESSAGE)
    assert result.outcome is PushOutcome.UNREACHABLE and (result.reason or "").startswith(reason)


async def test_loopback_is_refused_unless_it_is_allowed(
    clock: ManualClock, server: PushServer, browser: Subscription
) -> None:
    service = WebPush(KEY, CONTACT, clock, outgoing_rules(allow_loopback=False), ssl_context=client_context())
    async with open_push_server(server_context()) as encrypted:
        for endpoint in (browser.endpoint, f"https://localhost:{encrypted.port}/", f"https://[::1]:{encrypted.port}/"):
            assert (await service.send(Subscription(endpoint).address, MESSAGE)).outcome is PushOutcome.UNREACHABLE
        assert server.connections == encrypted.connections == 0
    await service.close()


async def test_certificates_are_checked(clock: ManualClock) -> None:
    rules = outgoing_rules(allow_loopback=True)
    trusting = WebPush(KEY, CONTACT, clock, rules, ssl_context=client_context())
    careful = WebPush(KEY, CONTACT, clock, rules)
    async with open_push_server(server_context()) as server:
        address = Subscription(f"https://localhost:{server.port}/push").address
        assert (await trusting.send(address, MESSAGE)).outcome is PushOutcome.ACCEPTED
        assert (await careful.send(address, MESSAGE)).outcome is PushOutcome.UNREACHABLE
        assert len(server.received) == 1
        await trusting.close()
    await careful.close()


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [
        (None, None),
        ("", ""),
        (encode(b"\x04" + bytes(64)), encode(bytes(16))),
        (encode(b"\x04" + bytes(range(64))), encode(bytes(16))),
        ("nonsense", "!"),
    ],
)
async def test_a_subscription_without_valid_keys_is_gone(
    service: WebPush, server: PushServer, browser: Subscription, p256dh: str | None, auth: str | None
) -> None:
    address = PushAddress(PushPlatform.WEB_PUSH, browser.endpoint, p256dh, auth)
    assert (await service.send(address, MESSAGE)).outcome is PushOutcome.GONE
    assert server.received == []


async def test_an_endpoint_that_hangs_delays_no_other(
    service: WebPush, server: PushServer, browser: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "TURN_SECONDS", 0.2)
    # Both servers are on this machine: one is the endpoint of a user, the other stands for the service of a browser.
    monkeypatch.setattr(web_push, "_KNOWN", ("127.0.0.1",))
    server.choose = lambda push: hang if push.path == "/hang" else reply(201)
    hanging = Subscription(f"http://localhost:{server.port}/hang")
    pushes = [asyncio.create_task(service.send(hanging.address, MESSAGE)) for _ in range(20)]
    await wait_for(lambda: len(server.received) == 4)
    known = Subscription(f"http://127.0.0.1:{server.port}/push")
    assert (await service.send(known.address, MESSAGE)).outcome is PushOutcome.ACCEPTED
    await wait_for(lambda: sum(task.done() for task in pushes) == 16)
    assert server.most_open == 5
    waiting = [task for task in pushes if not task.done()]
    refused = {task.result().reason for task in pushes if task.done()}
    assert refused == {"too many pushes wait for this service"}
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    # Turns of cancelled pushes are free again.
    monkeypatch.setattr(exchange, "TURN_SECONDS", 60.0)
    monkeypatch.setattr(exchange, "PUSH_SECONDS", 60.0)
    again = Subscription(f"http://localhost:{server.port}/push")
    results = await asyncio.gather(*(service.send(again.address, MESSAGE) for _ in range(20)))
    assert {result.outcome for result in results} == {PushOutcome.ACCEPTED}
