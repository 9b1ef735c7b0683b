"""Whether the process lives, and whether it should be sent requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[Mapping[str, str | None]]]
"""Each dependency by name: None where it can be reached, else the reason in a few words."""

PATIENCE = 5.0
"""Seconds after which a check that gave no answer counts as failed."""

_HEADERS = {"cache-control": "no-store"}


def health_routes(check: Check) -> list[Route]:
    """/healthz answers 200 while the process can answer at all. /readyz answers 503, with the reasons, while
    something it depends on cannot be reached. / leads to the API."""

    async def healthz(_request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=_HEADERS)

    async def readyz(_request: Request) -> Response:
        try:
            async with asyncio.timeout(PATIENCE):
                found = await check()
        except TimeoutError:
            found = {"check": f"no answer within {PATIENCE:g} s"}
        except Exception:
            log.exception("readiness_check_failed")
            found = {"check": "failed, see the log"}
        ready = not any(found.values())
        body = {
            "status": "ready" if ready else "unready",
            "checks": {name: reason or "ok" for name, reason in found.items()},
        }
        return JSONResponse(body, 200 if ready else 503, headers=_HEADERS)

    async def root(_request: Request) -> Response:
        return RedirectResponse("/graphql", headers=_HEADERS)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/", root)]
