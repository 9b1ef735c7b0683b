"""Counts the answers of an endpoint by status."""

from __future__ import annotations

from collections import Counter

from starlette.types import Message, Send


def counting(send: Send, statuses: Counter[int]) -> Send:
    """Return a `send` that adds the status of the response to `statuses` when the response begins."""

    async def send_counted(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses[message["status"]] += 1
        await send(message)

    return send_counted
