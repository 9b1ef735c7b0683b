"""Liveness and readiness endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[Mapping[str, str | None]]]
"""Returns each dependency by name: None if it is ready, otherwise a short reason."""

READINESS_STATE = "confab.readiness"
"""Key of the readiness check in the lifespan state, where a worker process finds it."""

CHECK_TIMEOUT_SECONDS = 5.0
"""Time after which a check without a result has failed."""

_HEADERS = {"cache-control": "no-store"}


def health_routes(check: Check) -> list[Route]:
    """Return the routes /healthz, /readyz and /.

    /healthz answers 200 while the process answers at all. /readyz answers 503 with the reasons while a dependency is
    not ready. / redirects to the API.
    """

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=_HEADERS)

    async def readyz(_request: Request) -> Response:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
                checks = await check()
        except TimeoutError:
            checks = {"check": f"no answer within {CHECK_TIMEOUT_SECONDS:g} s"}
        except Exception:
            log.exception("readiness_check_failed")
            checks = {"check": "failed, see the log"}
        ready = not any(checks.values())
        body = {
            "status": "ready" if ready else "unready",
            "checks": {name: reason or "ok" for name, reason in checks.items()},
        }
        return JSONResponse(body, 200 if ready else 503, headers=_HEADERS)

    async def root(_request: Request) -> Response:
        return RedirectResponse("/graphql", headers=_HEADERS)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/", root)]
