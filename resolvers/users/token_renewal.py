"""Renewing the token of a connection that lasts."""

from __future__ import annotations

from resolvers.base.errors import Forbidden, InvalidInput, Unauthenticated
from resolvers.users.callers import Caller
from subscriptions.transport.engine import LiveConnection


async def renew_auth(caller: Caller, connection: LiveConnection | None, token: str) -> int:
    """Has a connection go on, with all its subscriptions, on a new token of the same user. Of several that are asked for at
    once the last one counts, whichever is judged first. Answers when the token in force expires, ms since the epoch.

    Raises InvalidInput without a connection, Unauthenticated for a token that is refused, Forbidden for another user's,
    Unavailable while it can't be judged: the connection goes on on the token it has then.
    """
    if connection is None:
        raise InvalidInput("there is a connection to renew over a WebSocket alone: here every request brings its token")
    asked = connection.next_renewal_number()
    try:
        renewed = await connection.authenticate_token(token)
    except Unauthenticated as refused:
        raise Unauthenticated(refused.message, field="token") from refused
    if not isinstance(renewed, Caller) or renewed.user_id != caller.user_id:
        raise Forbidden("this is another user's token", field="token")
    if not connection.renew(renewed.expires_at, renewed, asked):
        # Requests are granted some seconds past it, connections none.
        raise Unauthenticated("The token has expired.", field="token")
    # Another's, where one was asked for later and is in force already.
    in_force = connection.caller
    return int((in_force if isinstance(in_force, Caller) else renewed).expires_at * 1000)
