"""An identity provider on this machine, whose key set a server uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.server.jwks_server import JwksServer, jwk, serving_keys

_KEY_ID = "the key"


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """Publishes one key and signs tokens with it."""

    keys: JwksServer
    key: Any

    @property
    def fetches(self) -> int:
        """Number of times that the server has fetched the key set."""
        return self.keys.requests

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a server that trusts the provider."""
        return {"jwks_url": self.keys.url, "jwt_secret": ""}

    def token(self, user: str) -> str:
        """Return a valid token."""
        claims = {"sub": user, "exp": time.time() + 3600}
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": _KEY_ID})


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """Run an identity provider for the duration of the block."""
    key = rsa.generate_private_key(65_537, 2_048)
    with serving_keys() as keys:
        keys.keys = [jwk(key, _KEY_ID)]
        yield IdentityProvider(keys, key)
