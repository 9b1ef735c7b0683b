"""Sends the SYSTEM messages that announce changes of channels, as a part of completing these changes."""

from __future__ import annotations

from resolvers.base.app import Confab
from store.base.errors import Unreachable
from store.messages.message import Message, ReservedMessage
from store.messages.outbox_store import ChannelTerms
from store.workspaces.policy import PendingChange, Policy

_ATTEMPTS = 10


async def announce_in_channels(app: Confab, policy: Policy, change: PendingChange) -> None:
    """Send the messages about a change that are not stored yet. It may be called again for the same change.

    Raises StoreError: some may not be stored yet.
    """
    announcements = app.store.channel_announcements
    for message in await announcements.list_waiting(policy.workspace, change.channels):
        if message.conversation in policy.channels:
            await _send(app, message)
        await announcements.remove(policy.workspace, message)


async def _send(app: Confab, message: Message) -> None:
    """Store a message, unless it is stored or has a place. Two servers may send it: it is stored once."""
    store, channel = app.store, message.conversation
    if await store.outbox.contains(channel, message.id):
        # A housekeeper finishes it.
        return
    if await store.messages.find_in_conversation(channel, message.id) is not None:
        return
    for _ in range(_ATTEMPTS):
        place = await store.outbox.reserve_in_channel(message, ChannelTerms())
        if isinstance(place, ReservedMessage):
            await app.delivery.send(place)
            return
        if not await store.conversations.load((channel,), with_members=False):
            return
    raise Unreachable("a message about a channel got no place")
