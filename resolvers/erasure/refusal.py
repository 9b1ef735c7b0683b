"""Refuses a user who is being erased, on all servers."""

from __future__ import annotations

from contextlib import suppress

from resolvers.base.app import Confab
from store.base.errors import StoreError
from store.base.ids import UserId
from subscriptions.realtime.revocations import announce_revocations


async def refuse_user(app: Confab, user: UserId) -> None:
    """Refuse a user for the next hour: tokens, acting for them, and writing to them. Their profile is removed.

    Connections end. Servers that miss the notice apply it within 30 s. Raises Unreachable.
    """
    refused = await app.store.erased_users.refuse(user)
    app.revocations.add(refused)
    await app.store.users.remove(user)
    with suppress(StoreError):
        await announce_revocations(app.store.cache, refused)
        await app.bus.announce_users([user])
