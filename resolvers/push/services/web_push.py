"""Web Push: pushes to browsers (RFC 8030), encrypted for the browser (RFC 8291)."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from weakref import WeakValueDictionary

import http_ece
import httpx
from cryptography.hazmat.primitives.asymmetric import ec

from resolvers.push.push_service import PushMessage, PushOutcome, PushResult
from resolvers.push.services.exchange import (
    PUSH_SECONDS,
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
from resolvers.push.services.payload import TTL_SECONDS, encode_payload, payload_of
from resolvers.push.services.vapid import VapidKey, VapidTokens
from resolvers.web_requests.addresses import AddressRules, SystemResolver, WebAddress
from resolvers.web_requests.errors import AddressRefused
from resolvers.web_requests.public_client import PublicTransport, open_public_client
from store.base.clock import Clock
from store.devices.device import PushAddress

_MOST_BYTES = 3993
"""Largest payload: services take 4096 bytes, of which encryption needs 103 (RFC 8291, 4)."""

_KNOWN = ("fcm.googleapis.com", "updates.push.services.mozilla.com", ".push.apple.com", ".notify.windows.com")
"""Services of the large browsers: hosts, and ends of hosts."""

_APPLE = ".push.apple.com"

_AT_ONCE = 64
_OTHERS_AT_ONCE = 16
_EACH_OTHER_AT_ONCE = 4

_ACCEPTED = frozenset({200, 201, 202, 204})
_GONE = frozenset({404, 410})
_CREDENTIALS = frozenset({401, 403})


@dataclass(frozen=True, slots=True)
class _Pool:
    """Connections to some services, apart from those to others: a slow service delays only its own pool."""

    resolver: SystemResolver
    client: httpx.AsyncClient
    turns: Turns

    @classmethod
    def open(cls, rules: AddressRules, at_once: int, ssl_context: ssl.SSLContext | None) -> _Pool:
        resolver = SystemResolver()
        transport = PublicTransport(rules, resolver.resolve, max_connections=at_once, ssl_context=ssl_context)
        client = open_public_client(transport, user_agent="Confab", seconds=PUSH_SECONDS)
        return cls(resolver, client, Turns(at_once))

    async def close(self) -> None:
        await self.client.aclose()
        self.resolver.close()


class WebPush:
    """Sends pushes to the services that browsers name. Users can name any, so requests go to public addresses only.

    Services of the large browsers have connections of their own. All others share 16 requests at the same time, and
    each of them has 4: endpoints that never answer delay nobody else.
    """

    def __init__(
        self,
        key: VapidKey,
        contact: str,
        clock: Clock,
        rules: AddressRules,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Open no connection yet.

        contact: a mailto: or https: URL for the operators of services. ssl_context: for tests.
        """
        self._clock = clock
        self._rules = rules
        self._tokens = VapidTokens(key, contact, clock)
        self._known = _Pool.open(rules, _AT_ONCE, ssl_context)
        self._others = _Pool.open(rules, _OTHERS_AT_ONCE, ssl_context)
        self._turns_of_others: WeakValueDictionary[str, Turns] = WeakValueDictionary()

    async def close(self) -> None:
        """Close its connections."""
        await self._known.close()
        await self._others.close()

    async def send(self, address: PushAddress, message: PushMessage) -> PushResult:
        """Send a push once. Raises nothing: failures are outcomes."""
        try:
            target = self._rules.parse(address.token)
        except AddressRefused as error:
            return unreachable(f"the endpoint is not allowed: {error}")
        try:
            content = _encrypt(encode_payload(message, payload_of, _MOST_BYTES), address)
        except (ValueError, http_ece.ECEException):
            return gone("the keys of the subscription are not valid")
        try:
            if is_known_service(target.host):
                async with self._known.turns.take():
                    return await in_time(lambda: self._push(self._known, target, message, content))
            async with self._turns_of(target.host).take(), self._others.turns.take():
                return await in_time(lambda: self._push(self._others, target, message, content))
        except ServiceUnreachable as error:
            return unreachable(str(error))

    def _turns_of(self, host: str) -> Turns:
        return self._turns_of_others.setdefault(host, Turns(_EACH_OTHER_AT_ONCE))

    async def _push(self, pool: _Pool, target: WebAddress, message: PushMessage, content: bytes) -> PushResult:
        origin = _origin(target.url)
        headers = {
            "Authorization": self._tokens.authorization(origin),
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(TTL_SECONDS),
            "Topic": message.tag,
            "Urgency": "normal" if message.is_quiet else "high",
        }
        return self._judge(target.host, origin, await post_again(pool.client, str(target.url), headers, content))

    def _judge(self, host: str, origin: str, answer: ServiceAnswer) -> PushResult:
        status, now_ms = answer.status, self._clock.now_ms()
        if status in _ACCEPTED:
            return PushResult(PushOutcome.ACCEPTED)
        # Only these are quoted: users could read answers of other servers with pushes to them.
        said = f": {answer.text()}" if is_known_service(host) and answer.body else ""
        if status in _GONE:
            return gone(f"the subscription has ended (status {status})")
        if is_temporary(status):
            return unreachable(f"status {status}{said}", retry_after(answer, now_ms))
        if status in _CREDENTIALS:
            self._tokens.forget(origin)
            note = clock_note(answer, now_ms)
            hint = note or ". Was the subscription made with another public key than the present one?"
            return refused(f"status {status}: the service refuses the VAPID key or token{hint}{said}")
        if 300 <= status < 400:
            return refused(f"status {status}: redirects are not followed")
        return refused(f"status {status}{said}")


def is_known_service(host: str) -> bool:
    """Return whether a host is a service of one of the large browsers: no user can name a hostile one."""
    return any(host.endswith(name) if name.startswith(".") else host == name for name in _KNOWN)


def takes_quiet_pushes(host: str) -> bool:
    """Return whether quiet pushes may be sent to a host. Safari ends subscriptions after pushes that show nothing."""
    return not host.endswith(_APPLE)


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _encrypt(payload: bytes, address: PushAddress) -> bytes:
    """Return a payload that only the browser can read. Raises ValueError for keys that are not valid."""
    if address.p256dh is None or address.auth is None:
        raise ValueError("no keys")
    content: bytes = http_ece.encrypt(
        payload,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=_decode(address.p256dh),
        auth_secret=_decode(address.auth),
        version="aes128gcm",
    )
    return content


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
