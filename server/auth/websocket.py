"""Who opens a WebSocket: the same token as over HTTP, in the payload of connection_init."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from resolvers.base.errors import RateLimited, Unauthenticated, Unavailable
from resolvers.users.callers import Caller
from server.auth.authenticator import bearer_token
from server.overload.load_shedding import LoadShedding
from subscriptions.transport.close_codes import FORBIDDEN, TRY_AGAIN_LATER
from subscriptions.transport.engine import Json
from subscriptions.transport.websocket import Authenticate, Authenticated, ConnectionRefusedByAuth

OVERLOADED = TRY_AGAIN_LATER.because("Try again later: overloaded")


def socket_authenticate(
    authenticate: Callable[[str], Awaitable[Caller]],
    sign_in: Callable[[Caller], Awaitable[None]],
    shedding: LoadShedding,
    count: Callable[[Caller], None] = lambda caller: None,
) -> Authenticate:
    """Judges the payload of a connection_init by its `Authorization` (or `authorization`): "Bearer <token>".

    Without one the connection is nobody's. A token that is refused closes with 4403 and the reason: clients come
    back after that, perhaps with a new token. Counts as an operation: one too many closes with 1013, and so does one that can't be judged at the moment. `count` raises RateLimited
    for users who open too many: 1013, with when to come back.
    """

    async def judge(payload: Json | None) -> Authenticated:
        header = (payload or {}).get("Authorization", (payload or {}).get("authorization"))
        try:
            if header is not None and not isinstance(header, str):
                raise Unauthenticated("Authorization should be a string: Bearer <token>.")
            token = bearer_token(header)
            if token is None:
                return Authenticated(None)
            if not shedding.enter():
                shedding.shed.connections += 1
                raise ConnectionRefusedByAuth(OVERLOADED)
            try:
                caller = await authenticate(token)
                count(caller)
                await sign_in(caller)
                # Signing in may have taken a while, and what is revoked ends none but the connections that are there.
                caller = await authenticate(token)
            finally:
                shedding.leave()
        except Unauthenticated as refused:
            raise ConnectionRefusedByAuth(FORBIDDEN.because(refused.message)) from refused
        except Unavailable as away:
            raise ConnectionRefusedByAuth(TRY_AGAIN_LATER) from away
        except RateLimited as often:
            later = f"Try again later: too many connections were opened; retry in {often.retry_after_ms} ms"
            raise ConnectionRefusedByAuth(TRY_AGAIN_LATER.because(later)) from often
        return Authenticated(caller, caller.expires_at, caller.user_id)

    return judge
