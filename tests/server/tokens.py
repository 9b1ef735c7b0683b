"""Valid and forged tokens for tests."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import jwt

SECRET = "a-secret-of-the-tests-that-is-long-enough"

NOW = 1_800_000_000.0
"""Initial time of the tests' clock."""


def claims(**changes: Any) -> dict[str, Any]:
    """Return valid claims with changes. None removes a claim."""
    merged = {"sub": "alice", "exp": NOW + 3600, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def signed(**changes: Any) -> str:
    return jwt.encode(claims(**changes), SECRET, algorithm="HS256")


def bearer(**changes: Any) -> str:
    """Return the value of an Authorization header."""
    return f"Bearer {signed(**changes)}"


def b64(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def hmac_token(header: dict[str, Any], body: dict[str, Any], key: bytes) -> str:
    """Sign without PyJWT, which refuses to create forged tokens."""
    head = f"{b64(header)}.{b64(body)}"
    return f"{head}.{b64(hmac.digest(key, head.encode(), 'sha256'))}"
