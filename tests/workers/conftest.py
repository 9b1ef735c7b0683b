"""Servers with several processes, on databases of their own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import ServerProcess
from tests.workers.processes import serving_workers

ServeWorkers = Callable[..., AbstractAsyncContextManager[ServerProcess]]


@dataclass(frozen=True, slots=True)
class Databases:
    """URLs of the databases."""

    mongo_url: str
    redis_url: str


@pytest.fixture
def serve_workers(mongo_url: str, redis_url: str, mongo_database_name: str, tmp_path: Path) -> ServeWorkers:
    """Return a function that runs a server. It takes the number of processes, and settings by field name."""

    def serve(count: int, **settings: str) -> AbstractAsyncContextManager[ServerProcess]:
        databases = Databases(mongo_url, redis_url)
        return serving_workers(databases, count, tmp_path / "log", mongo_database_name, settings=settings)

    return serve
