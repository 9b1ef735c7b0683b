"""APNs: pushes to apps on Apple's devices, over HTTP/2."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from resolvers.push.services.apns_tokens import ApnsTokens
from resolvers.push.services.exchange import (
    ServiceAnswer,
    ServiceUnreachable,
    Turns,
    clock_note,
    gone,
    in_time,
    is_temporary,
    post_again,
    refused,
    retry_after,
    unreachable,
)
from resolvers.push.services.payload import TTL_SECONDS, encode_payload, reference_of
from store.base.clock import Clock
from store.devices.device import PushAddress

PRODUCTION = "https://api.push.apple.com"
SANDBOX = "https://api.sandbox.push.apple.com"

_MOST_BYTES = 4096
_TOKEN = re.compile(r"(?:[0-9a-fA-F]{2}){1,100}\Z")
_AT_ONCE = 64
_STEP_SECONDS = 4.5
"""Time limit of each step. It leaves time for a second attempt: a connection that died silently gives no answer."""

_IDLE_SECONDS = 300.0
"""APNs wants connections to stay open."""

_EXPIRED = "ExpiredProviderToken"
_CREDENTIALS = frozenset({_EXPIRED, "InvalidProviderToken", "MissingProviderToken"})
_GONE = frozenset({"Unregistered", "ExpiredToken"})
_TEMPORARY = frozenset({"IdleTimeout", "Shutdown", "ServiceUnavailable", "InternalServerError"})
_HINTS = {
    "BadDeviceToken": "the token is malformed, or belongs to the other environment (CONFAB_APNS_SANDBOX)",
    "DeviceTokenNotForTopic": "the token belongs to another app than CONFAB_APNS_TOPIC",
    "TopicDisallowed": "the key may not send to CONFAB_APNS_TOPIC",
    "InvalidProviderToken": "CONFAB_APNS_KEY, CONFAB_APNS_KEY_ID and CONFAB_APNS_TEAM_ID do not belong together",
}


@dataclass(frozen=True, slots=True)
class ApnsOptions:
    """Credentials, and the app. topic: its bundle id. url: of the service."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    key_id: str
    team_id: str
    topic: str
    url: str = PRODUCTION


class Apns:
    """Sends pushes to one app. All requests share a connection or a few.

    BadDeviceToken is REFUSED and not GONE: APNs answers it to all devices if the environment is the wrong one, and a
    wrong setting must not make the deployment forget all its devices.
    """

    def __init__(self, options: ApnsOptions, clock: Clock, *, ssl_context: ssl.SSLContext | None = None) -> None:
        """Open no connection yet. ssl_context: for tests."""
        self._options = options
        self._clock = clock
        self._tokens = ApnsTokens(options.key, options.key_id, options.team_id, clock)
        self._turns = Turns(_AT_ONCE)
        self._client = httpx.AsyncClient(
            http1=False,
            http2=True,
            verify=ssl_context if ssl_context is not None else True,
            timeout=_STEP_SECONDS,
            limits=httpx.Limits(max_connections=4, keepalive_expiry=_IDLE_SECONDS),
            headers={"User-Agent": "Confab"},
            follow_redirects=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        """Send a push once. Raises nothing: failures are outcomes."""
        if not _TOKEN.match(address.token):
            return gone("not a device token of APNs: these are hexadecimal")
        try:
            async with self._turns.take():
                return await in_time(lambda: self._push(address.token, message))
        except ServiceUnreachable as error:
            return unreachable(str(error))

    async def _push(self, device: str, message: PushMessage) -> PushResult:
        url = f"{self._options.url}/3/device/{device}"
        content = encode_payload(message, _build, _MOST_BYTES)
        token = self._tokens.get()
        answer = await post_again(self._client, url, self._headers(token, message), content)
        if answer.json().get("reason") == _EXPIRED and self._tokens.renew(token):
            answer = await post_again(self._client, url, self._headers(self._tokens.get(), message), content)
        return self._judge(answer)

    def _headers(self, token: str, message: PushMessage) -> dict[str, str]:
        return {
            "authorization": f"bearer {token}",
            "content-type": "application/json",
            "apns-topic": self._options.topic,
            # The number on the icon counts as an alert, and a push of type `background` may not change it.
            "apns-push-type": "alert",
            "apns-priority": "5" if message.is_quiet else "10",
            "apns-expiration": str(self._clock.now_ms() // 1000 + TTL_SECONDS),
            "apns-collapse-id": message.tag,
        }

    def _judge(self, answer: ServiceAnswer) -> PushResult:
        if answer.status == 200:
            return PushResult(PushOutcome.ACCEPTED)
        now_ms, found = self._clock.now_ms(), answer.json()
        reason = str(found.get("reason") or "no reason given")
        said = f"status {answer.status}: {reason}"
        if answer.status == 410 or reason in _GONE:
            return gone(said + _since(found.get("timestamp")))
        if is_temporary(answer.status) or reason in _TEMPORARY:
            return unreachable(said, retry_after(answer, now_ms))
        hint = f" ({_HINTS[reason]})" if reason in _HINTS else ""
        note = clock_note(answer, now_ms) if reason in _CREDENTIALS else ""
        if reason == _EXPIRED and not note:
            note = ". Is the clock of this server right?"
        return refused(said + hint + note)


def _build(message: PushMessage) -> dict[str, Any]:
    aps: dict[str, Any] = {"badge": message.badge}
    if message.is_quiet:
        # Wakes the app, which removes the notification with this tag.
        aps["content-available"] = 1
    else:
        aps |= {"alert": {"title": message.title, "body": message.body}, "sound": "default"}
        if message.conversation is not None:
            aps["thread-id"] = message.conversation
    payload = {"aps": aps} | reference_of(message)
    return payload | {"quiet": True} if message.is_quiet else payload


def _since(timestamp: object) -> str:
    """Return the time since when a token is not valid, for a reason."""
    if not isinstance(timestamp, int):
        return ""
    try:
        return f", since {datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec='seconds')}"
    except (ValueError, OverflowError, OSError):
        return ""
