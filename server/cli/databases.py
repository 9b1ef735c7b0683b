"""Which MongoDB and Redis a command works with: those of the settings, a running `confab dev`, or embedded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.embedded import EmbeddedServers, find_running
from server.errors import CommandError
from server.settings import Settings


def missing_databases(settings: Settings) -> set[str]:
    """The URL settings that nobody set."""
    return {"mongo_url", "redis_url"} - settings.model_fields_set


@contextmanager
def databases(settings: Settings, data_dir: Path, tell: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Settings for what nobody set: of the `confab dev` that runs on `data_dir`, else of servers embedded for now.

    Raises EmbeddedError.
    """
    missing = missing_databases(settings)
    urls = _running(missing, data_dir, tell)
    if urls is not None:
        yield urls
        return
    with EmbeddedServers(
        data_dir, mongo="mongo_url" in missing, redis="redis_url" in missing, on_progress=tell
    ) as servers:
        yield embedded_urls(servers, missing)


def of_running_dev(settings: Settings, data_dir: Path, tell: Callable[[str], None]) -> dict[str, str]:
    """Settings for what nobody set: of the `confab dev` that runs on `data_dir`. Raises CommandError where none does."""
    urls = _running(missing_databases(settings), data_dir, tell)
    if urls is None:
        raise CommandError(
            f"No confab dev runs on {data_dir}: set CONFAB_MONGO_URL and CONFAB_REDIS_URL, or name its folder with --data-dir."
        )
    return urls


def _running(missing: set[str], data_dir: Path, tell: Callable[[str], None]) -> dict[str, str] | None:
    """The missing ones, of the `confab dev` that runs on `data_dir`. None: it does not, or has not all of them."""
    if not missing:
        return {}
    running = find_running(data_dir)
    if running is None:
        return None
    found = {"mongo_url": running.mongo_url, "redis_url": running.redis_url}
    urls = {field: url for field, url in found.items() if field in missing and url is not None}
    # What is left was set for that other process, and not for this one.
    if urls.keys() != missing:
        return None
    tell(f"Using the servers of the confab dev that runs on {data_dir}")
    return urls


def embedded_urls(servers: EmbeddedServers, wanted: set[str]) -> dict[str, str]:
    """The URLs of started servers, by setting."""
    return {field: getattr(servers, field) for field in sorted(wanted)}
