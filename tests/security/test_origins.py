"""Pages in a browser: which may call the API, with what, and that others change and learn nothing."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs
from websockets.exceptions import InvalidStatus

from tests.protocol.peer import Peer, open_socket
from tests.server.served_app import SEND, App, ServeApp
from tests.server.tokens import bearer

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
TRUSTED = "https://chat.example.org"
FOREIGN = "https://evil.example.org"
JSON = {"content-type": "application/json"}


@pytest.fixture
async def app(serve_app: ServeApp) -> AsyncIterator[App]:
    async with serve_app(cors_origins=(TRUSTED,), graphiql=True) as opened:
        for user in ("alice", "bob"):
            await opened.data("{ me { id } }", user)
        yield opened


def own(app: App) -> str:
    return f"http://127.0.0.1:{app.served.port}"


async def sent_by(app: App) -> int:
    """How many messages alice has sent."""
    session = (await app.data('{ session(conversationId: "p_alice_bob") { writeSeq } }', "alice"))["session"]
    return int(session["writeSeq"]) if session else 0


async def post(app: App, query: str, **headers: str) -> Any:
    alice = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
    return await app.http.post("/graphql", json={"query": query}, headers=alice | headers)


NOT_OURS = [
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


async def test_a_foreign_page_is_refused_whatever_it_brings(app: App) -> None:
    for origin in NOT_OURS:
        answer = await post(app, SEND, origin=origin)
        assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (403, "FORBIDDEN"), origin
        assert "access-control-allow-origin" not in answer.headers
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        answer = await app.http.request(method, "/graphql?query={__typename}", headers={"origin": FOREIGN})
        assert answer.status_code == 403, method
    assert await sent_by(app) == 0


async def test_a_foreign_page_gets_no_websocket(app: App) -> None:
    for origin in NOT_OURS:
        with pytest.raises(InvalidStatus) as caught:
            async with open_socket(f"ws://127.0.0.1:{app.served.port}/graphql", additional_headers={"Origin": origin}):
                pass
        assert caught.value.response.status_code == 403, origin


async def test_the_log_says_which_page_was_refused_as_its_browser_tells_its_author_nothing(app: App) -> None:
    with capture_logs() as lines:
        await post(app, "{ me { id } }", origin=FOREIGN)
        with pytest.raises(InvalidStatus):
            async with open_socket(f"ws://127.0.0.1:{app.served.port}/graphql", additional_headers={"Origin": FOREIGN}):
                pass
    refused = [line for line in lines if line["event"] == "refused"]
    assert [line["origin"] for line in refused] == [FOREIGN] * 2
    assert all("CONFAB_CORS_ORIGINS" in line["reason"] for line in refused)


async def test_the_servers_own_pages_and_those_it_is_told_of_may_call(app: App) -> None:
    for count, origin in enumerate((own(app), TRUSTED, TRUSTED.upper()), start=1):
        assert "errors" not in (await post(app, SEND, origin=origin)).json(), origin
        assert await sent_by(app) == count
        url = f"ws://127.0.0.1:{app.served.port}/graphql"
        async with open_socket(url, additional_headers={"Origin": origin}) as socket:
            await Peer(socket).init({"Authorization": bearer(sub="alice", exp=time.time() + 60)})


async def test_a_port_that_goes_without_saying_makes_no_page_foreign(app: App) -> None:
    """Browsers leave it out; proxies may write it into Host."""
    for origin, host, status in (
        ("https://confab.example.org", "confab.example.org:443", 200),
        ("http://confab.example.org", "confab.example.org:80", 200),
        ("https://confab.example.org:443", "confab.example.org", 200),
        ("https://confab.example.org", "confab.example.org:80", 403),
        ("http://confab.example.org:8443", "confab.example.org", 403),
    ):
        assert (await post(app, "{ me { id } }", origin=origin, host=host)).status_code == status, (origin, host)


async def test_an_origin_may_be_set_as_people_write_it(serve_app: ServeApp) -> None:
    for written in ("https://Chat.Example.org", "https://chat.example.org:443"):
        async with serve_app(cors_origins=(written,)) as app:
            answer = await post(app, "{ me { id } }", origin=TRUSTED)
            assert answer.headers.get("access-control-allow-origin") == TRUSTED, written


async def test_what_a_form_can_send_changes_nothing(app: App) -> None:
    """Simple requests, which browsers send without asking first; here even without an origin."""
    alice = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
    body = f'{{"query": "{SEND}"}}'.replace('"bob"', r"\"bob\"").replace('"hello"', r"\"hello\"")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"):
        answer = await app.http.post("/graphql", content=body, headers=alice | {"content-type": kind})
        assert answer.status_code == 415, kind
    answer = await app.http.get("/graphql", params={"query": SEND}, headers=alice)
    assert answer.status_code == 405
    answer = await app.http.get("/graphql", params={"query": SEND}, headers=alice | {"accept": "text/event-stream"})
    assert answer.status_code == 405
    assert await sent_by(app) == 0
    assert "errors" not in (await app.http.post("/graphql", content=body, headers=alice | JSON)).json()
    assert await sent_by(app) == 1


async def test_no_cookie_is_set_and_none_lets_anybody_in(app: App) -> None:
    token = bearer(sub="alice", exp=time.time() + 60)
    answer = await app.http.get("/graphql", headers=BROWSER)
    assert answer.status_code == 200 and "set-cookie" not in answer.headers
    cookies = {"cookie": f"authorization={token}; token={token.split()[1]}"}
    answer = await app.http.post("/graphql", json={"query": SEND}, headers=cookies)
    assert answer.json()["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    assert await sent_by(app) == 0


async def test_answers_tell_browsers_to_take_them_for_what_they_are(app: App) -> None:
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
    ("settings", "good", "bad"),
    [
        ({"development": True}, ["localhost", "127.0.0.1:80", "[::1]:80", "app.localhost"], ["evil.example.org:80"]),
        ({"allowed_hosts": ("confab.example.org",)}, ["Confab.example.org:443", "10.1.2.3"], ["evil.example.org", ""]),
        ({}, ["evil.example.org"], []),
    ],
)
async def test_a_name_that_was_made_to_lead_here_leads_nowhere(
    serve_app: ServeApp, settings: dict[str, Any], good: list[str], bad: list[str]
) -> None:
    async with serve_app(**settings) as app:
        for host in good + bad:
            # As the page of a site does whose name an attacker made to lead here: it is of the same origin.
            answer = await post(app, "{ me { id } }", host=host, origin=f"http://{host}")
            assert answer.status_code == (200 if host in good else 403), host
