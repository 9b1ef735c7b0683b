"""Opens the databases of a deployment for commands that only read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.cli.clocks import read_clock
from server.cli.store_errors import store_errors_as_command_errors
from server.errors import CommandError
from server.settings import Settings
from store.admin.read_only import ReadOnlyCache, ReadOnlyMongo
from store.admin.source import AdminSource, NoSuchObject
from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.build import build_store
from store.deployment.present_generation import use_present_generation
from store.mongo.migrations import check_version


@asynccontextmanager
async def open_source(settings: Settings, *, shows_texts: bool) -> AsyncIterator[AdminSource]:
    """Provide the databases of the settings. Redis may be away: the source says so then.

    Raises CommandError: MongoDB does not answer or has no deployment, nothing is known by an id, or Redis failed later.
    """
    mongo = ReadOnlyMongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    cache = ReadOnlyCache(settings.redis_url, prefix=settings.redis_prefix)
    try:
        with store_errors_as_command_errors():
            await check_version(mongo)
            clock = DeploymentClock(await read_clock(mongo, settings.mongo_database))
            store = build_store(mongo, cache, clock, settings.data_center, has_search=settings.search != "off")
            await store.deployment.read()
        # Building a store makes its cache begin generations.
        use_present_generation(mongo, cache)
        try:
            await cache.ping()
            problem = None
        except Unreachable as error:
            problem = str(error)
        try:
            with store_errors_as_command_errors():
                yield AdminSource(store, problem, shows_texts)
        except NoSuchObject as error:
            raise CommandError(str(error)) from error
    finally:
        await cache.close()
        await mongo.close()
