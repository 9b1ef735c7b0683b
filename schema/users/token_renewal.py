"""The mutation that gives a WebSocket a new token."""

from __future__ import annotations

import strawberry

from resolvers.users import token_renewal
from schema.base.context import Info
from schema.base.scalars import DateTime


@strawberry.type
class ConnectionMutations:
    @strawberry.mutation(
        description="On a WebSocket: replaces the connection's token before it expires (same user, else FORBIDDEN); "
        "subscriptions continue. Answers the new expiry. Over HTTP: INVALID_INPUT."
    )
    async def renew_auth(self, info: Info, token: str) -> DateTime:
        caller = info.context.caller
        assert caller is not None
        return DateTime(await token_renewal.renew_auth(caller, info.context.connection, token))
