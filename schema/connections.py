"""The connection itself at the API."""

from __future__ import annotations

import strawberry

from resolvers.users import token_renewal as use_cases
from schema.base.context import Info
from schema.base.scalars import DateTime


@strawberry.type
class ConnectionMutations:
    @strawberry.mutation(
        description="On a WebSocket: replaces the connection's token before it expires, same user (FORBIDDEN else); "
        "subscriptions go on. Answers the new expiry. Over HTTP: INVALID_INPUT."
    )
    async def renew_auth(self, info: Info, token: str) -> DateTime:
        caller = info.context.caller
        assert caller is not None
        return DateTime(await use_cases.renew_auth(caller, info.context.connection, token))
