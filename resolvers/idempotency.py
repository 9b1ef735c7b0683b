"""The same key with the same input answers the first message, whatever happened to the first request."""

from __future__ import annotations

import asyncio

from resolvers.app import Confab
from resolvers.errors import IdempotencyConflict
from store.claims import CLAIM_MS, Claim
from store.ids import UserId
from store.records import Message

_PATIENCE_SECONDS = 12.0
_LONGEST_PAUSE_SECONDS = 0.25


async def claim_message(app: Confab, message: Message, claim: Claim) -> Message | None:
    """None: the message's key is its own, go on; else the durable message that the key stands for.

    Raises IdempotencyConflict where it stands for another input. Waits for a first request that is still under way.
    """
    assert message.key is not None
    held = await app.store.claims.take(message.sender, message.key, claim)
    if held is None:
        return await find_original(app, message)
    if held.digest != claim.digest:
        raise _conflict()
    return await _await_original(app, message.sender, message.key, held)


async def find_original(app: Confab, message: Message) -> Message | None:
    """For a day after Redis lost the claims: the message that MongoDB holds under the same sender's key.

    Raises IdempotencyConflict where that came from another input.
    """
    store, day_ago = app.store, app.store.clock.now_ms() - CLAIM_MS
    if message.key is None or store.deployment.redis_lost_at_ms < day_ago:
        return None
    original = await store.messages.find_by_key(message.sender, message.key, day_ago)
    if original is None or original.digest is None:
        return None
    found = Claim(original.id, original.conversation, original.digest, original.seq)
    await store.cache.one(store.claims.settle(message.sender, message.key, found))
    if original.digest != message.digest:
        raise _conflict()
    return original


def _conflict() -> IdempotencyConflict:
    return IdempotencyConflict("this idempotencyKey stands for another message", field="idempotencyKey")


async def _await_original(app: Confab, sender: UserId, key: str, held: Claim) -> Message | None:
    """The first request's message, once it is durable. None where that request died before it stored anything."""
    under_way = app.delivery.find(held.message)
    if under_way is not None:
        return (await asyncio.shield(under_way)).message
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    pause = 0.01
    while True:
        if held.seq:
            places = await app.store.messages.find_many([(held.conversation, held.seq)])
            return places[held.conversation, held.seq]
        stored = (await app.store.messages.find_by_ids([held.message])).get(held.message)
        if stored is not None:
            return stored
        if loop.time() > deadline:
            return None
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        held = await app.store.claims.take(sender, key, held) or held
