"""Tokens with which this deployment signs in to APNs: JSON Web Tokens, signed with the key of a developer account."""

from __future__ import annotations

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from store.base.clock import Clock

_USED_MS = 50 * 60 * 1000
"""APNs accepts a token for an hour, and refuses a new one within 20 minutes."""

_RENEWED_AGAIN_MS = 20 * 60 * 1000


def parse_apns_key(pem: str) -> ec.EllipticCurvePrivateKey:
    """Return the key of a file `AuthKey_….p8` of Apple. Raises ValueError."""
    try:
        key = load_pem_private_key(pem.strip().encode(), password=None)
    except (ValueError, TypeError) as error:
        raise ValueError("not a private key in PEM") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("not a private key on the curve P-256")
    return key


class ApnsTokens:
    """Signs a token, and uses it for 50 minutes."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, key_id: str, team_id: str, clock: Clock) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._clock = clock
        self._token = ""
        self._made_ms = 0
        self._renewed_ms: int | None = None

    def get(self) -> str:
        """Return the present token."""
        now_ms = self._clock.now_ms()
        if not self._token or not self._made_ms <= now_ms < self._made_ms + _USED_MS:
            self._sign(now_ms)
        return self._token

    def renew(self, expired: str) -> bool:
        """Replace a token that APNs says has expired. Return whether there is another one now.

        Pushes at the same time find the same token expired, and replace it once. A second time within 20 minutes would
        not help: the clocks differ.
        """
        if expired != self._token:
            return True
        now_ms = self._clock.now_ms()
        if self._renewed_ms is not None and 0 <= now_ms - self._renewed_ms < _RENEWED_AGAIN_MS:
            return False
        self._renewed_ms = now_ms
        self._sign(now_ms)
        return True

    def _sign(self, now_ms: int) -> None:
        claims = {"iss": self._team_id, "iat": now_ms // 1000}
        self._token = jwt.encode(claims, self._key, "ES256", headers={"kid": self._key_id})
        self._made_ms = now_ms
