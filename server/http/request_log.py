"""Gives each request an id, and logs one line when it has been answered."""

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
"""Key of the request id in the ASGI scope."""

STATUS_KEY = "confab.status"
"""Key of the status in the ASGI scope, for responses that are not sent as ASGI messages."""

LOGGED_PATH_KEY = "confab.logged_path"
"""Key in the ASGI scope of the path for the log, if the request's own path has names of files."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")
_HEADER = REQUEST_ID_HEADER.encode()
_WEBHOOK = re.compile(r"(.*?(?:/webhooks/[^/]*(?=/)|h_[0-9]{15,19}+(?!\Z)))/?.*", re.IGNORECASE | re.DOTALL)
"""Path of an incoming webhook. What follows its id is a secret, also if the rest of the path is wrong."""

_QUIET_PATHS = frozenset({"/healthz", "/readyz"})

log = structlog.get_logger(__name__)


def new_request_id() -> str:
    """Return a new unique id."""
    return secrets.token_hex(8)


class RequestLogMiddleware:
    """ASGI middleware that gives each request an id, and logs one line when it has been answered.

    A well-formed x-request-id of the client is kept. Every response has that header, and every log line of the request
    has the id. Values bound to structlog's context during the request (user, operation) are in the line too.
    """

    def __init__(self, app: ASGIApp, new_id: Callable[[], str] = new_request_id) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Log the request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request_id = client_request_id(scope) or self._new_id()
        scope[REQUEST_ID_KEY] = request_id
        bind_contextvars(request_id=request_id)
        try:
            if scope["type"] == "http":
                await self._call_and_log(scope, receive, send, request_id)
            else:
                await self._app(scope, receive, send)
        finally:
            clear_contextvars()

    async def _call_and_log(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        # The client disconnected before a response. Proxies log the same status.
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
                "path": scope.get(LOGGED_PATH_KEY, _without_token(scope["path"])),
                "status": status,
                "duration_ms": round((time.perf_counter() - started) * 1000, 2),
            }
            if scope["path"] in _QUIET_PATHS and status < 400:
                log.debug("request", **line)
            else:
                log.info("request", **line)


def _without_token(path: str) -> str:
    """Return a path without what follows the id of a webhook."""
    found = _WEBHOOK.match(path)
    return f"{found[1]}/…" if found is not None else path


def client_request_id(scope: Scope) -> str | None:
    """Return the x-request-id that the client sent, if it is well-formed."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            request_id = value.decode("latin-1")
            return request_id if _REQUEST_ID.match(request_id) else None
    return None
