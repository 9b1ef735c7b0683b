"""Tokens signed with private keys: choosing, fetching and withdrawing public keys."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from resolvers.base.errors import Unauthenticated, Unavailable
from server.auth.authenticator import TOKEN_CACHE_SECONDS, Authenticator
from server.auth.jwks import MIN_FETCH_INTERVAL_SECONDS, REFRESH_SECONDS, JwksError, parse_jwks
from server.settings import Settings, SettingsError
from tests.protocol.serving import PATIENCE
from tests.server.jwks_server import JwksServer, jwk, serving_keys
from tests.server.tokens import NOW, SECRET, b64, claims, hmac_token

RSA_KEY = rsa.generate_private_key(65537, 2048)
OTHER_RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()

Refusal = Callable[[Authenticator, str], Awaitable[str]]


def token(key: Any, algorithm: str, kid: str | None = None, *, sub: str = "alice", **header: Any) -> str:
    return jwt.encode(
        {"sub": sub, "exp": NOW + 10_000},
        key,
        algorithm=algorithm,
        headers={**header, **({"kid": kid} if kid else {})},
    )


@pytest.fixture
def provider() -> Iterator[JwksServer]:
    with serving_keys() as server:
        yield server


@pytest.fixture
def remote(provider: JwksServer, clock: Any) -> Authenticator:
    return Authenticator(Settings(jwks_url=provider.url), clock)


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA_KEY, "RS256"), (EC_KEY, "ES256"), (ED_KEY, "EdDSA")], ids=["rsa", "ec", "ed25519"]
)
async def test_each_public_key_type_verifies_its_algorithm(
    remote: Authenticator, provider: JwksServer, key: Any, algorithm: str
) -> None:
    provider.keys = [jwk(RSA_KEY, "r"), jwk(EC_KEY, "e"), jwk(ED_KEY, "o")]
    kid = {"RS256": "r", "ES256": "e", "EdDSA": "o"}[algorithm]
    with_kid = token(key, algorithm, kid)
    without = token(key, algorithm, sub="bob")
    assert (await remote.authenticate(with_kid)).user_id == "alice"
    assert (await remote.authenticate(without)).user_id == "bob"
    assert provider.requests == 1


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        *((RSA_KEY, algorithm) for algorithm in ("RS384", "RS512", "PS256", "PS384", "PS512")),
        (ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (ec.generate_private_key(ec.SECP521R1()), "ES512"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_key_verifies_only_the_algorithm_that_it_names(
    remote: Authenticator, provider: JwksServer, key: Any, algorithm: str, refusal: Refusal
) -> None:
    provider.keys = [jwk(key, "one", alg=algorithm)]
    assert (await remote.authenticate(token(key, algorithm, "one"))).user_id == "alice"
    if key is RSA_KEY:
        assert "key" in await refusal(remote, token(key, "RS256", "one"))


async def test_jwk_set_can_be_a_file(tmp_path: Path, clock: Any) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one")]}))
    authenticator = Authenticator(Settings(jwks_file=path), clock)
    await authenticator.authenticate(token(RSA_KEY, "RS256", "one"))
    path.write_text(json.dumps({"keys": [jwk(EC_KEY, "two")]}))
    clock.now += MIN_FETCH_INTERVAL_SECONDS
    await authenticator.authenticate(token(EC_KEY, "ES256", "two"))


@pytest.mark.parametrize("kid", ["one", None])
async def test_public_key_is_not_accepted_as_a_secret(
    remote: Authenticator, provider: JwksServer, kid: str | None, refusal: Refusal
) -> None:
    provider.keys = [jwk(RSA_KEY, "one")]
    public = RSA_KEY.public_key()
    header = {"alg": "HS256", **({"kid": kid} if kid else {})}
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, pem.strip(), der, json.dumps(provider.keys[0]).encode()):
        assert "algorithm" in await refusal(remote, hmac_token(header, claims(), secret))


async def test_secret_and_public_keys_do_not_replace_each_other(tmp_path: Path, clock: Any, refusal: Refusal) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one")]}))
    both = Authenticator(Settings(jwt_secret=SECRET, jwks_file=path), clock)
    await both.authenticate(hmac_token({"alg": "HS256"}, claims(), SECRET.encode()))
    await both.authenticate(token(RSA_KEY, "RS256", sub="bob"))
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert "signature" in await refusal(both, hmac_token({"alg": "HS256", "kid": "one"}, claims(), pem))
    for algorithm in ("RS256", "ES256", "none"):
        await refusal(both, hmac_token({"alg": algorithm}, claims(), SECRET.encode()))


async def test_token_of_another_key_is_refused_with_any_key_id(
    remote: Authenticator, provider: JwksServer, refusal: Refusal
) -> None:
    provider.keys = [jwk(RSA_KEY, "one"), jwk(EC_KEY, "two")]
    forged = token(OTHER_RSA_KEY, "RS256", "one")
    assert "signature" in await refusal(remote, forged)
    # A right key id with an algorithm of another key type matches no key.
    mixed = token(OTHER_RSA_KEY, "RS256", "two")
    assert "key" in await refusal(remote, mixed)
    own = {"jwk": jwk(OTHER_RSA_KEY, "one"), "jku": "http://127.0.0.1:1/", "kid": "one"}
    assert "signature" in await refusal(remote, token(OTHER_RSA_KEY, "RS256", **own))


async def test_token_without_a_key_id_needs_an_unambiguous_key(
    remote: Authenticator, provider: JwksServer, refusal: Refusal
) -> None:
    provider.keys = [jwk(RSA_KEY, "one"), jwk(OTHER_RSA_KEY, "two")]
    assert "key" in await refusal(remote, token(RSA_KEY, "RS256"))


async def test_new_key_is_fetched_and_unknown_ids_cause_few_fetches(
    remote: Authenticator, provider: JwksServer, clock: Any, refusal: Refusal
) -> None:
    provider.keys = [jwk(RSA_KEY, "old")]
    await remote.authenticate(token(RSA_KEY, "RS256", "old"))
    clock.now += MIN_FETCH_INTERVAL_SECONDS
    junk = [token(RSA_KEY, "RS256", f"junk{n}") for n in range(50)]
    for outcome in await asyncio.gather(*map(remote.authenticate, junk), return_exceptions=True):
        assert isinstance(outcome, Unauthenticated)
    assert provider.requests == 2
    provider.keys.append(jwk(OTHER_RSA_KEY, "new"))
    fresh = token(OTHER_RSA_KEY, "RS256", "new")
    assert "key" in await refusal(remote, fresh)
    assert provider.requests == 2
    clock.now += MIN_FETCH_INTERVAL_SECONDS
    await remote.authenticate(fresh)
    assert provider.requests == 3


async def test_concurrent_callers_share_the_first_fetch(remote: Authenticator, provider: JwksServer) -> None:
    provider.keys = [jwk(ED_KEY, "one")]
    tokens = [token(ED_KEY, "EdDSA", "one", sub=f"u{n}") for n in range(20)]
    callers = await asyncio.gather(*map(remote.authenticate, tokens))
    assert [caller.user_id for caller in callers] == [f"u{n}" for n in range(20)]
    assert provider.requests == 1


async def test_fetched_keys_stay_in_force_while_the_provider_is_away(
    remote: Authenticator, provider: JwksServer, clock: Any
) -> None:
    provider.keys = [jwk(ED_KEY, "one")]
    known = token(ED_KEY, "EdDSA", "one")
    await remote.authenticate(known)
    provider.status = 500
    clock.now += REFRESH_SECONDS + 1
    assert (await remote.authenticate(known)).user_id == "alice"
    async with asyncio.timeout(PATIENCE):
        for _ in itertools.takewhile(lambda _: provider.requests < 2, itertools.count()):
            await asyncio.sleep(0.005)
    assert (await remote.authenticate(token(ED_KEY, "EdDSA", "one", sub="bob"))).user_id == "bob"


async def test_withdrawn_key_invalidates_cached_tokens(
    remote: Authenticator, provider: JwksServer, clock: Any, refusal: Refusal
) -> None:
    provider.keys = [jwk(ED_KEY, "one")]
    known = token(ED_KEY, "EdDSA", "one")
    await remote.authenticate(known)
    provider.keys = [jwk(EC_KEY, "two")]
    clock.now += REFRESH_SECONDS + 1
    async with asyncio.timeout(PATIENCE):
        # The current keys are used until the new ones are fetched.
        with pytest.raises(Unauthenticated):
            for n in itertools.count():
                await remote.authenticate(token(ED_KEY, "EdDSA", "one", sub=f"u{n}"))
                await asyncio.sleep(0.005)
    clock.now += TOKEN_CACHE_SECONDS + 1
    assert "key" in await refusal(remote, known)


async def test_unreachable_provider_is_unavailable(remote: Authenticator, provider: JwksServer, clock: Any) -> None:
    provider.status = 503
    known = token(RSA_KEY, "RS256", "one")
    for _ in range(3):
        with pytest.raises(Unavailable):
            await remote.authenticate(known)
    assert provider.requests == 1
    provider.status, provider.keys = 200, [jwk(RSA_KEY, "one")]
    clock.now += MIN_FETCH_INTERVAL_SECONDS
    assert (await remote.authenticate(known)).user_id == "alice"


@pytest.mark.parametrize(
    "member",
    [
        jwk(RSA_KEY, "one", use="enc"),
        jwk(RSA_KEY, "one", alg="HS256"),
        jwk(RSA_KEY, "one", alg="ES256"),
        jwk(EC_KEY, "one", alg="ES384"),
        jwk(RSA_KEY, "one", alg=["RS256"]),
        jwk(RSA_KEY, "one", key_ops=["encrypt"]),
        jwk(rsa.generate_private_key(65537, 1024), "one"),
        jwk(ec.generate_private_key(ec.SECP256K1()), "one"),
        {"kty": "oct", "kid": "one", "k": b64(SECRET.encode())},
        {"kty": "RSA", "kid": "one"},
        {"kty": ["RSA"], "kid": "one"},
        {"kty": "EC", "crv": {}, "kid": "one"},
        {**jwk(RSA_KEY, None), "kid": 7},
        "one",
        None,
    ],
)
def test_keys_of_other_kinds_are_ignored(member: Any) -> None:
    kept = parse_jwks(json.dumps({"keys": [member, jwk(EC_KEY, "good")]}).encode())
    assert [key.kid for key in kept] == ["good"]
    with pytest.raises(JwksError):
        parse_jwks(json.dumps({"keys": [member]}).encode())


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"7", b"null", b"{}", b'{"keys": 7}', b'{"keys": []}'])
def test_invalid_jwk_set_is_an_error(document: bytes) -> None:
    with pytest.raises(JwksError):
        parse_jwks(document)


def test_unusable_key_file_prevents_the_start(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text("{}")
    with pytest.raises(SettingsError, match="CONFAB_JWKS_FILE"):
        Authenticator(Settings(jwks_file=path))


def test_public_key_as_secret_prevents_the_start() -> None:
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    with pytest.raises(SettingsError, match="CONFAB_JWT_SECRET") as caught:
        Authenticator(Settings(jwt_secret=pem))
    assert pem.splitlines()[1] not in str(caught.value)
