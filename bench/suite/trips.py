"""Round trips that an operation waits for: in Confab by its own counters, in the baseline by its drivers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest import mock

import httpx
from pymongo import monitoring
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bench.api_client import InsideAsker
from bench.suite.operations import Ask, Operation
from server.embedded import EmbeddedServers
from server.services import open_services
from server.settings import UNLIMITED, load_settings

Trips = tuple[int, int]
Count = Callable[[], Trips]

_RUNS = 4


async def count_trips(operations: list[Operation], count: Count) -> dict[str, Trips]:
    """Return the least of several counts: work after an answer may add to a single one."""
    return {operation.key: await least_trips(operation, count) for operation in operations}


async def least_trips(operation: Operation, count: Count, runs: int = _RUNS) -> Trips:
    """Return the least round trips of one operation."""
    found: list[Trips] = []
    for _ in range(runs):
        if operation.before is not None:
            await operation.before()
        await asyncio.sleep(operation.settle_seconds)
        mongo, redis = count()
        await operation.act()
        after = count()
        found.append((after[0] - mongo, after[1] - redis))
    await asyncio.sleep(operation.settle_seconds)
    return min(mongo for mongo, _ in found), min(redis for _, redis in found)


@asynccontextmanager
async def confab_inside(databases: EmbeddedServers, database: str) -> AsyncIterator[tuple[Ask, Count]]:
    """Run Confab's parts in this process."""
    settings = load_settings(
        **UNLIMITED,
        mongo_url=databases.mongo_url,
        redis_url=databases.redis_url,
        mongo_database=database,
        redis_prefix=f"{database}:",
    )
    async with open_services(settings, start_wait_seconds=60) as services:
        store = services.app.store

        async def ask(user: str, query: str, **variables: Any) -> Any:
            return await InsideAsker(services, user).ask(query, **variables)

        yield ask, lambda: (store.mongo.trips, store.cache.trips)


@asynccontextmanager
async def baseline_inside(databases: EmbeddedServers, database: str) -> AsyncIterator[tuple[Ask, Count]]:
    """Run the baseline's application in this process."""
    environment = {
        "BASELINE_MONGO_URL": databases.mongo_url,
        "BASELINE_DATABASE": database,
        "BASELINE_REDIS_URL": databases.redis_url,
    }
    commands = _Commands()
    register: Any = monitoring.register
    register(commands)
    with mock.patch.dict(os.environ, environment), _counted_redis() as redis:
        from bench.baseline.app import app

        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://baseline") as client:

                async def ask(user: str, query: str, **variables: Any) -> Any:
                    body = {"query": query, "variables": variables}
                    headers = {"authorization": f"Bearer {user}"}
                    answer = (await client.post("/graphql", json=body, headers=headers)).json()
                    if answer.get("errors"):
                        raise RuntimeError(f"the baseline: {answer['errors']}")
                    (value,) = answer["data"].values()
                    return value

                yield ask, lambda: (commands.trips, redis[0])


class _Commands(monitoring.CommandListener):
    """Counts MongoDB's commands; concurrent ones count once."""

    def __init__(self) -> None:
        self.trips = 0
        self._under_way = 0

    def started(self, _event: monitoring.CommandStartedEvent) -> None:
        self.trips += not self._under_way
        self._under_way += 1

    def succeeded(self, _event: monitoring.CommandSucceededEvent) -> None:
        self._under_way -= 1

    def failed(self, _event: monitoring.CommandFailedEvent) -> None:
        self._under_way -= 1


@contextmanager
def _counted_redis() -> Iterator[list[int]]:
    """Count commands and pipelines, without those of publish/subscribe, for the time of the block."""
    trips = [0]
    command: Any = Redis.execute_command
    execute: Any = Pipeline.execute

    async def counted_command(self: Any, *words: Any, **options: Any) -> Any:
        trips[0] += 1
        return await command(self, *words, **options)

    async def counted_execute(self: Any, *words: Any, **options: Any) -> Any:
        trips[0] += 1
        return await execute(self, *words, **options)

    with (
        mock.patch.object(Redis, "execute_command", counted_command),
        mock.patch.object(Pipeline, "execute", counted_execute),
    ):
        yield trips
