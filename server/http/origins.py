"""Checks which web pages call the API, and under which host name (ADR 24).

Browsers send the header `Origin` with every WebSocket handshake and with every request except plain GET. Other programs
do not send it, and are not required to.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http.request import MediaType
from server.http.response import ResponseFormat
from subscriptions.transport.engine import make_error

log = structlog.get_logger(__name__)

_ORIGIN_REFUSED = "Pages of this origin may not call this server. Add the origin to CONFAB_CORS_ORIGINS."
_HOST_REFUSED = "This server does not answer to this host name. Add the name to CONFAB_ALLOWED_HOSTS."
_DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}
_REFUSE_HANDSHAKE = {"type": "websocket.close"}
"""Closing a WebSocket before accepting it makes the server answer the handshake with 403."""


class OriginGuard:
    """ASGI middleware that answers requests of foreign pages with 403.

    A page is foreign if its origin is neither the server's own, according to the Host header, nor in `origins`. With
    `hosts`, the server answers only to these names, to localhost and to IP addresses. This also refuses pages whose own
    host name was made to resolve to this server (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, origins: Iterable[str], hosts: Iterable[str] | None = None) -> None:
        self._app = app
        self._origins = {origin.lower().encode() for origin in origins}
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        # Browsers hide the response from the page, so the reason is logged.
        log.info("origin_refused", reason=refusal, origin=_header(scope, b"origin"), host=_header(scope, b"host"))
        if scope["type"] == "websocket":
            await send(_REFUSE_HANDSHAKE)
        else:
            body = {"errors": [make_error(refusal, "FORBIDDEN")]}
            await ResponseFormat.of(MediaType.JSON).respond(body, 403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        host, origins = b"", []
        for name, value in scope["headers"]:
            if name == b"origin":
                origins.append(value.lower())
            elif name == b"host":
                host = value.lower()
        if self._hosts is not None and not _is_allowed_host(host.decode("latin-1"), self._hosts):
            return _HOST_REFUSED
        for origin in origins:
            if not _is_own(origin, host) and origin not in self._origins:
                return _ORIGIN_REFUSED
        return None


def _header(scope: Scope, wanted: bytes) -> str | None:
    """Return the header's value, cut to 256 bytes for the log."""
    return next((value[:256].decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


def _is_own(origin: bytes, host: bytes) -> bool:
    scheme, _, authority = origin.partition(b"://")
    if scheme not in _DEFAULT_PORTS or not host:
        return False
    # Browsers omit the default port in both headers, but a proxy may have added it to Host.
    default_port = _DEFAULT_PORTS[scheme]
    return authority.removesuffix(default_port) == host.removesuffix(default_port)


def _is_allowed_host(host: str, names: set[str]) -> bool:
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
