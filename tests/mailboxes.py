"""Reading a mailbox of the hub."""

from __future__ import annotations

import asyncio

from subscriptions.realtime.mailboxes import Item, Mailbox


async def next_item(mailbox: Mailbox) -> Item:
    """The next item, once there is one."""
    ready = asyncio.Event()
    mailbox.on_ready(ready.set)
    while (item := mailbox.take()) is None:
        await ready.wait()
        ready.clear()
    return item
