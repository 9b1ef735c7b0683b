"""Access tokens for FCM, which OAuth 2 gives for the key of a service account (RFC 7523)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from resolvers.push.services.exchange import (
    ServiceAnswer,
    ServiceUnreachable,
    clock_note,
    is_temporary,
    post_again,
    printable,
)
from store.base.clock import Clock

_SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_VALID_SECONDS = 3600
_EARLY_SECONDS = 300
"""Time before the end of a token at which it is replaced."""

_FETCH_SECONDS = 6.0
_PAUSE_MS = 5_000
"""Time after a failure in which no token is fetched: calls fail at once with the same error."""

_PROJECT = re.compile(r"[a-z0-9.:-]{1,100}\Z")
_TOKEN = re.compile(r"[!-~]{1,8192}\Z")


class CredentialsRefused(Exception):
    """Raised if Google refuses the service account. The text is for people."""


@dataclass(frozen=True, slots=True)
class FcmCredentials:
    """The part of a service account's JSON file that is used."""

    project: str
    email: str
    key: rsa.RSAPrivateKey = field(repr=False)
    key_id: str | None
    token_uri: str


def parse_fcm_credentials(text: str) -> FcmCredentials:
    """Return the credentials in the JSON file of a service account. Raises ValueError."""
    try:
        found = orjson.loads(text)
        values = [found[name] for name in ("project_id", "client_email", "private_key", "token_uri")]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("not the JSON file of a service account") from error
    if not all(isinstance(value, str) for value in values):
        raise ValueError("not the JSON file of a service account")
    project, email, pem, token_uri = values
    if not _PROJECT.match(project) or not email or not _is_trusted(token_uri):
        raise ValueError("not the JSON file of a service account")
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise ValueError("the private_key is not a key in PEM") from error
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ValueError("the private_key is not an RSA key")
    key_id = found.get("private_key_id")
    return FcmCredentials(project, email, key, key_id if isinstance(key_id, str) else None, token_uri)


def _is_trusted(url: str) -> bool:
    """Return whether a URL has https; http only on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))


class FcmTokens:
    """Keeps an access token. One is fetched at a time, however many pushes wait for it."""

    def __init__(self, credentials: FcmCredentials, client: httpx.AsyncClient, clock: Clock) -> None:
        self._credentials = credentials
        self._client = client
        self._clock = clock
        self._token = ""
        self._until_ms = 0
        self._fetching: asyncio.Task[str] | None = None
        self._failure: Exception | None = None
        self._failed_ms = 0

    async def get(self) -> str:
        """Return a token. Raises ServiceUnreachable, CredentialsRefused."""
        now_ms = self._clock.now_ms()
        if self._token and now_ms < self._until_ms:
            return self._token
        if self._failure is not None and 0 <= now_ms - self._failed_ms < _PAUSE_MS:
            raise type(self._failure)(str(self._failure))
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch())
            # Marks the exception as retrieved, if everybody who waited has given up.
            self._fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._fetching)

    def forget(self, token: str) -> None:
        """Fetch another token next: FCM refused this one."""
        if token == self._token:
            self._token = ""

    async def close(self) -> None:
        """Stop fetching."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    async def _fetch(self) -> str:
        try:
            token, seconds = await self._request()
        except (ServiceUnreachable, CredentialsRefused) as failure:
            self._failure, self._failed_ms = failure, self._clock.now_ms()
            raise
        self._failure = None
        self._token = token
        self._until_ms = self._clock.now_ms() + max(seconds - _EARLY_SECONDS, 1) * 1000
        return token

    async def _request(self) -> tuple[str, int]:
        """Return a token and its lifetime (s)."""
        form = urlencode({"grant_type": _GRANT, "assertion": self._sign()}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                answer = await post_again(self._client, self._credentials.token_uri, headers, form)
        except (TimeoutError, httpx.TimeoutException):
            raise ServiceUnreachable("Google gives no access token in time") from None
        except (httpx.HTTPError, OSError) as error:
            raise ServiceUnreachable(f"Google gives no access token: {error}") from error
        found = answer.json()
        if answer.status == 200:
            return _read_token(found)
        if is_temporary(answer.status):
            raise ServiceUnreachable(f"Google gives no access token: status {answer.status}")
        raise CredentialsRefused(self._explain(answer, found))

    def _sign(self) -> str:
        now = self._clock.now_ms() // 1000
        claims = {
            "iss": self._credentials.email,
            "scope": _SCOPE,
            "aud": self._credentials.token_uri,
            "iat": now,
            "exp": now + _VALID_SECONDS,
        }
        headers = {"kid": self._credentials.key_id} if self._credentials.key_id is not None else None
        return jwt.encode(claims, self._credentials.key, "RS256", headers=headers)

    def _explain(self, answer: ServiceAnswer, found: dict[str, Any]) -> str:
        said = printable(f"{found.get('error')}: {found.get('error_description')}" if found else "")
        note = clock_note(answer, self._clock.now_ms())
        return f"Google refuses the service account (status {answer.status}) {said}{note}"


def _read_token(found: dict[str, Any]) -> tuple[str, int]:
    token, seconds = found.get("access_token"), found.get("expires_in")
    if not isinstance(token, str) or not _TOKEN.match(token):
        raise ServiceUnreachable("Google's answer has no access token")
    if not isinstance(seconds, int) or not 0 < seconds <= 24 * _VALID_SECONDS:
        seconds = _VALID_SECONDS
    return token, seconds
