"""Lets pages of all origins send and read files.

The signature of an address is the permission, and no cookies are read. So the origins that may call the API
(`CONFAB_CORS_ORIGINS`) do not matter here: the endpoints of files answer preflight requests themselves.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from resolvers.base.file_addresses import FILES_PATH, PICTURES_PATH
from resolvers.webhooks.incoming.managing import WEBHOOKS_PATH

_OTHER_PATHS = (f"{FILES_PATH}/", f"{PICTURES_PATH}/", f"{WEBHOOKS_PATH}/")

_PREFLIGHT = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "PUT, OPTIONS",
    "access-control-allow-headers": "*",
    "access-control-max-age": "600",
}


class ApiCors(CORSMiddleware):
    """Answers preflight requests, and lets allowed origins read answers. Leaves files and webhooks as they are.

    Programs call webhooks. Pages have no need to call them or to read their answers.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight request, or pass the request on."""
        if scope.get("path", "").startswith(_OTHER_PATHS):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class AllowAllOrigins:
    """ASGI middleware for an endpoint that answers PUT."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight request, or pass the request on."""
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send)
            return

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["access-control-allow-origin"] = "*"
            await send(message)

        await self._app(scope, receive, send_with_header)
