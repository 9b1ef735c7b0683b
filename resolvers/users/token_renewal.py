"""Renewal of a connection's token."""

from __future__ import annotations

from resolvers.base.errors import Forbidden, InvalidInput, Unauthenticated
from resolvers.users.callers import Caller
from subscriptions.transport.engine import LiveConnection


async def renew_auth(caller: Caller, connection: LiveConnection | None, token: str) -> int:
    """Let a connection continue, with all its subscriptions, on a new token of the same user.

    Of several concurrent renewals the one requested last counts. Return when the token in force expires, in ms since
    the epoch. After an error the connection continues on its old token.

    Raises:
        InvalidInput: There is no connection.
        Unauthenticated: The token is refused.
        Forbidden: It is another user's token.
        Unavailable: The token can't be judged now.
    """
    if connection is None:
        raise InvalidInput("renewAuth needs a WebSocket; send a new token with each HTTP request instead")
    asked = connection.next_renewal_number()
    try:
        renewed = await connection.authenticate_token(token)
    except Unauthenticated as refused:
        raise Unauthenticated(refused.message, field="token") from refused
    if not isinstance(renewed, Caller) or renewed.user_id != caller.user_id:
        raise Forbidden("this token is another user's; send one of the connection's user", field="token")
    if not connection.renew(renewed.expires_at, renewed, asked):
        # A request may be a few seconds late, a connection may not.
        raise Unauthenticated("The token has expired.", field="token")
    # A renewal that was requested later may be in force already.
    in_force = connection.caller
    return int((in_force if isinstance(in_force, Caller) else renewed).expires_at * 1000)
