"""Tokens of LiveKit: for joining a room, for its server API, and of its webhooks.

All are JSON Web Tokens that are signed with the secret of an API key (HS256).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import jwt

from resolvers.voice.media.media_server import TOKEN_SECONDS
from resolvers.voice.media.rooms import MediaPermission
from store.base.clock import Clock
from store.base.ids import UserId

_API_SECONDS = 60
_LEEWAY_SECONDS = 60
"""Difference of the clocks of both servers that does not matter. LiveKit allows the same."""

_EMPTY_ROOM_SECONDS = 120
"""Time for which an empty room stays. It must be longer than the time between two looks (`Reconciler`)."""

_ALGORITHM = "HS256"
_SIGNATURE_ONLY: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


class LiveKitTokens:
    """Signs and checks tokens with the secret of an API key."""

    def __init__(self, api_key: str, secret: str, clock: Clock) -> None:
        """secret: at least 32 bytes."""
        self._api_key = api_key
        self._secret = secret
        self._clock = clock

    def sign_join(self, room: str, identity: str, user: UserId, permission: MediaPermission) -> tuple[str, int]:
        """Return a token for joining a room, and the time (ms) until which it is valid.

        Clients find the user of a participant in its attribute `user`.
        """
        now = self._now()
        grants = {"roomJoin": True, "room": room, **permission.to_grant()}
        configuration = {"emptyTimeout": TOKEN_SECONDS, "departureTimeout": _EMPTY_ROOM_SECONDS}
        more = {"sub": identity, "attributes": {"user": user}, "roomConfig": configuration}
        return self._sign(grants, TOKEN_SECONDS, more), (now + TOKEN_SECONDS) * 1000

    def sign_call(self, grants: Mapping[str, Any]) -> str:
        """Return a token for one call of the server API."""
        return self._sign(grants, _API_SECONDS, {})

    def verifies(self, token: str) -> bool:
        """Return whether the token of a webhook has a signature of this key, and is valid at present."""
        claims = self._read(token)
        if claims is None:
            return False
        now, expires, begins = self._now(), claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(expires, int | float) or not isinstance(begins, int | float):
            return False
        return begins - _LEEWAY_SECONDS <= now < expires + _LEEWAY_SECONDS

    def signs_body(self, token: str, body: bytes) -> bool:
        """Return whether the token of a webhook is for this body: it has the SHA-256 of it."""
        signed = (self._read(token) or {}).get("sha256")
        expected = base64.b64encode(hashlib.sha256(body).digest())
        return isinstance(signed, str) and hmac.compare_digest(signed.encode(), expected)

    def _read(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token with a valid signature."""
        try:
            claims: dict[str, Any] = jwt.decode(token, self._secret, [_ALGORITHM], options=_SIGNATURE_ONLY)
        except (jwt.PyJWTError, ValueError):
            return None
        return claims if claims.get("iss") == self._api_key else None

    def _sign(self, grants: Mapping[str, Any], seconds: int, more: Mapping[str, Any]) -> str:
        now = self._now()
        times = {"iat": now, "nbf": now, "exp": now + seconds}
        return jwt.encode({"iss": self._api_key, **times, **more, "video": dict(grants)}, self._secret, _ALGORITHM)

    def _now(self) -> int:
        return self._clock.now_ms() // 1000
