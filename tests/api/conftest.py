"""Fixtures: one process for each test module, with its own database and key prefix."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from resolvers.push.push_service import PushService
from server.services import open_services
from server.settings import Settings, load_settings
from store.base.clock import Clock
from store.base.tasks import end_tasks
from store.devices.device import PushPlatform
from tests.api.client import Api, Json
from tests.conftest import drop_soon
from tests.user_ids import encoded

OpenApi = Callable[..., AbstractAsyncContextManager[Api]]
"""Opens a process. Processes opened with the same name share their databases."""


class Deployments:
    """The databases and key prefixes of a module's deployments, by name."""

    def __init__(self, mongo_url: str, redis_url: str, mongo: MongoClient[Json], redis: Redis) -> None:
        self._urls = {"mongo_url": mongo_url, "redis_url": redis_url}
        self._redis = redis
        self._names: dict[str, str] = {}
        self.mongo = mongo

    def settings(self, name: str, **overrides: Any) -> Settings:
        """Return settings for the deployment of this name."""
        suffix = self._names.setdefault(name, secrets.token_hex(6))
        return load_settings(**self._urls, mongo_database=f"test_{suffix}", redis_prefix=f"t{suffix}:", **overrides)

    def keys(self, name: str, pattern: str) -> list[bytes]:
        """Return the Redis keys of one deployment that match a pattern."""
        return list(self._redis.scan_iter(match=f"t{self._names[name]}:{pattern}", count=1000))

    def newest_entries(self, name: str) -> dict[Any, Any]:
        """Return the id of the newest entry of each stream in Redis: of the logs of clocks, and of the outbox."""
        streams = self._redis.scan_iter(match=f"t{self._names[name]}:*", count=1000, _type="STREAM")
        return {key: self._redis.xinfo_stream(key)["last-generated-id"] for key in streams}

    def flush_redis(self, name: str) -> None:
        """Delete all keys of one deployment, as flushing its Redis would."""
        keys = self.keys(name, "*")
        if keys:
            self._redis.delete(*keys)

    def redis_dump(self, name: str) -> list[bytes]:
        """Return the serialized values of all keys of one deployment."""
        return [self._redis.dump(key) or b"" for key in self.keys(name, "*")]

    def evict_user_state(self, name: str, user: str) -> None:
        """Delete all keys of one user but their routes, as Redis would when it evicts keys."""
        keys = self.keys(name, f"*{{u:{encoded(user)}}}:*")
        assert keys
        self._redis.delete(*(key for key in keys if not key.endswith(b":routes")))

    def remove(self) -> None:
        """Delete the databases and keys of all deployments."""
        for name, suffix in self._names.items():
            self.flush_redis(name)
            drop_soon(self.mongo, f"test_{suffix}")


@pytest.fixture(scope="module")
def deployments(
    mongo_url: str, redis_url: str, _mongo_janitor: MongoClient[Json], _redis_janitor: Redis
) -> Iterator[Deployments]:
    deployments = Deployments(mongo_url, redis_url, _mongo_janitor, _redis_janitor)
    yield deployments
    deployments.remove()


@pytest.fixture(scope="module")
def open_api(deployments: Deployments) -> OpenApi:
    @asynccontextmanager
    async def open_process(
        name: str,
        clock: Clock | None = None,
        *,
        push_services: Mapping[PushPlatform, PushService] | None = None,
        **overrides: Any,
    ) -> AsyncIterator[Api]:
        settings = deployments.settings(name, **overrides)
        async with open_services(settings, clock, push_services=push_services) as services:
            api = Api(services, deployments.mongo, settings.mongo_database)
            # No test waits for half a second for the second event about a message.
            services.app.reaction_events.windows.interval_ms = 20
            try:
                yield api
            finally:
                await api.stop_subscriptions()
                # Closing would wait up to a second for the next event of a changed thread.
                await end_tasks(services.app.threads._coalesced._tasks)

    return open_process


@pytest.fixture(scope="module")
async def process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("main") as api:
        yield api


@pytest.fixture(scope="module")
async def other_process(process: Api, open_api: OpenApi) -> AsyncIterator[Api]:
    """A second process of the same deployment."""
    async with open_api("main") as api:
        yield api


@pytest.fixture
async def api(process: Api) -> AsyncIterator[Api]:
    """The module's process. Its subscriptions end with the test."""
    yield process
    await process.wait_until_idle()
    await process.stop_subscriptions()


@pytest.fixture(scope="module")
async def _losing_process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("lost") as api:
        yield api


@pytest.fixture
async def losing_api(_losing_process: Api) -> AsyncIterator[Api]:
    """The module's process of the deployment "lost", whose Redis tests may flush."""
    await _losing_process.services.housekeeper.check_redis()
    yield _losing_process
    await _losing_process.wait_until_idle()
    await _losing_process.stop_subscriptions()


class HeldLargeGroupQueue:
    """Holds back the delivery to the recipients after the first slice of a large group, as a slow queue would."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self._queue: Any = api.services.app.delivery.large_group_stage.queue
        self._push = self._queue.push
        self._held: list[Any] = []
        monkeypatch.setattr(self._queue, "push", self._held.append)

    def release(self) -> None:
        """Deliver everything that was held back."""
        while self._held:
            self._push(self._held.pop(0))


@pytest.fixture
def held_queue(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLargeGroupQueue]:
    queue = HeldLargeGroupQueue(api, monkeypatch)
    yield queue
    queue.release()


@pytest.fixture
async def other_api(other_process: Api) -> AsyncIterator[Api]:
    yield other_process
    await other_process.wait_until_idle()
    await other_process.stop_subscriptions()
