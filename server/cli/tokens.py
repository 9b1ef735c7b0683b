"""`confab token`: signs tokens, and makes users bots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from resolvers.users.callers import CallerRole
from server.auth.authenticator import issue_token
from server.cli.databases import urls_of_running_dev
from server.cli.dev import development_settings
from server.errors import CommandError
from server.settings import Settings, load_settings
from store.base.errors import StoreError
from store.base.ids import UserId
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts
from store.users.user_store import UserStore
from subscriptions.realtime.bus import announce_users

DAY_SECONDS = 86_400.0
YEAR_SECONDS = 365 * DAY_SECONDS
"""A bot has nobody who signs in again. `confab revoke` ends its token earlier."""


def make_token(
    user: str,
    role: CallerRole,
    name: str | None,
    ttl_seconds: float,
    report: Callable[[str], None],
    *,
    bot_data_dir: Path | None = None,
) -> str:
    """Return a token.

    report: for notes. bot_data_dir: make the user a bot, in the databases of the settings, or else those of the `confab
    dev` on this folder. Raises CommandError and InvalidInput: nothing was changed, unless the message says so.
    """
    settings = load_settings()
    if settings.jwks_url is not None or settings.jwks_file is not None:
        raise CommandError(
            "Tokens are checked with a JWK set: get a token from the owner of its private key. To make a user a bot, "
            "call upsertUsers with isBot: true."
        )
    signed = issue_token(settings if settings.jwt_secret else development_settings(), user, role, name, ttl_seconds)
    if bot_data_dir is not None:
        _make_bot(UserId(user), bot_data_dir, report)
    if settings.jwt_secret is None:
        report("Signed with the development secret: accepted by confab dev, refused by confab serve.")
    return signed


def _make_bot(user: UserId, data_dir: Path, report: Callable[[str], None]) -> None:
    settings = development_settings(**urls_of_running_dev(development_settings(), data_dir, report))
    asyncio.run(mark_as_bot(settings, user))
    report(f"{user} is a bot.")


async def mark_as_bot(settings: Settings, user: UserId) -> None:
    """Create a user if needed, and make them a bot; the rest of the profile stays. Raises CommandError.

    All servers are notified when this returns. Repeating it is safe.
    """
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    cache = Cache(settings.redis_url, read_scripts, prefix=settings.redis_prefix)
    try:
        await _store(UserStore(mongo, has_directory=settings.user_directory), user)
        await _announce(cache, user)
    finally:
        await cache.close()
        await mongo.close()


async def _store(users: UserStore, user: UserId) -> None:
    try:
        # The name comes with the token, at the first request.
        await users.ensure(user, None, None)
        await users.mark_as_bot(user)
    except StoreError as error:
        raise CommandError(f"{user} may not be a bot yet: MongoDB at CONFAB_MONGO_URL does not answer.") from error


async def _announce(cache: Cache, user: UserId) -> None:
    try:
        await announce_users(cache, [user])
    except StoreError as error:
        raise CommandError(
            f"{user} is a bot now, but Redis at CONFAB_REDIS_URL does not answer, so running servers may not know it. "
            "Repeat the command to get a token."
        ) from error
