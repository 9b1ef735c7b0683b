"""Reads mailboxes of the hub."""

from __future__ import annotations

import asyncio

from subscriptions.realtime.mailboxes import Item, Mailbox


async def next_item(mailbox: Mailbox) -> Item:
    """Wait for the next item, and return it."""
    ready = asyncio.Event()
    mailbox.on_ready(ready.set)
    while (item := mailbox.take()) is None:
        await ready.wait()
        ready.clear()
    return item
