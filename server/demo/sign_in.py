"""Sign-in as a demo user with one click, in development only (ADR 28)."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from resolvers.users.callers import CallerRole
from server.auth.authenticator import issue_token
from server.demo.world import DEMO_PEOPLE
from server.settings import DEVELOPMENT_SECRET, Settings

PEOPLE_PATH = "/dev/people"
SIGN_IN_PATH = "/dev/sign-in"
TOKEN_SECONDS = 3600.0
"""Short, so that clients in development experience an expiring token."""

_NO_STORE = {"cache-control": "no-store"}


def issues_tokens(settings: Settings) -> bool:
    """Return whether tokens are signed with the public development secret, so that everybody could sign them."""
    secret = settings.jwt_secret
    return settings.development and secret is not None and secret.get_secret_value() == DEVELOPMENT_SECRET


def sign_in_routes(settings: Settings) -> list[Route]:
    """Return the routes GET /dev/people, which lists users, and POST /dev/sign-in, which returns a token.

    The body of the second is {"userId": …}, with "role": "service" or "admin" for a token of that role.
    """
    names = {str(person.id): person.name or person.id for person in DEMO_PEOPLE}

    async def people(_request: Request) -> Response:
        return JSONResponse([{"id": user, "displayName": name} for user, name in names.items()], headers=_NO_STORE)

    async def sign_in(request: Request) -> Response:
        # HTML forms of other sites cannot send this content type.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return JSONResponse({"error": "Send the body as application/json."}, 415, headers=_NO_STORE)
        try:
            body = await request.json()
            user, role = body["userId"], body.get("role", CallerRole.USER)
        except (ValueError, TypeError, KeyError, RecursionError):
            user, role = None, CallerRole.USER
        if not isinstance(user, str) or user not in names:
            return JSONResponse({"error": f"userId should be one of {', '.join(names)}."}, 400, headers=_NO_STORE)
        if not isinstance(role, str) or role not in list(CallerRole):
            return JSONResponse({"error": f"role should be one of {', '.join(CallerRole)}."}, 400, headers=_NO_STORE)
        token = issue_token(settings, user, CallerRole(role), names[user], TOKEN_SECONDS)
        answer = {"token": token, "userId": user, "expiresAt": int((time.time() + TOKEN_SECONDS) * 1000)}
        return JSONResponse(answer, headers=_NO_STORE)

    return [Route(PEOPLE_PATH, people), Route(SIGN_IN_PATH, sign_in, methods=["POST"])]
