"""A browser's subscription for Web Push: its keys, and what it reads."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import http_ece
import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from store.devices.device import PushAddress, PushPlatform
from tests.push.services.push_server import Received


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Subscription:
    """A subscription with keys of its own."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = secrets.token_bytes(16)
        point = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.p256dh, self.auth = encode(point), encode(self._auth)

    @property
    def address(self) -> PushAddress:
        return PushAddress(PushPlatform.WEB_PUSH, self.endpoint, self.p256dh, self.auth)

    @property
    def input(self) -> dict[str, str]:
        """Return the subscription as clients send it."""
        return {"endpoint": self.endpoint, "p256dh": self.p256dh, "auth": self.auth}

    def read(self, push: Received) -> dict[str, Any]:
        """Return the payload of a push, decrypted as a browser does."""
        assert push.headers["content-encoding"] == "aes128gcm" and len(push.body) <= 4096
        text = http_ece.decrypt(push.body, private_key=self._private, auth_secret=self._auth, version="aes128gcm")
        payload: dict[str, Any] = orjson.loads(text)
        return payload


def vapid_claims(push: Received, public_key: str) -> dict[str, Any]:
    """Return the claims of a push's VAPID token, whose signature is checked with the key that the push names."""
    scheme, _, rest = push.headers["authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert scheme == "vapid" and parts["k"] == public_key
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode(parts["k"]))
    options: Any = {"verify_exp": False, "verify_aud": False}
    claims: dict[str, Any] = jwt.decode(parts["t"], key, ["ES256"], options=options)
    return claims
