"""Renewing the token of a connection that lasts."""

from __future__ import annotations

from resolvers.callers import Caller
from resolvers.errors import Forbidden, InvalidInput, Unauthenticated
from subscriptions.engine import LiveConnection


async def renew_auth(caller: Caller, connection: LiveConnection | None, token: str) -> int:
    """Has a connection go on, with all its subscriptions, on a new token of the same user. Answers when that expires, ms
    since the epoch.

    Raises InvalidInput without a connection, Unauthenticated for a token that is refused, Forbidden for another user's,
    Unavailable while it can't be judged: the connection goes on on the token it has then.
    """
    if connection is None:
        raise InvalidInput("there is a connection to renew over a WebSocket alone: here every request brings its token")
    try:
        renewed = await connection.judge(token)
    except Unauthenticated as refused:
        raise Unauthenticated(refused.message, field="token") from refused
    if not isinstance(renewed, Caller) or renewed.user_id != caller.user_id:
        raise Forbidden("this is another user's token", field="token")
    if not connection.renew(renewed.expires_at, renewed):
        # Requests are granted some seconds past it, connections none.
        raise Unauthenticated("The token has expired.", field="token")
    return int(renewed.expires_at * 1000)
