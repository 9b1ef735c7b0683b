"""`confab revoke`: revokes all tokens of a user."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from server.auth.token_claims import LEEWAY_SECONDS
from server.errors import CommandError
from server.settings import Settings
from store.base.errors import StoreError
from store.base.ids import USER_ID_RULE, UserId, is_user_id
from store.base.repeated_read import CHECK_SECONDS
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.users.revocation_store import RevocationStore
from subscriptions.realtime.revocations import announce_revocations


async def revoke_tokens(settings: Settings, user: str, now: float) -> str:
    """Revoke the tokens of a user that were issued before `now`, in seconds since the epoch.

    All servers refuse these tokens and close their connections. Tokens issued up to LEEWAY_SECONDS later are revoked
    too: the issuer's clock may be that much ahead. Returns the exact time in UTC, as text. Raises CommandError. If
    MongoDB is unreachable, nothing is revoked.
    """
    now += LEEWAY_SECONDS
    if not is_user_id(user):
        raise CommandError(f"A user id is {USER_ID_RULE}.")
    revoked = {UserId(user): math.ceil(now * 1000)}
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    cache = Cache(settings.redis_url, read_scripts, prefix=settings.redis_prefix)
    try:
        await _store(mongo, revoked)
        await _notify_servers(cache, revoked)
    finally:
        await cache.close()
        await mongo.close()
    # A token has the second of its issue only: one issued later in the same second is revoked too.
    return datetime.fromtimestamp(math.ceil(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _store(mongo: Mongo, revoked: dict[UserId, int]) -> None:
    try:
        for user, at_ms in revoked.items():
            await RevocationStore(mongo).revoke(user, at_ms)
    except StoreError as error:
        raise CommandError("Nothing was revoked: MongoDB at CONFAB_MONGO_URL does not answer.") from error


async def _notify_servers(cache: Cache, revoked: dict[UserId, int]) -> None:
    try:
        await announce_revocations(cache, revoked)
    except StoreError as error:
        raise CommandError(
            "The revocation is stored, but Redis at CONFAB_REDIS_URL does not answer. Running servers apply it "
            f"within {CHECK_SECONDS:g} s."
        ) from error
