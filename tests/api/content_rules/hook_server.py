"""The external hook of tests: an HTTP server on loopback."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from tests.webhooks.endpoint import Endpoint, Received, Reply, answer

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


def says(action: object) -> bytes:
    """Return an answer with an action."""
    return answer(200, orjson.dumps({"action": action}))


def by_text(request: Received) -> Reply:
    """Answer with the action that the text begins with; ALLOW for other texts."""
    word = request.data["content"].partition(" ")[0]
    return says(word if word in ("BLOCK", "FLAG") else "ALLOW")


def settings_for(endpoint: Endpoint, **more: Any) -> dict[str, Any]:
    """Return the settings of a server that asks the hook."""
    return {"content_hook_url": endpoint.url, "content_hook_secret": SECRET} | more
