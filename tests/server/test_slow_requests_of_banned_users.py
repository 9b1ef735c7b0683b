"""A request whose body was still on its way when its user was banned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from server.settings import Settings
from tests.server.test_banned_users import admin, code
from tests.server.test_revocation import served, token
from tests.server.tokens import SECRET


async def test_a_body_that_ends_after_the_ban_is_refused(settings_with: Callable[..., Settings]) -> None:
    settings = settings_with(jwt_secret=SECRET)
    send = 'mutation { sendMessage(input: {toUserId: "bob", content: "spam"}) { message { seq } } }'
    is_banned = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        text = json.dumps({"query": send}).encode()
        yield text[:10]
        await is_banned.wait()
        yield text[10:]

    async with served(settings) as server:
        for user in ("alice", "bob"):
            assert await code(server, token(user)) is None
        headers = {"authorization": token("alice"), "content-type": "application/json"}
        slow = asyncio.create_task(server.http.post("/graphql", content=body(), headers=headers))
        # Long enough for the head of the request.
        await asyncio.sleep(0.3)
        assert await code(server, admin(), 'mutation { banUser(userId: "alice") { reason } }') is None
        is_banned.set()
        answer = (await slow).json()
        assert answer["errors"][0]["extensions"]["code"] == "BANNED"
        found = (
            await server.http.post(
                "/graphql",
                json={"query": "{ syncSessions { sessions { unreadCount } } }"},
                headers={"authorization": token("bob")},
            )
        ).json()
        assert found["data"]["syncSessions"]["sessions"] == []
