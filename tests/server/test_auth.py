"""Tokens signed with the shared secret: which are accepted, and the reasons for refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
import pytest

from resolvers.base.errors import InvalidInput, Unauthenticated
from resolvers.users.callers import Caller, CallerRole
from server.auth.authenticator import MAX_TOKEN_LENGTH, Authenticator, bearer_token, issue_token
from server.auth.jwks import Clock
from server.auth.token_claims import LEEWAY_SECONDS
from server.auth.websocket import websocket_authenticator
from server.overload.load_shedding import LoadShedding
from server.settings import Settings, SettingsError
from store.base.ids import UserId
from subscriptions.transport.websocket import Authenticated, ConnectionRefusedByAuth
from tests.server.tokens import NOW, SECRET, b64, claims, hmac_token, signed

Refusal = Callable[[Authenticator, str], Awaitable[str]]


@pytest.fixture
def hs(clock: Clock) -> Authenticator:
    return Authenticator(Settings(jwt_secret=SECRET), clock)


# Shared secret


async def test_valid_token_gives_the_caller_and_the_expiry(hs: Authenticator) -> None:
    token = signed(name="Alice", picture="https://example.com/a.png", role="service")
    assert await hs.authenticate(token) == Caller(
        UserId("alice"), CallerRole.SERVICE, NOW + 3600, "Alice", "https://example.com/a.png"
    )


async def test_token_needs_only_sub_and_exp(hs: Authenticator) -> None:
    assert await hs.authenticate(signed()) == Caller(UserId("alice"), CallerRole.USER, NOW + 3600)


async def test_issued_token_is_accepted(clock: Clock) -> None:
    settings = Settings(jwt_secret=SECRET, jwt_audience="chat", jwt_issuer="us")
    token = issue_token(settings, "bob", CallerRole.ADMIN, "Bob", 60, clock=clock)
    assert await Authenticator(settings, clock).authenticate(token) == Caller(
        UserId("bob"), CallerRole.ADMIN, NOW + 60, "Bob", issued_at=NOW
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": None}, "no exp"),
        ({"sub": None}, "no sub"),
        ({"exp": NOW - LEEWAY_SECONDS}, "expired"),
        ({"exp": "soon"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": float("inf")}, "exp"),
        ({"exp": float("nan")}, "exp"),
        ({"exp": 10**400}, "exp"),
        ({"exp": -1}, "exp"),
        ({"nbf": NOW + LEEWAY_SECONDS + 1}, "nbf"),
        ({"iat": NOW + LEEWAY_SECONDS + 1}, "iat"),
        ({"sub": 7}, "sub"),
        ({"sub": ""}, "sub"),
        ({"sub": "al ice"}, "sub"),
        ({"sub": "alice\n"}, "sub"),
        ({"sub": "al\u200bice"}, "sub"),
        ({"sub": "al\ud800ice"}, "sub"),
        ({"sub": "a" * 129}, "sub"),
    ],
)
async def test_refusal_names_the_invalid_claim(
    hs: Authenticator, changes: dict[str, Any], reason: str, refusal: Refusal
) -> None:
    token = hmac_token({"alg": "HS256"}, claims(**changes), SECRET.encode())
    assert reason in await refusal(hs, token)


async def test_clocks_may_differ_by_the_leeway(hs: Authenticator, clock: Clock, refusal: Refusal) -> None:
    token = signed(exp=NOW + 100, nbf=NOW + LEEWAY_SECONDS)
    await hs.authenticate(token)
    clock.now = NOW + 100 + LEEWAY_SECONDS - 0.1
    await hs.authenticate(token)
    clock.now = NOW + 100 + LEEWAY_SECONDS
    assert "expired" in await refusal(hs, token)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "...",
        "e30.e30.e30",
        "ä.ö.ü",
        "\ud800.a.b",
        b64(b"[]") + ".e30.e30",
        b64({"alg": "HS256", "kid": 7}) + ".e30.e30",
        b64({"alg": "HS256", "crit": ["b64"], "b64": False}) + "..e30",
        b64(b"[" * 5000) + ".e30.e30",
        signed()[:-2],
        signed() + ".x",
        "a" * (MAX_TOKEN_LENGTH + 1),
    ],
)
async def test_malformed_token_is_refused(hs: Authenticator, token: str, refusal: Refusal) -> None:
    await refusal(hs, token)


async def test_token_with_a_changed_payload_is_refused(hs: Authenticator, refusal: Refusal) -> None:
    header, _, signature = signed().split(".")
    assert "signature" in await refusal(hs, f"{header}.{b64(claims(sub='bob'))}.{signature}")


async def test_token_signed_with_another_secret_is_refused(hs: Authenticator, refusal: Refusal) -> None:
    token = jwt.encode(claims(), "another-secret-that-is-as-long-as-ours", algorithm="HS256")
    assert "signature" in await refusal(hs, token)


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 7, ["HS256"], "HS384", "RS256"])
async def test_secret_is_used_with_its_algorithm_only(hs: Authenticator, algorithm: object, refusal: Refusal) -> None:
    token = hmac_token({"alg": algorithm}, claims(), SECRET.encode())
    head, body, _ = token.split(".")
    assert "algorithm" in await refusal(hs, token)
    await refusal(hs, f"{head}.{body}.")


async def test_unsigned_token_is_refused(hs: Authenticator, refusal: Refusal) -> None:
    assert "algorithm" in await refusal(hs, jwt.encode(claims(), None, algorithm="none"))


@pytest.mark.parametrize("audience", ["chat", ["mail", "chat"]])
async def test_audience_must_match_the_setting(clock: Clock, audience: object, refusal: Refusal) -> None:
    authenticator = Authenticator(Settings(jwt_secret=SECRET, jwt_audience="chat"), clock)
    await authenticator.authenticate(signed(aud=audience))
    for other in (None, "mail", ["mail"], "chatroom", [], {"chat": 1}):
        assert "aud" in await refusal(authenticator, signed(aud=other))


async def test_issuer_must_match_the_setting(clock: Clock, refusal: Refusal) -> None:
    authenticator = Authenticator(Settings(jwt_secret=SECRET, jwt_issuer="us"), clock)
    await authenticator.authenticate(signed(iss="us"))
    for other in (None, "them"):
        assert "iss" in await refusal(authenticator, signed(iss=other))
    assert "iss" in await refusal(authenticator, hmac_token({"alg": "HS256"}, claims(iss=["us"]), SECRET.encode()))


async def test_refusals_contain_no_part_of_the_token(hs: Authenticator, refusal: Refusal) -> None:
    for token in (signed(sub="no such id"), signed()[:-2], signed(exp=NOW - 60)):
        message = await refusal(hs, token)
        assert not any(part in message for part in ("no such id", SECRET, *token.split(".")))


async def test_every_algorithm_is_refused_without_a_key(clock: Clock, refusal: Refusal) -> None:
    assert "algorithm" in await refusal(Authenticator(Settings(), clock), signed())


async def test_cached_token_is_not_verified_again_until_it_expires(
    hs: Authenticator, clock: Clock, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    token = signed(exp=NOW + 100)
    caller = await hs.authenticate(token)
    decode = jwt.decode
    verified = 0

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal verified
        verified += 1
        return decode(*args, **kwargs)

    monkeypatch.setattr(jwt, "decode", counted)
    assert await hs.authenticate(token) is caller
    assert verified == 0
    clock.now = NOW + 200
    assert "expired" in await refusal(hs, token)


async def test_token_cache_is_bounded(hs: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.auth.authenticator.MAX_CACHED_TOKENS", 3)
    tokens = [signed(sub=f"user{n}") for n in range(5)]
    first = [await hs.authenticate(token) for token in tokens]
    again = [await hs.authenticate(token) for token in reversed(tokens)]
    assert [one is other for one, other in zip(first, reversed(again), strict=True)] == [False, False, True, True, True]


# Issuing


def test_tokens_are_issued_only_for_valid_users_and_times() -> None:
    settings = Settings(jwt_secret=SECRET)
    for user, ttl in (("al ice", 60.0), ("", 60.0), ("alice", 0.0), ("alice", -1.0), ("alice", float("inf"))):
        with pytest.raises(InvalidInput):
            issue_token(settings, user, ttl_seconds=ttl)
    with pytest.raises(SettingsError, match="CONFAB_JWT_SECRET"):
        issue_token(Settings(), "alice")


# Headers and WebSockets


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "BEARER   abc ", " Bearer abc"])
def test_bearer_scheme_is_case_insensitive(header: str) -> None:
    assert bearer_token(header) == "abc"


def test_missing_header_means_no_token() -> None:
    assert bearer_token(None) is None


@pytest.mark.parametrize("header", ["", "abc", "Bearer", "Bearer ", "Basic abc", "Bearerabc"])
def test_header_without_a_bearer_token_is_refused(header: str) -> None:
    with pytest.raises(Unauthenticated):
        bearer_token(header)


@pytest.mark.parametrize("key", ["Authorization", "authorization"])
async def test_websocket_has_a_caller_after_signing_in(hs: Authenticator, key: str) -> None:
    signed_in: list[Caller] = []

    async def sign_in(caller: Caller) -> None:
        signed_in.append(caller)

    judge = websocket_authenticator(hs.authenticate, sign_in, LoadShedding(1, 1))
    caller = await hs.authenticate(signed())
    assert await judge({key: f"Bearer {signed()}"}) == Authenticated(caller, NOW + 3600, "alice")
    assert signed_in == [caller]


@pytest.mark.parametrize("payload", [None, {}, {"other": 1}, {"Authorization": None}])
async def test_websocket_without_a_token_is_anonymous(hs: Authenticator, payload: dict[str, Any] | None) -> None:
    async def sign_in(_: Caller) -> None:
        raise AssertionError("nobody cannot be signed in")

    assert await websocket_authenticator(hs.authenticate, sign_in, LoadShedding(1, 1))(payload) == Authenticated(None)


@pytest.mark.parametrize(
    "authorization",
    ["", "abc", 7, ["Bearer"], "Bearer x", f"Bearer {signed(exp=NOW - 60)}", f"Bearer {signed(sub=' ')}"],
)
async def test_websocket_with_an_invalid_token_is_closed_with_4403(hs: Authenticator, authorization: object) -> None:
    async def sign_in(_: Caller) -> None:
        raise AssertionError("who was refused cannot be signed in")

    with pytest.raises(ConnectionRefusedByAuth) as caught:
        await websocket_authenticator(hs.authenticate, sign_in, LoadShedding(1, 1))({"Authorization": authorization})
    assert caught.value.close.code == 4403
    assert 0 < len(caught.value.close.reason.encode()) <= 123


async def test_a_websocket_whose_token_is_being_checked_does_not_count_as_an_operation() -> None:
    shedding, keys = LoadShedding(1, 1), asyncio.Event()

    async def authenticate(_: str) -> Caller:
        await keys.wait()
        raise Unauthenticated("There is no such key.")

    async def sign_in(_: Caller) -> None:
        raise AssertionError("who was refused cannot be signed in")

    judge = websocket_authenticator(authenticate, sign_in, shedding)
    judged = [asyncio.create_task(judge({"Authorization": "Bearer forged"})) for _ in range(3)]
    await asyncio.sleep(0)
    assert not shedding.is_full
    keys.set()
    outcomes = await asyncio.gather(*judged, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionRefusedByAuth] * 3
