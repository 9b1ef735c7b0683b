"""A bot that answers "ping", and resumes where it was after a restart.

Use: TOKEN=… python bot.py http://127.0.0.1:8000/graphql
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from gql_client import Confab, Token


async def main(url: str, token: Token, since: str | None, remember: Callable[[str], object]) -> None:
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


async def token() -> str:
    """Return the bot's token, which is valid for a year."""
    return os.environ["TOKEN"]


if __name__ == "__main__":
    position = Path("bot.cursor")
    last = position.read_text() if position.exists() else None
    asyncio.run(main(sys.argv[1], token, last, position.write_text))
