"""Queries of push notifications."""

from __future__ import annotations

import strawberry

from schema.base.context import Info


@strawberry.type
class PushQueries:
    @strawberry.field(
        description="applicationServerKey for PushManager.subscribe, in base64url. Null: there is no Web Push here."
    )
    async def web_push_public_key(self, info: Info) -> str | None:
        # Only callers with a token.
        _ = info.context.viewer
        return info.context.app.web_push_public_key
