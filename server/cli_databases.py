"""Which MongoDB and Redis a command works with: those of the settings, a running `confab dev`, or embedded ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.embedded import EmbeddedServers, find_running
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
    if not missing:
        yield {}
        return
    running = find_running(data_dir)
    if running is not None:
        found = {"mongo_url": running.mongo_url, "redis_url": running.redis_url}
        urls = {field: url for field, url in found.items() if field in missing and url is not None}
        # What is left was set for that other process, and not for this one.
        if urls.keys() == missing:
            tell(f"Using the servers of the confab dev that runs on {data_dir}")
            yield urls
            return
    with EmbeddedServers(
        data_dir, mongo="mongo_url" in missing, redis="redis_url" in missing, on_progress=tell
    ) as servers:
        yield embedded_urls(servers, missing)


def embedded_urls(servers: EmbeddedServers, wanted: set[str]) -> dict[str, str]:
    """The URLs of started servers, by setting."""
    return {field: getattr(servers, field) for field in sorted(wanted)}
