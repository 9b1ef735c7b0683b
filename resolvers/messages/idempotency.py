"""The same key with the same input answers the first message, whatever happened to the first request."""

from __future__ import annotations

import asyncio

from resolvers.base.app import Confab
from resolvers.base.errors import IdempotencyConflict, Unavailable
from store.base.ids import MessageId
from store.messages.idempotency_claims import CLAIM_MS, Claim
from store.messages.records import Message

_PATIENCE_SECONDS = 12.0
_BRIEF_SECONDS = 3.0
_LONGEST_PAUSE_SECONDS = 0.25


async def claim_message(app: Confab, message: Message, claim: Claim) -> Message | MessageId:
    """The id to send the message with, as its key is its own; or the durable message that the key stands for.

    Raises IdempotencyConflict where it stands for another input. Waits for a first request that is still under way: one
    that is refused leaves the key to the next in line; one that died leaves its message's id too, after a while, so that
    there is one message should somebody take the first one over.
    """
    assert message.key is not None
    loop = asyncio.get_running_loop()
    began = loop.time()
    pause = 0.01
    while True:
        taken = await app.store.claims.take(message.sender, message.key, claim)
        if taken.epoch not in (None, app.store.deployment.redis_epoch):
            await app.store.deployment.check_redis()
        if taken.held is None:
            return await _find_forgotten(app, message, claim, uses_fallback=taken.epoch is None)
        if taken.held.digest != claim.digest:
            raise _conflict()
        original = await _find_original(app, taken.held)
        if original is not None:
            return original
        waited = loop.time() - began
        if waited > _PATIENCE_SECONDS or (waited > _BRIEF_SECONDS and not await _is_under_way(app, taken.held)):
            # It may have died before it asked what the key stood for.
            return await _find_forgotten(app, message, taken.held, uses_fallback=taken.epoch is None)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


async def await_twin(app: Confab, message: Message) -> Message:
    """The message once it is durable, by another request that got a place for it. Raises Unavailable where that takes long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_SECONDS
    while loop.time() < deadline:
        under_way = app.delivery.find(message.id)
        if under_way is not None:
            return (await asyncio.shield(under_way)).message
        found = await app.store.messages.find_in(message.conversation, message.id)
        if found is not None:
            return found
        await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
    raise Unavailable("the message is not stored yet; the same key tells when it is")


async def _is_under_way(app: Confab, held: Claim) -> bool:
    """Whether the first message has a place, so that some server is going to store it."""
    return await app.store.messages.is_in_outbox(held.conversation, held.message)


async def _find_original(app: Confab, held: Claim) -> Message | None:
    """The message a key stands for, if it is durable by now."""
    under_way = app.delivery.find(held.message)
    if under_way is not None:
        return (await asyncio.shield(under_way)).message
    if held.seq:
        places = await app.store.messages.find_many([(held.conversation, held.seq)])
        return places[held.conversation, held.seq]
    return await app.store.messages.find_in(held.conversation, held.message)


async def _find_forgotten(app: Confab, message: Message, claim: Claim, *, uses_fallback: bool) -> Message | MessageId:
    """While Redis is away, and for a day after it lost the claims: the message that MongoDB holds under the same sender's key, or else
    the id that one under way has. Otherwise, the claim's id.

    Raises IdempotencyConflict where that came from another input.
    """
    store, day_ago = app.store, app.store.clock.now_ms() - CLAIM_MS
    if message.key is None or not (uses_fallback or store.deployment.redis_lost_at_ms >= day_ago):
        return claim.message
    original = await store.messages.find_by_key(message.conversation, message.sender, message.key, day_ago)
    if original is None or original.digest is None:
        kept = None if uses_fallback else await store.claims.find_kept(message.sender, message.key)
        return kept.message if kept is not None and kept.digest == claim.digest else claim.message
    found = Claim(original.id, original.conversation, original.digest, original.seq)
    await store.claims.keep(message.sender, message.key, found)
    if original.digest != claim.digest:
        raise _conflict()
    return original


def _conflict() -> IdempotencyConflict:
    return IdempotencyConflict("this idempotencyKey stands for another message", field="idempotencyKey")
