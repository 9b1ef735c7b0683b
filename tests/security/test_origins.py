"""Browser pages: which origins may call the API, and that other pages change and learn nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs
from websockets.exceptions import InvalidStatus

from tests.protocol.peer import open_admitted_socket
from tests.server.served_app import SEND, App, ServeApp
from tests.server.tokens import bearer

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TRUSTED = "https://chat.example.org"
FOREIGN = "https://evil.example.org"
JSON = {"content-type": "application/json"}


@pytest.fixture
async def app(serve_app: ServeApp) -> AsyncIterator[App]:
    async with serve_app(cors_origins=(TRUSTED,), graphiql=True) as app_:
        for user in ("alice", "bob"):
            await app_.data("{ me { id } }", user)
        yield app_


def own_origin(app: App) -> str:
    return f"http://127.0.0.1:{app.served.port}"


async def count_messages(app: App) -> int:
    """Return the number of messages in alice's conversation with bob."""
    session = (await app.data('{ session(conversationId: "p_alice_bob") { writeSeq } }', "alice"))["session"]
    return int(session["writeSeq"]) if session else 0


async def post(app: App, query: str, **headers: str) -> Any:
    alice = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
    return await app.http.post("/graphql", json={"query": query}, headers=alice | headers)


FOREIGN_ORIGINS = [
    FOREIGN,
    "null",
    "",
    "https://chat.example.org.evil.example.org",
    "https://chat.example.org:8443",
    "http://chat.example.org",
    "https://evil.example.org/https://chat.example.org",
    "http://127.0.0.1",
    "http://localhost",
    "ftp://127.0.0.1",
]


async def test_requests_from_a_foreign_origin_are_refused(app: App) -> None:
    for origin in FOREIGN_ORIGINS:
        answer = await post(app, SEND, origin=origin)
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (403, "FORBIDDEN"), origin
        assert "access-control-allow-origin" not in answer.headers
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        answer = await app.http.request(method, "/graphql?query={__typename}", headers={"origin": FOREIGN})
        assert answer.status_code == 403, method
    assert await count_messages(app) == 0


async def test_websockets_from_a_foreign_origin_are_refused(app: App) -> None:
    for origin in FOREIGN_ORIGINS:
        with pytest.raises(InvalidStatus) as caught:
            async with open_admitted_socket(
                f"ws://127.0.0.1:{app.served.port}/graphql", additional_headers={"Origin": origin}
            ):
                pass
        assert caught.value.response.status_code == 403, origin


async def test_refused_origins_are_logged(app: App) -> None:
    with capture_logs() as lines:
        await post(app, "{ me { id } }", origin=FOREIGN)
        with pytest.raises(InvalidStatus):
            async with open_admitted_socket(
                f"ws://127.0.0.1:{app.served.port}/graphql", additional_headers={"Origin": FOREIGN}
            ):
                pass
    refusals = [line for line in lines if line["event"] == "origin_refused"]
    assert [line["origin"] for line in refusals] == [FOREIGN] * 2
    assert all("CONFAB_CORS_ORIGINS" in line["reason"] for line in refusals)


async def test_the_servers_own_and_configured_origins_are_accepted(app: App) -> None:
    for count, origin in enumerate((own_origin(app), TRUSTED, TRUSTED.upper()), start=1):
        assert "errors" not in (await post(app, SEND, origin=origin)).json(), origin
        assert await count_messages(app) == count
        url = f"ws://127.0.0.1:{app.served.port}/graphql"
        async with open_admitted_socket(url, additional_headers={"Origin": origin}) as peer:
            await peer.init({"Authorization": bearer(sub="alice", exp=time.time() + 60)})


async def test_the_default_port_does_not_make_an_origin_foreign(app: App) -> None:
    """Browsers omit the default port; proxies may add it to Host."""
    for origin, host, status in (
        ("https://confab.example.org", "confab.example.org:443", 200),
        ("http://confab.example.org", "confab.example.org:80", 200),
        ("https://confab.example.org:443", "confab.example.org", 200),
        ("https://confab.example.org", "confab.example.org:80", 403),
        ("http://confab.example.org:8443", "confab.example.org", 403),
    ):
        assert (await post(app, "{ me { id } }", origin=origin, host=host)).status_code == status, (origin, host)


async def test_configured_origins_are_normalised(serve_app: ServeApp) -> None:
    for configured in ("https://Chat.Example.org", "https://chat.example.org:443"):
        async with serve_app(cors_origins=(configured,)) as app:
            answer = await post(app, "{ me { id } }", origin=TRUSTED)
            assert answer.headers.get("access-control-allow-origin") == TRUSTED, configured


async def test_requests_that_a_form_can_send_change_nothing(app: App) -> None:
    """Simple requests, which browsers send without a preflight, here even without an origin."""
    alice = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
    body = f'{{"query": "{SEND}"}}'.replace('"bob"', r"\"bob\"").replace('"hello"', r"\"hello\"")
    for content_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "text/json",
    ):
        answer = await app.http.post("/graphql", content=body, headers=alice | {"content-type": content_type})
        assert answer.status_code == 415, content_type
    answer = await app.http.get("/graphql", params={"query": SEND}, headers=alice)
    assert answer.status_code == 405
    answer = await app.http.get("/graphql", params={"query": SEND}, headers=alice | {"accept": "text/event-stream"})
    assert answer.status_code == 405
    assert await count_messages(app) == 0
    assert "errors" not in (await app.http.post("/graphql", content=body, headers=alice | JSON)).json()
    assert await count_messages(app) == 1


async def test_cookies_are_neither_set_nor_accepted(app: App) -> None:
    token = bearer(sub="alice", exp=time.time() + 60)
    answer = await app.http.get("/graphql", headers=BROWSER)
    assert answer.status_code == 200 and "set-cookie" not in answer.headers
    cookies = {"cookie": f"authorization={token}; token={token.split()[1]}"}
    answer = await app.http.post("/graphql", json={"query": SEND}, headers=cookies)
    assert answer.json()["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    assert await count_messages(app) == 0


async def test_answers_have_the_security_headers(app: App) -> None:
    answer = await post(app, "{ me { id } }")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    page = await app.http.get("/graphql", headers=BROWSER)
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy and "default-src 'none'" in policy and "unsafe-eval" not in policy
    assert "script-src 'self'" in policy and "'unsafe-inline'" not in policy.split("style-src")[0]
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("settings", "accepted", "rejected"),
    [
        ({"development": True}, ["localhost", "127.0.0.1:80", "[::1]:80", "app.localhost"], ["evil.example.org:80"]),
        ({"allowed_hosts": ("confab.example.org",)}, ["Confab.example.org:443", "10.1.2.3"], ["evil.example.org", ""]),
        ({}, ["evil.example.org"], []),
    ],
)
async def test_unknown_host_names_are_refused(
    serve_app: ServeApp, settings: dict[str, Any], accepted: list[str], rejected: list[str]
) -> None:
    async with serve_app(**settings) as app:
        for host in accepted + rejected:
            # DNS rebinding: the page of an attacker's host name that resolves to this server has the same origin.
            answer = await post(app, "{ me { id } }", host=host, origin=f"http://{host}")
            assert answer.status_code == (200 if host in accepted else 403), host
