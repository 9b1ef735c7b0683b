"""Claims of tokens: where they are found, which roles they give, and which names and pictures are left out."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from resolvers.users.callers import Caller, CallerRole
from server.auth.authenticator import Authenticator, issue_token
from server.auth.claim_paths import find_claim
from server.auth.jwks import Clock
from server.settings import Settings
from tests.server.served_app import ServeApp
from tests.server.tokens import NOW, SECRET, bearer, claims, hmac_token, signed

Refusal = Callable[[Authenticator, str], Awaitable[str]]
Authenticate = Callable[..., Awaitable[Caller]]

NESTED = {
    "sub": "alice",
    "https://chat.example.org/roles": ["admin"],
    "realm_access": {"roles": ["offline_access", "service"]},
    "resource_access": {"org.example.chat": {"roles": ["admin"]}, "org": {"example": {"chat": {"roles": "other"}}}},
    "cognito:groups": ["service"],
    "a.b": {"c": 1},
    "a": {"b": {"c": 2, "d": 3}, "x.y": 4},
}


@pytest.fixture
def authenticate(clock: Clock) -> Authenticate:
    """Authenticate a token with the given claims, on a server with the given settings."""

    async def run(settings: dict[str, Any], **changes: Any) -> Caller:
        token = hmac_token({"alg": "HS256"}, claims(**changes), SECRET.encode())
        return await Authenticator(Settings(jwt_secret=SECRET, **settings), clock).authenticate(token)

    return run


# Paths


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sub", "alice"),
        ("https://chat.example.org/roles", ["admin"]),
        ("cognito:groups", ["service"]),
        ("realm_access.roles", ["offline_access", "service"]),
        ("resource_access.org.example.chat.roles", ["admin"]),
        ("a.b.c", 1),
        ("a.x.y", 4),
        ("a.b.d", None),
        ("a.b", {"c": 1}),
        ("a", NESTED["a"]),
        ("missing", None),
        ("missing.too", None),
        ("sub.alice", None),
        ("realm_access.roles.0", None),
        ("https://other.example.org/roles", None),
    ],
)
def test_claim_is_found_by_its_name_or_by_a_path(path: str, value: object) -> None:
    assert find_claim(NESTED, path) == value


async def test_user_name_picture_and_role_come_from_the_configured_claims(authenticate: Authenticate) -> None:
    settings = {
        "jwt_user_claim": "https://chat.example.org/id",
        "jwt_name_claim": "profile.name",
        "jwt_picture_claim": "profile.image",
        "jwt_role_claim": "realm_access.roles",
    }
    caller = await authenticate(
        settings,
        **{"https://chat.example.org/id": "bob", "realm_access": {"roles": ["x", "service"]}},
        profile={"name": "Bob", "image": "https://example.org/b.png"},
        name="Alice",
        picture="https://example.org/a.png",
        role="admin",
    )
    assert caller == Caller(caller.user_id, CallerRole.SERVICE, NOW + 3600, "Bob", "https://example.org/b.png")
    assert caller.user_id == "bob"


async def test_refusal_names_the_configured_claim(clock: Clock, refusal: Refusal) -> None:
    authenticator = Authenticator(Settings(jwt_secret=SECRET, jwt_user_claim="user.id"), clock)
    assert "no user.id claim" in await refusal(authenticator, signed(user={"name": "x"}))
    assert "user.id claim is not a user id" in await refusal(authenticator, signed(user={"id": "a b"}))
    assert "user.id claim is not a user id" in await refusal(authenticator, signed(user={"id": 7}))


async def test_issued_token_has_the_configured_claims(clock: Clock) -> None:
    settings = Settings(
        jwt_secret=SECRET,
        jwt_user_claim="user.id",
        jwt_name_claim="https://chat.example.org/name",
        jwt_role_claim="realm_access.roles",
        jwt_audience="chat,mail",
        jwt_audience_claim="azp",
        jwt_issuer="us",
    )
    token = issue_token(settings, "bob", CallerRole.ADMIN, "Bob", 60, clock=clock)
    caller = await Authenticator(settings, clock).authenticate(token)
    assert (caller.user_id, caller.role, caller.name) == ("bob", CallerRole.ADMIN, "Bob")


# Roles


@pytest.mark.parametrize(
    ("claim", "role"),
    [
        ("user", CallerRole.USER),
        ("service", CallerRole.SERVICE),
        ("admin", CallerRole.ADMIN),
        (["service"], CallerRole.SERVICE),
        (["user", "service", "admin"], CallerRole.ADMIN),
        (["authenticated", {}, None, 7, "service"], CallerRole.SERVICE),
        ([], CallerRole.USER),
        (["Admin", "ADMIN", " admin", "admin "], CallerRole.USER),
        (None, CallerRole.USER),
        ("authenticated", CallerRole.USER),
        ("root", CallerRole.USER),
        ("", CallerRole.USER),
        ("admin service", CallerRole.USER),
        ({"admin": True}, CallerRole.USER),
        ([["admin"]], CallerRole.USER),
        (True, CallerRole.USER),
        (7, CallerRole.USER),
        ("\ud800", CallerRole.USER),
    ],
)
async def test_strongest_known_role_counts_and_any_other_means_user(
    authenticate: Authenticate, claim: object, role: CallerRole
) -> None:
    assert (await authenticate({}, role=claim)).role is role


# Audiences


@pytest.mark.parametrize("audience", ["chat", "mobile", ["other", "mobile"]])
async def test_one_of_several_audiences_is_enough(authenticate: Authenticate, audience: object) -> None:
    assert await authenticate({"jwt_audience": "chat, mobile"}, aud=audience)


async def test_audience_can_be_in_another_claim(clock: Clock, refusal: Refusal) -> None:
    settings = Settings(jwt_secret=SECRET, jwt_audience="https://chat.example.org", jwt_audience_claim="azp")
    authenticator = Authenticator(settings, clock)
    await authenticator.authenticate(signed(azp="https://chat.example.org", aud="other"))
    for changes in ({"aud": "https://chat.example.org"}, {"azp": "https://chat.example.org.evil.example"}, {"azp": []}):
        assert "azp" in await refusal(authenticator, signed(**changes))


# Names and pictures


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Alice", "Alice"),
        ("", None),
        (None, None),
        (" Ali\u200bce\u202e\n", "Alice"),
        ("Alice\x00\r\nSmith", "Alice Smith"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
    ],
)
async def test_name_is_cleaned(authenticate: Authenticate, name: str | None, shown: str | None) -> None:
    with capture_logs() as logs:
        assert (await authenticate({}, name=name)).name == shown
    assert logs == []


@pytest.mark.parametrize(
    ("claim", "value", "reason"),
    [
        ("name", 7, "not a string"),
        ("name", {"first": "Alice"}, "not a string"),
        ("name", ["Alice"], "not a string"),
        ("name", "x" * 101, "1 to 100 characters"),
        ("name", "x" * 5_500, "1 to 100 characters"),
        ("name", " \u3164\u200b ", "1 to 100 characters"),
        ("name", "Ali\ud800ce", "lone surrogate"),
        ("picture", 7, "not a string"),
        ("picture", {}, "not a string"),
        ("picture", "javascript:alert(1)", "http(s) URL"),
        ("picture", "data:image/png;base64,AAAA", "http(s) URL"),
        ("picture", "https://example.org/\n", "http(s) URL"),
        ("picture", "https://example.org/\x00", "http(s) URL"),
        ("picture", "https://example.org/\u202e", "http(s) URL"),
        ("picture", "https://example.org/\ud800", "http(s) URL"),
        ("picture", "https://example.org/" + "x" * 2_048, "http(s) URL"),
    ],
    ids=lambda value: ascii(value)[:30],
)
async def test_unusable_name_or_picture_is_ignored_with_a_log_line(
    authenticate: Authenticate, claim: str, value: object, reason: str
) -> None:
    usable = {"name": "Alice", "picture": "https://example.org/a.png"}
    with capture_logs() as logs:
        caller = await authenticate({}, **{**usable, claim: value})
    assert {"name": caller.name, "picture": caller.picture} == {**usable, claim: None}
    (line,) = logs
    assert (line["event"], line["user"], line["claim"]) == ("token_claim_ignored", "alice", claim)
    assert reason in line["reason"]
    assert ascii(value) not in ascii(line)


async def test_ignored_claim_is_logged_once_per_user_and_reason(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.auth.ignored_claims._MAX_REMEMBERED", 3)
    authenticator, numbers = Authenticator(Settings(jwt_secret=SECRET), clock), itertools.count()

    async def logged(user: str, **changes: Any) -> int:
        with capture_logs() as logs:
            # Another jti makes another token, which is not cached.
            for _ in range(3):
                await authenticator.authenticate(signed(sub=user, jti=next(numbers), **changes))
        return len(logs)

    assert await logged("alice", picture="javascript:1") == 1
    assert await logged("alice", picture=7) == 1
    assert await logged("alice", picture="data:2") == 0
    assert await logged("bob", picture="data:2", name=7) == 2
    # The oldest line was forgotten.
    assert await logged("alice", picture="javascript:1") == 1


async def test_unusable_claims_are_neither_stored_nor_an_error(serve_app: ServeApp) -> None:
    unusable = [
        {"name": "x" * 5_500, "picture": "javascript:alert(1)"},
        {"name": "\ud800", "picture": "https://example.org/\udfff"},
        {"name": {"first": "Ann"}, "picture": ["https://example.org/a.png"]},
    ]
    async with serve_app() as app:

        async def me(user: str, **changes: Any) -> dict[str, Any]:
            headers = {"authorization": bearer(sub=user, exp=time.time() + 60, **changes)}
            query = {"query": "{ me { displayName avatarUrl } }"}
            answer = (await app.http.post("/graphql", json=query, headers=headers)).json()
            assert "errors" not in answer, answer
            shown: dict[str, Any] = answer["data"]["me"]
            return shown

        for number, changes in enumerate(unusable):
            user = f"claims{number}"
            assert await me(user, **changes) == {"displayName": user, "avatarUrl": None}
            usable = {"name": "Ann\u202e\nLee", "picture": "https://example.org/a.png"}
            assert await me(user, **usable) == {"displayName": "Ann Lee", "avatarUrl": "https://example.org/a.png"}
            peer = await app.signed_in(user, **changes)
            assert await peer.is_alive()
