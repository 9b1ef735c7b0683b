"""`confab revoke`: ends all that a user's tokens were good for until now."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from server.errors import CommandError
from server.settings import Settings
from store.base.errors import StoreError
from store.base.ids import UserId, is_user_id
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.users.revocation_store import RevocationStore
from subscriptions.realtime.revocations import CHECK_SECONDS, announce_revocations


async def revoke_tokens(settings: Settings, user: str, now: float) -> str:
    """Has every server refuse the tokens of a user that were issued before `now` (seconds since the epoch), and end what
    lasts on them. Answers until when they must have been issued, for the person at the terminal.

    Raises CommandError: where MongoDB can't be reached, nothing was revoked.
    """
    if not is_user_id(user):
        raise CommandError("A user id is 1 to 64 letters, digits, '.', '@' or '-', a letter or digit first.")
    revoked = {UserId(user): math.ceil(now * 1000)}
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    cache = Cache(settings.redis_url, prefix=settings.redis_prefix)
    try:
        await _keep(mongo, revoked)
        await _tell(cache, revoked)
    finally:
        await cache.close()
        await mongo.close()
    # A token tells its second, no more: one that is issued later in this very second looks older than the revocation.
    return datetime.fromtimestamp(math.ceil(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _keep(mongo: Mongo, revoked: dict[UserId, int]) -> None:
    try:
        for user, at_ms in revoked.items():
            await RevocationStore(mongo).revoke(user, at_ms)
    except StoreError as error:
        raise CommandError("Nothing was revoked: MongoDB, at CONFAB_MONGO_URL, does not answer.") from error


async def _tell(cache: Cache, revoked: dict[UserId, int]) -> None:
    try:
        await announce_revocations(cache, revoked)
    except StoreError as error:
        raise CommandError(
            "It is kept, but Redis, at CONFAB_REDIS_URL, does not answer: servers that run will notice by themselves "
            f"within {CHECK_SECONDS:g} s."
        ) from error
