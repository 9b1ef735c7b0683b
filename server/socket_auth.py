"""Who opens a WebSocket: the same token as over HTTP, in the payload of connection_init."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from resolvers.callers import Caller
from resolvers.errors import Unauthenticated
from server.auth import bearer_token
from subscriptions.close_codes import FORBIDDEN
from subscriptions.engine import Json
from subscriptions.transport_ws import Authenticate, Authenticated, ConnectionRefusedByAuth


def socket_authenticate(
    authenticate: Callable[[str], Awaitable[Caller]], sign_in: Callable[[Caller], Awaitable[None]]
) -> Authenticate:
    """Judges the payload of a connection_init by its `Authorization` (or `authorization`): "Bearer <token>".

    Without one the connection is nobody's. A token that is refused closes with 4403 and the reason: clients come
    back after that, perhaps with a new token.
    """

    async def judge(payload: Json | None) -> Authenticated:
        header = (payload or {}).get("Authorization", (payload or {}).get("authorization"))
        try:
            if header is not None and not isinstance(header, str):
                raise Unauthenticated("Authorization should be a string: Bearer <token>.")
            token = bearer_token(header)
            if token is None:
                return Authenticated(None)
            await sign_in(await authenticate(token))
            # Signing in may have taken a while, and what is revoked ends none but the connections that are there.
            caller = await authenticate(token)
        except Unauthenticated as refused:
            raise ConnectionRefusedByAuth(FORBIDDEN.because(refused.message)) from refused
        return Authenticated(caller, caller.expires_at, caller.user_id)

    return judge
