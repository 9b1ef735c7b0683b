"""Keys and tokens that identify this deployment to services of Web Push (VAPID, RFC 8292)."""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from store.base.clock import Clock

_KEY_BYTES = 32
_VALID_MS = 12 * 3600 * 1000
"""Lifetime of a token. At most 24 hours are allowed: half of it suits clocks that differ by hours."""

_USED_MS = _VALID_MS // 2
_MOST_ORIGINS = 1_000
"""Services whose tokens are kept. Clients name the services, so there may be any number."""


class VapidKey:
    """A key pair on the curve P-256.

    Attributes:
        private_text: The private key: 32 bytes in base64url.
        public_text: The public key: an uncompressed point of 65 bytes in base64url, as PushManager.subscribe takes it.
    """

    def __init__(self, private: ec.EllipticCurvePrivateKey) -> None:
        self.private = private
        secret = private.private_numbers().private_value.to_bytes(_KEY_BYTES, "big")
        self.private_text = _encode(secret)
        self.public_text = _encode(private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    @classmethod
    def generate(cls) -> VapidKey:
        """Return a new key pair."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def parse(cls, text: str) -> VapidKey:
        """Return the key pair of a private key in base64url. Raises ValueError."""
        bare = text.strip().rstrip("=")
        try:
            secret = base64.b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) != _KEY_BYTES:
            raise ValueError("not 32 bytes in base64url")
        return cls(ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1()))


class VapidTokens:
    """Signs the authorization for each service, and uses it for six hours."""

    def __init__(self, key: VapidKey, contact: str, clock: Clock) -> None:
        """Sign nothing yet. contact: a mailto: or https: URL at which the service reaches the operator."""
        self._key = key
        self._contact = contact
        self._clock = clock
        self._known: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def authorization(self, origin: str) -> str:
        """Return the Authorization header for a service."""
        now_ms = self._clock.now_ms()
        made_ms, header = self._known.get(origin, (0, ""))
        if not made_ms <= now_ms < made_ms + _USED_MS:
            claims = {"aud": origin, "exp": (now_ms + _VALID_MS) // 1000, "sub": self._contact}
            token = jwt.encode(claims, self._key.private, "ES256")
            header = f"vapid t={token}, k={self._key.public_text}"
            self._known[origin] = (now_ms, header)
            if len(self._known) > _MOST_ORIGINS:
                self._known.popitem(last=False)
        self._known.move_to_end(origin)
        return header

    def forget(self, origin: str) -> None:
        """Sign a new token for a service with the next push: it refused this one."""
        self._known.pop(origin, None)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
