"""The recipes of docs/auth.md: tokens of identity providers sign in with exactly the settings that it shows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from resolvers.base.errors import Unauthenticated
from resolvers.users.callers import CallerRole
from server.auth.authenticator import Authenticator
from server.settings import Settings, check_fit_to_serve, find_foreign_token_warning, load_settings
from tests.api.client import Api
from tests.api.requests.provider_tokens import TOKENS, Claims, ProviderToken, reissue
from tests.server.jwks_server import JwksServer, jwk, serving_keys

GUIDE = Path(__file__).parents[3] / "docs" / "auth.md"
KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "PS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
MEMBERS = {
    "RS256": {"use": "sig", "alg": "RS256", "x5t": "example", "x5c": ["example"]},
    "PS256": {"use": "sig", "alg": "PS256"},
    "ES256": {"use": "sig", "alg": "ES256", "ext": True, "key_ops": ["verify"]},
    "EdDSA": {"use": "sig", "alg": "EdDSA"},
}
"""Further members of the published keys."""

tokens = pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)


def recipes() -> dict[str, list[dict[str, str]]]:
    """Return the blocks of settings of each recipe, by heading."""
    text = GUIDE.read_text(encoding="utf-8").partition("\n## Recipes\n")[2]
    found = {}
    for section in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        found[section.partition("\n")[0]] = [dict(re.findall(r"^(\w+)=(.+)$", block, re.MULTILINE)) for block in blocks]
    return found


@pytest.fixture(scope="module")
def keys() -> Iterator[JwksServer]:
    """Publish a key for each algorithm, with an encryption key of Keycloak among them."""
    with serving_keys() as server:
        server.keys = [jwk(key, f"kid-{algorithm}", **MEMBERS[algorithm]) for algorithm, key in KEYS.items()]
        server.keys.insert(0, jwk(KEYS["PS256"], "kid-encryption", use="enc", alg="RSA-OAEP"))
        yield server


@pytest.fixture
def authenticator(token: ProviderToken, keys: JwksServer, monkeypatch: pytest.MonkeyPatch) -> Authenticator:
    """Return the authenticator of a server with the settings of the recipe. The provider is on this machine."""
    settings = _settings(token, monkeypatch)
    check_fit_to_serve(settings)
    assert find_foreign_token_warning(settings) is None
    get = httpx.get

    def get_from_this_machine(url: str, **options: Any) -> httpx.Response:
        assert url == settings.jwks_url
        return get(keys.url, **options)

    monkeypatch.setattr(httpx, "get", get_from_this_machine)
    return Authenticator(settings)


def _settings(token: ProviderToken, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("CONFAB_")]:
        monkeypatch.delenv(name)
    heading, number = token.recipe
    for name, value in recipes()[heading][number].items():
        monkeypatch.setenv(name, value)
    return load_settings()


def _issue(token: ProviderToken, changes: Claims) -> str:
    """Return the signed token. None removes a claim that the changes name."""
    claims = {**reissue(token.claims), **changes}
    present = {name: value for name, value in claims.items() if name not in changes or value is not None}
    heading, number = token.recipe
    key = KEYS.get(token.algorithm) or recipes()[heading][number]["CONFAB_JWT_SECRET"]
    return jwt.encode(present, key, token.algorithm, {**token.header, "kid": f"kid-{token.algorithm}"})


def test_every_recipe_has_a_token() -> None:
    described = {(heading, number) for heading, blocks in recipes().items() for number in range(len(blocks))}
    assert {token.recipe for token in TOKENS.values()} == described - {("Your own backend", 0)}
    assert {heading for heading, _ in described} >= {"Auth0", "Clerk", "Supabase", "Firebase", "Cognito", "Keycloak"}


@tokens
async def test_user_signs_in_with_the_documented_settings(
    token: ProviderToken, authenticator: Authenticator, api: Api
) -> None:
    caller = await authenticator.authenticate(_issue(token, {}))
    assert caller.role is CallerRole.USER
    user = token.claims["sub"]
    me = (await api.data(caller, "{ me { id displayName avatarUrl } }"))["me"]
    assert me == {"id": user, "displayName": token.name or user, "avatarUrl": token.picture}


@tokens
async def test_role_is_read_from_the_documented_claim(token: ProviderToken, authenticator: Authenticator) -> None:
    assert (await authenticator.authenticate(_issue(token, token.promotion))).role is CallerRole.SERVICE


@tokens
async def test_token_for_another_application_is_refused(token: ProviderToken, authenticator: Authenticator) -> None:
    assert token.foreign
    for changes in token.foreign:
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(_issue(token, changes))
    others = [each for each in TOKENS.values() if each.recipe[0] != token.recipe[0]]
    for other in others:
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate(_issue(other, {}))


async def test_token_of_your_own_backend_signs_in(keys: JwksServer, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ProviderToken(("Your own backend", 0), "HS256", {}, {"sub": "7", "exp": 4e9}, {}, ())
    caller = await Authenticator(_settings(own, monkeypatch)).authenticate(_issue(own, {}))
    assert (caller.user_id, caller.role) == ("7", CallerRole.USER)
