"""Sign-in as a demo user with one click, in development only."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from server.demo.sign_in import issues_tokens
from server.settings import DEVELOPMENT_SECRET, Settings
from tests.server.served_app import ServeApp, serving_app

PEOPLE = [
    {"id": "alice", "displayName": "Alice Archer"},
    {"id": "bob", "displayName": "Bob Baker"},
    {"id": "carol", "displayName": "Carol Cook"},
    {"id": "dave", "displayName": "Dave Dyer"},
    {"id": "erin", "displayName": "Erin Archer"},
]


async def test_one_click_signs_in_as_a_demo_user(settings_with: Callable[..., Settings]) -> None:
    async with serving_app(settings_with(jwt_secret=DEVELOPMENT_SECRET, development=True)) as app:
        assert (await app.http.get("/dev/people")).json() == PEOPLE
        answer = await app.http.post("/dev/sign-in", json={"userId": "alice"})
        signed_in = answer.json()
        assert answer.headers["cache-control"] == "no-store"
        assert signed_in["userId"] == "alice"
        assert 3_590_000 < signed_in["expiresAt"] - time.time() * 1000 <= 3_600_000
        me = await app.ask("{ me { id displayName } }", authorization=f"Bearer {signed_in['token']}")
        assert me.json() == {"data": {"me": {"id": "alice", "displayName": "Alice Archer"}}}

        for body in ({"userId": "trailbot"}, {"userId": ["alice"]}, {}, [], "alice"):
            refused = await app.http.post("/dev/sign-in", json=body)
            assert (refused.status_code, "token" in refused.json()) == (400, False)
        deep = await app.http.post("/dev/sign-in", content="[" * 100_000, headers={"content-type": "application/json"})
        assert deep.status_code == 400
        # Content types of HTML forms, and a foreign page.
        as_text = await app.http.post(
            "/dev/sign-in", content='{"userId": "alice"}', headers={"content-type": "text/plain"}
        )
        assert (as_text.status_code, "token" in as_text.json()) == (415, False)
        for foreign in ({"origin": "https://evil.example"}, {"host": "evil.example"}):
            refused = await app.http.post("/dev/sign-in", json={"userId": "alice"}, headers=foreign)
            assert refused.status_code >= 400 and "token" not in refused.text


async def test_a_role_may_be_asked_for_with_the_token(settings_with: Callable[..., Settings]) -> None:
    async with serving_app(settings_with(jwt_secret=DEVELOPMENT_SECRET, development=True)) as app:
        for role, may in ((None, False), ("user", False), ("service", True), ("admin", True)):
            body: dict[str, str] = {"userId": "alice"} | ({"role": role} if role else {})
            token = (await app.http.post("/dev/sign-in", json=body)).json()["token"]
            answer = await app.ask(
                'mutation { upsertUsers(input: [{id: "vera", displayName: "Vera"}]) { id } }',
                authorization=f"Bearer {token}",
            )
            assert ("errors" not in answer.json()) is may
        for unknown in ("owner", "", ["admin"], None):
            refused = await app.http.post("/dev/sign-in", json={"userId": "alice", "role": unknown})
            assert (refused.status_code, "token" in refused.json()) == (400, False)


async def test_sign_in_does_not_exist_outside_development(serve_app: ServeApp) -> None:
    async with serve_app(demo=True) as app:
        assert (await app.http.get("/dev/people")).status_code == 404
        refused = await app.http.post("/dev/sign-in", json={"userId": "alice"})
        assert (refused.status_code, "token" in refused.text) == (404, False)


@pytest.mark.parametrize(
    ("given", "does"),
    [
        ({"development": True, "jwt_secret": DEVELOPMENT_SECRET}, True),
        ({"development": True, "jwt_secret": "a secret of somebody's own, long enough"}, False),
        ({"development": False, "jwt_secret": DEVELOPMENT_SECRET}, False),
        ({"development": True, "jwks_url": "https://id.example.org/keys"}, False),
    ],
)
def test_tokens_are_issued_only_with_the_development_secret(given: dict[str, object], does: bool) -> None:
    assert issues_tokens(Settings(**given)) is does  # type: ignore[arg-type]
