"""Finds the databases for a command: from the settings, of a running `confab dev`, or embedded servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.embedded import EmbeddedServers, find_running
from server.errors import CommandError, database_error
from server.settings import Settings
from store.base.errors import StoreError
from store.mongo.client import Mongo
from store.redis.cache import Cache
from store.scripts import read_scripts

_RETRY_SECONDS = 0.5


def missing_databases(settings: Settings) -> set[str]:
    """Return the URL settings that are not set."""
    return {"mongo_url", "redis_url"} - settings.model_fields_set


@contextmanager
def databases(settings: Settings, data_dir: Path, report: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Provide URLs for the URL settings that are not set, for the duration of the block.

    They are those of the `confab dev` on `data_dir`, or of embedded servers that are started. Raises EmbeddedError.
    """
    missing = missing_databases(settings)
    urls = _find_running_urls(missing, data_dir, report)
    if urls is not None:
        yield urls
        return
    with EmbeddedServers(
        data_dir, mongo="mongo_url" in missing, redis="redis_url" in missing, on_progress=report
    ) as servers:
        yield embedded_urls(servers, missing)


def urls_of_running_dev(settings: Settings, data_dir: Path, report: Callable[[str], None]) -> dict[str, str]:
    """Return URLs of the `confab dev` on `data_dir` for the URL settings that are not set.

    Raises CommandError if no `confab dev` is running there.
    """
    urls = _find_running_urls(missing_databases(settings), data_dir, report)
    if urls is None:
        raise CommandError(
            f"No confab dev is running on {data_dir}: set CONFAB_MONGO_URL and CONFAB_REDIS_URL, or name "
            "its data folder with --data-dir."
        )
    return urls


def _find_running_urls(missing: set[str], data_dir: Path, report: Callable[[str], None]) -> dict[str, str] | None:
    """Return the missing URLs from the `confab dev` on `data_dir`.

    Returns None if it is not running, or does not have all of them.
    """
    if not missing:
        return {}
    running = find_running(data_dir)
    if running is None:
        return None
    found = {"mongo_url": running.mongo_url, "redis_url": running.redis_url}
    urls = {field: url for field, url in found.items() if field in missing and url is not None}
    # The other process uses a database from its settings, which this process does not have.
    if urls.keys() != missing:
        return None
    report(f"Using the databases of the confab dev on {data_dir}")
    return urls


def embedded_urls(servers: EmbeddedServers, wanted: set[str]) -> dict[str, str]:
    """Return the URLs of started servers by setting."""
    return {field: getattr(servers, field) for field in sorted(wanted)}


async def check_databases(settings: Settings, within_seconds: float) -> None:
    """Wait until MongoDB and Redis answer: they may be starting. Raises CommandError if the time is over.

    For commands that run the services of a server. These would log many warnings until both databases answer.
    """
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    cache = Cache(settings.redis_url, read_scripts, prefix=settings.redis_prefix)
    deadline = time.monotonic() + within_seconds
    try:
        while True:
            try:
                await mongo.ping()
                await cache.check_health()
                return
            except StoreError as error:
                if time.monotonic() > deadline:
                    raise database_error(error) from error
            await asyncio.sleep(_RETRY_SECONDS)
    finally:
        await cache.close()
        await mongo.close()
