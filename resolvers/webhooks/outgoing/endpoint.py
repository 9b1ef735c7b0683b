"""Sends events to endpoints of outgoing webhooks, one attempt at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from resolvers.web_requests.addresses import AddressRules, Resolve
from resolvers.web_requests.public_client import PublicTransport, open_public_client

ANSWER_SECONDS = 15.0
"""Time limit of an attempt, from the connection to the end of the answer."""

MAX_ANSWER = 64 * 1024
"""Bytes of an answer that are read. Longer ones are cut off, and their connection is closed."""

_CONNECTIONS = 800
"""Enough for all webhooks and conversations that are served at the same time."""

_USER_AGENT = "Confab-Webhooks/1"
_GONE = 410
_ASKS_FOR_PAUSE = (429, 503)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of an attempt. `status`: None without an answer. `retry_after`: the header of that name."""

    status: int | None
    retry_after: str | None = None

    @property
    def is_success(self) -> bool:
        """True for 2xx. Redirects are not followed, and count as failures."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """True if the endpoint wants no more events."""
        return self.status == _GONE

    @property
    def outcome(self) -> str:
        """The kind of outcome, for metrics."""
        if self.status is None:
            return "no_answer"
        return "delivered" if self.is_success else f"{self.status // 100}xx"


class Endpoints:
    """The connections to all endpoints. Rules for addresses are applied to each new connection."""

    def __init__(self, rules: AddressRules, resolve: Resolve, seconds: float = ANSWER_SECONDS) -> None:
        """Open nothing yet."""
        self._seconds = seconds
        transport = PublicTransport(rules, resolve, max_connections=_CONNECTIONS)
        self._client = open_public_client(transport, user_agent=_USER_AGENT, seconds=seconds)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> Attempt:
        """Send a body of JSON. Never raises for what the endpoint does."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._post(url, body, {"content-type": "application/json", **headers})
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError, OSError):
            return Attempt(None)

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Attempt:
        # The answer is not decompressed: a few bytes could become gigabytes.
        async with self._client.stream("POST", url, content=body, headers=headers) as response:
            size = 0
            async for part in response.aiter_raw(MAX_ANSWER):
                size += len(part)
                if size > MAX_ANSWER:
                    break
            retry_after = response.headers.get("retry-after") if response.status_code in _ASKS_FOR_PAUSE else None
            return Attempt(response.status_code, retry_after)
