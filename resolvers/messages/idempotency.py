"""Idempotency: the same key with the same input returns the first message, even if its request failed or is running."""

from __future__ import annotations

import asyncio

from resolvers.base.app import Confab
from resolvers.base.errors import IdempotencyConflict, Unavailable
from store.base.ids import MessageId
from store.messages.idempotency_claims import CLAIM_MS, UNKNOWN_EPOCH, Claim
from store.messages.message import Message

_MAX_WAIT_SECONDS = 12.0
"""Longest wait of a request for an earlier one with the same key."""

_MAX_UNRESERVED_WAIT_SECONDS = 3.0
"""Longest wait if the earlier request's message has no place."""

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.25


async def claim_message(app: Confab, message: Message, claim: Claim) -> Message | MessageId:
    """Claim the message's key. Return the id to send the message with, or the durable message sent with the key.

    Waits for an earlier request that is still running. If that one is refused, the next request gets the key. If its
    server died, the next request gets the key and the earlier message's id after a while, so that there is only one
    message even if another server recovers the first.

    Raises IdempotencyConflict if the key was used with another input.
    """
    assert message.key is not None
    loop = asyncio.get_running_loop()
    began = loop.time()
    pause = _FIRST_PAUSE_SECONDS
    while True:
        result = await app.store.claims.claim(message.sender, message.key, claim)
        uses_fallback, existing = result.epoch is None, result.existing
        if not uses_fallback and result.epoch not in (UNKNOWN_EPOCH, app.store.deployment.redis_epoch):
            await app.store.deployment.check_redis()
        if existing is None:
            return await _check_mongo(app, message, claim, uses_fallback=uses_fallback)
        if existing.digest != claim.digest:
            raise _conflict()
        original = await _find_original(app, message, existing)
        if original is not None:
            check_same_input(message, original)
            return original
        waited = loop.time() - began
        is_late = waited > _MAX_UNRESERVED_WAIT_SECONDS and not await _has_place(app, existing)
        if waited > _MAX_WAIT_SECONDS or is_late:
            # The earlier request may have died before it checked MongoDB.
            return await _check_mongo(app, message, existing, uses_fallback=uses_fallback)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def check_same_input(message: Message, original: Message) -> None:
    """Raise IdempotencyConflict if the key of a message was used with another input for a stored message."""
    if original.digest != message.digest:
        raise _conflict()


async def wait_for_duplicate(app: Confab, message: Message) -> Message:
    """Wait until the message is durable, and return it. Another request has reserved its place and sends it.

    Raises Unavailable if that takes too long.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _MAX_WAIT_SECONDS
    while loop.time() < deadline:
        sent = app.delivery.find(message.id)
        if sent is not None:
            return (await asyncio.shield(sent)).message
        found = await app.store.messages.find_in_conversation(message.conversation, message.id)
        if found is not None and found.key == message.key:
            return found
        if found is not None and (owner := await _find_by_key(app, message)) is not None:
            # MongoDB refused the message, because it had another one with the key.
            return owner
        await asyncio.sleep(_LONGEST_PAUSE_SECONDS)
    raise Unavailable("the message is not stored yet; send it again with the same idempotencyKey")


async def _has_place(app: Confab, claim: Claim) -> bool:
    """Return whether the claim's message is in the outbox, so that a server will store it."""
    return await app.store.outbox.contains(claim.conversation, claim.message)


async def _find_original(app: Confab, message: Message, claim: Claim) -> Message | None:
    """Return the message that a key stands for, if it is durable: the claim's, or the owner if that was refused."""
    sent = app.delivery.find(claim.message)
    if sent is not None:
        return (await asyncio.shield(sent)).message
    if claim.seq:
        places = await app.store.messages.find_many([(claim.conversation, claim.seq)])
        found: Message | None = places[claim.conversation, claim.seq]
    else:
        found = await app.store.messages.find_in_conversation(claim.conversation, claim.message)
    if found is not None and found.key != message.key:
        # MongoDB refused the claim's message. Redis has an older claim again if it was restored.
        return await _find_by_key(app, message) or found
    return found


async def _check_mongo(app: Confab, message: Message, claim: Claim, *, uses_fallback: bool) -> Message | MessageId:
    """Look for the key in MongoDB while Redis is unavailable, and for a day after it lost its claims.

    Return the message that was sent with the key; else the id of a claim that was made while Redis was unavailable;
    else the claim's id. Raises IdempotencyConflict if the message was sent with another input.
    """
    store, day_ago = app.store, app.store.clock.now_ms() - CLAIM_MS
    if message.key is None or not (uses_fallback or store.deployment.redis_was_lost_since(day_ago)):
        return claim.message
    original = await _find_by_key(app, message)
    if original is None or original.digest is None:
        if uses_fallback:
            return claim.message
        undelivered = await _find_undelivered(app, message) if store.deployment.may_redis_lag else None
        if undelivered is not None:
            check_same_input(message, undelivered)
            return undelivered.id
        stored = await store.claims.find_in_mongo(message.sender, message.key)
        return stored.message if stored is not None and stored.digest == claim.digest else claim.message
    found = Claim(original.id, original.conversation, original.digest, original.seq)
    await store.claims.replace(message.sender, message.key, found)
    if original.digest != claim.digest:
        raise _conflict()
    return original


async def _find_undelivered(app: Confab, message: Message) -> Message | None:
    """Return the undelivered message in the outbox with the same sender and key as a message.

    If a shard of Redis was lost, it may have had the claim of the key, while the outbox is on another shard. An earlier
    request without an answer may have left its message in the outbox, where any server may deliver it.
    """
    waiting = await app.store.outbox.list_undelivered(message.conversation)
    same = [each for each in waiting if (each.sender, each.key) == (message.sender, message.key)]
    return same[0] if same else None


async def _find_by_key(app: Confab, message: Message) -> Message | None:
    """Return the message that MongoDB has with a message's key, from the last day."""
    if message.key is None:
        return None
    day_ago = app.store.clock.now_ms() - CLAIM_MS
    return await app.store.messages.find_by_key(message.conversation, message.sender, message.key, day_ago)


def _conflict() -> IdempotencyConflict:
    return IdempotencyConflict("this idempotencyKey was used with another input; use a new key", field="idempotencyKey")
