"""A program that answers "ping", and goes on where it was when it starts again."""

from __future__ import annotations

from collections.abc import Callable

from gql_client import Confab, Token


async def main(url: str, token: Token, since: str | None, remember: Callable[[str], None]) -> None:
    """remember(cursor) keeps what `since` is the next time."""
    async with Confab(url, token) as confab:
        async for event in confab.events(since):
            if event["__typename"] == "MessageCreated" and event["message"]["content"] == "ping":
                message = event["message"]
                # The same key should it see this message again: one answer, whatever happens in between.
                await confab.send(
                    conversationId=message["conversationId"], content="pong", idempotencyKey=f"pong to {message['id']}"
                )
            if "cursor" in event:
                remember(event["cursor"])
