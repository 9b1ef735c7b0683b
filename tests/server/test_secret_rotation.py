"""Several HS256 secrets at once: the first signs, all verify, and a withdrawn one is refused."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import OKPAlgorithm

from server.auth.authenticator import Authenticator, issue_token
from server.auth.jwks import Clock
from server.settings import Settings, SettingsError, load_settings
from tests.server.tokens import SECRET, claims

OLD = 'a former secret, with "commas", spaces and [brackets]'
OLDER = "x" * 31 + "é"
UNKNOWN = "another-secret-that-is-as-long-as-ours"

Refusal = Callable[[Authenticator, str], Awaitable[str]]


def signed_with(secret: str) -> str:
    return jwt.encode(claims(), secret, algorithm="HS256")


async def test_every_secret_verifies_and_the_first_one_signs(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    monkeypatch.setenv("CONFAB_JWT_SECRET", SECRET)
    monkeypatch.setenv("CONFAB_JWT_PREVIOUS_SECRETS", json.dumps([OLD, OLDER]))
    settings = load_settings()
    authenticator = Authenticator(settings, clock)
    for secret in (SECRET, OLD, OLDER):
        assert (await authenticator.authenticate(signed_with(secret))).user_id == "alice"
    assert "signature" in await refusal(authenticator, signed_with(UNKNOWN))
    issued = issue_token(settings, "bob", clock=clock)
    assert jwt.decode(issued, SECRET, ["HS256"], options={"verify_exp": False, "verify_iat": False})["sub"] == "bob"


async def test_withdrawn_secret_is_refused_after_a_restart(clock: Clock, refusal: Refusal) -> None:
    token = signed_with(OLD)
    before = Authenticator(Settings(jwt_secret=SECRET, jwt_previous_secrets=[OLD]), clock)
    await before.authenticate(token)
    after = Authenticator(Settings(jwt_secret=SECRET), clock)
    assert "signature" in await refusal(after, token)


async def test_previous_secrets_work_while_a_key_set_replaces_the_secret(
    clock: Clock, tmp_path: Path, refusal: Refusal
) -> None:
    key = Ed25519PrivateKey.generate()
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [OKPAlgorithm.to_jwk(key.public_key(), as_dict=True)]}))
    authenticator = Authenticator(Settings(jwks_file=path, jwt_previous_secrets=[OLD]), clock)
    await authenticator.authenticate(jwt.encode(claims(), key, "EdDSA"))
    await authenticator.authenticate(signed_with(OLD))
    assert "signature" in await refusal(authenticator, signed_with(UNKNOWN))
    with pytest.raises(SettingsError, match="CONFAB_JWT_SECRET is not set"):
        issue_token(Settings(jwks_file=path, jwt_previous_secrets=[OLD]), "alice")


def test_public_key_as_a_previous_secret_prevents_the_start() -> None:
    pem: Any = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(SettingsError, match="CONFAB_JWT_PREVIOUS_SECRETS"):
        Authenticator(Settings(jwt_secret=SECRET, jwt_previous_secrets=[pem.decode()]))
