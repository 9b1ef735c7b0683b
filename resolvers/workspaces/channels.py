"""Channels as a viewer sees them."""

from __future__ import annotations

from resolvers.base.app import Confab
from store.channels.channel_rights import ChannelRights


async def find_write_time(app: Confab, rights: ChannelRights) -> int | None:
    """Return the time (ms) from which a user may write again in a channel with slow mode. None: now."""
    if not rights.slow_mode_ms:
        return None
    last_sent_ms = await app.store.outbox.find_last_sent(rights.channel.id, rights.facts.user)
    if last_sent_ms is None or last_sent_ms + rights.slow_mode_ms <= app.store.clock.now_ms():
        return None
    return last_sent_ms + rights.slow_mode_ms
