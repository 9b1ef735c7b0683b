"""Every request's id, and the one line in the log that it leaves."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, clear_contextvars

REQUEST_ID_HEADER = "x-request-id"
REQUEST_ID_KEY = "confab.request_id"
"""Where the ASGI scope holds the request's id."""

STATUS_KEY = "confab.status"
"""Where the scope holds the status of an answer that did not go by way of ASGI's messages."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")
_HEADER = REQUEST_ID_HEADER.encode()
_QUIET_PATHS = frozenset({"/healthz", "/readyz"})

log = structlog.get_logger(__name__)


def new_request_id() -> str:
    """An id no other request has."""
    return secrets.token_hex(8)


class RequestLogMiddleware:
    """ASGI middleware: gives each request its id and writes one line when it has been answered.

    A well-formed x-request-id of the client's is kept, and every answer carries one. Everything logged meanwhile
    carries it too. What is bound to structlog's context while answering (user, operation) is in the line.
    """

    def __init__(self, app: ASGIApp, new_id: Callable[[], str] = new_request_id) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = offered_id(scope) or self._new_id()
        scope[REQUEST_ID_KEY] = request_id
        bind_contextvars(request_id=request_id)
        try:
            if scope["type"] == "http":
                await self._answer(scope, receive, send, request_id)
            else:
                await self._app(scope, receive, send)
        finally:
            clear_contextvars()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        # As proxies log it: the client went away, nothing was answered.
        status = 499
        started = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            status = 500
            raise
        finally:
            status = scope.get(STATUS_KEY, status)
            line = {
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "duration_ms": round((time.perf_counter() - started) * 1000, 2),
            }
            if scope["path"] in _QUIET_PATHS and status < 400:
                log.debug("request", **line)
            else:
                log.info("request", **line)


def offered_id(scope: Scope) -> str | None:
    """The client's own id for its request, if it sent a well-formed one."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            offered = value.decode("latin-1")
            return offered if _REQUEST_ID.match(offered) else None
    return None
