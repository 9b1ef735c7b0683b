"""Which pages in a browser may call the API, and by which names it may be called (ADR 24).

A browser says of every WebSocket, and of every request but plain GET, which page opened it: `Origin`. Programs that are no browsers
send none, and are not asked for one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http.request import MediaType
from server.http.response import ResponseFormat
from subscriptions.transport.engine import error

log = structlog.get_logger(__name__)

_FOREIGN = "Pages of this origin may not call this server: CONFAB_CORS_ORIGINS names those that may."
_MISCALLED = "This server is not to be called by this name: CONFAB_ALLOWED_HOSTS names those that do."
_USUAL_PORTS = {b"http": b":80", b"https": b":443"}
_NO_CLOSE_CODE = {"type": "websocket.close"}
"""Before the socket is accepted: the handshake is answered with 403."""


class OriginGuard:
    """An ASGI application in front of another one, which is spared what comes from foreign pages: 403.

    A page is foreign whose origin is neither the server's own, by the name it is called by, nor among `origins`. With `hosts` the server
    answers to these names alone, to localhost, and to addresses: a page whose own name was made to lead here is foreign too.
    """

    def __init__(self, app: ASGIApp, origins: Iterable[str], hosts: Iterable[str] | None = None) -> None:
        self._app = app
        self._origins = {origin.lower().encode() for origin in origins}
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        # A browser shows its page nothing of the answer.
        log.info("refused", reason=refusal, origin=_header(scope, b"origin"), host=_header(scope, b"host"))
        if scope["type"] == "websocket":
            await send(_NO_CLOSE_CODE)
        else:
            body = {"errors": [error(refusal, "FORBIDDEN")]}
            await ResponseFormat.of(MediaType.JSON).answer(body, 403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        host, origins = b"", []
        for name, value in scope["headers"]:
            if name == b"origin":
                origins.append(value.lower())
            elif name == b"host":
                host = value.lower()
        if self._hosts is not None and not _is_called(host.decode("latin-1"), self._hosts):
            return _MISCALLED
        for origin in origins:
            if not _is_own(origin, host) and origin not in self._origins:
                return _FOREIGN
        return None


def _header(scope: Scope, wanted: bytes) -> str | None:
    """What it says, as far as that fits into a log."""
    return next((value[:256].decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


def _is_own(origin: bytes, host: bytes) -> bool:
    scheme, _, authority = origin.partition(b"://")
    if scheme not in _USUAL_PORTS or not host:
        return False
    # Browsers leave it out of both; a proxy may have written it into Host.
    usual = _USUAL_PORTS[scheme]
    return authority.removesuffix(usual) == host.removesuffix(usual)


def _is_called(host: str, names: set[str]) -> bool:
    name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name in names or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
