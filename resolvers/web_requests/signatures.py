"""Secrets and signatures as Standard Webhooks specifies them (standardwebhooks.com)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable

_PREFIX = "whsec_"
_SECRET_BYTES = 32
"""The specification asks for 24 to 64."""


def new_secret() -> str:
    """Return a new random secret."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signed_headers(id: str, at_seconds: int, body: bytes, keys: Iterable[str]) -> dict[str, str]:
    """Return the headers that prove who has sent a body. They have one signature for each secret in `keys`."""
    content = f"{id}.{at_seconds}.".encode() + body
    signatures = (f"v1,{_sign(content, key)}" for key in keys)
    return {"webhook-id": id, "webhook-timestamp": str(at_seconds), "webhook-signature": " ".join(signatures)}


def _sign(content: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
