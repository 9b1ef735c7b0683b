"""A bot that answers "ping", and resumes where it was after a restart."""

from __future__ import annotations

from collections.abc import Callable

from gql_client import Confab, Token


async def main(url: str, token: Token, since: str | None, remember: Callable[[str], None]) -> None:
    """Run the bot. remember(cursor) stores the value of `since` for the next start."""
    async with Confab(url, token) as confab:
        async for event in confab.events(since):
            if event["__typename"] == "MessageCreated" and event["message"]["content"] == "ping":
                message = event["message"]
                # The same key if it sees this message again: one answer in any case.
                await confab.send(
                    conversationId=message["conversationId"], content="pong", idempotencyKey=f"pong to {message['id']}"
                )
            if "cursor" in event:
                remember(event["cursor"])
