"""Renewal of a connection's token."""

from __future__ import annotations

from resolvers.base.errors import Forbidden, InvalidInput, Unauthenticated
from resolvers.users.callers import Caller, act_as
from subscriptions.transport.engine import LiveConnection


async def renew_auth(caller: Caller, connection: LiveConnection | None, token: str) -> int:
    """Give a connection a new token of the same user. All its subscriptions continue.

    A connection that acts for a user needs a token of the same service or admin, and continues to act for the user.

    Of several concurrent renewals the one requested last counts. Return the time at which the connection's token
    expires, in ms since the epoch. After an error the connection keeps its old token.

    Raises:
        InvalidInput: There is no connection.
        Unauthenticated: The token is refused.
        Forbidden: It is another user's token, or it no longer has the role to act for users.
        Unavailable: The token can't be checked now.
    """
    if connection is None:
        raise InvalidInput("renewAuth needs a WebSocket; send a new token with each HTTP request instead")
    number = connection.next_renewal_number()
    try:
        renewed = await connection.authenticate_token(token)
    except Unauthenticated as refused:
        raise Unauthenticated(refused.message, field="token") from refused
    if not isinstance(renewed, Caller) or renewed.user_id != caller.token_user:
        raise Forbidden("this token belongs to another user; send a token of the connection's user", field="token")
    if caller.acted_by is not None:
        renewed = act_as(renewed, caller.user_id, "token")
    if not connection.renew(renewed.expires_at, renewed, number):
        # The authenticator accepts a token a few seconds after its expiry; a connection does not.
        raise Unauthenticated("The token has expired.", field="token")
    # A renewal that was requested later may have been applied already.
    current = connection.caller
    return int((current if isinstance(current, Caller) else renewed).expires_at * 1000)
