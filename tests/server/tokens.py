"""Tokens for the tests, good ones and such as an attacker would make."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import jwt

SECRET = "a-secret-of-the-tests-that-is-long-enough"

NOW = 1_800_000_000.0
"""Where the tests' clock stands at first."""


def claims(**changes: Any) -> dict[str, Any]:
    """Claims that are good; None takes one out."""
    merged = {"sub": "alice", "exp": NOW + 3600, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def signed(**changes: Any) -> str:
    return jwt.encode(claims(**changes), SECRET, algorithm="HS256")


def bearer(**changes: Any) -> str:
    """The value of an Authorization header."""
    return f"Bearer {signed(**changes)}"


def b64(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def hmac_token(header: dict[str, Any], body: dict[str, Any], key: bytes) -> str:
    """By hand: PyJWT refuses to sign what an attacker would."""
    head = f"{b64(header)}.{b64(body)}"
    return f"{head}.{b64(hmac.digest(key, head.encode(), 'sha256'))}"
