"""Checks that an event of a webhook was sent by Confab, with nothing but the standard library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> Any:
    """Return the event of a request. Raises ValueError unless its signature is right, and at most 5 minutes old."""
    id, sent_at = headers["webhook-id"], headers["webhook-timestamp"]
    if abs(time.time() - int(sent_at)) > 300:
        raise ValueError("too old")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    # After a rotation there are two signatures for 24 hours.
    if not any(hmac.compare_digest(expected, each) for each in headers["webhook-signature"].split()):
        raise ValueError("wrong signature")
    return json.loads(body)
