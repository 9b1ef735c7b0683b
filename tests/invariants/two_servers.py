"""Two servers whose Redis goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from server.embedded import EmbeddedServers
from store.base.errors import Unreachable
from store.deployment import reach_times
from tests.api.client import Api
from tests.waiting import TIMEOUT_SECONDS

AWAY_AFTER_MS = 1_500


@dataclass
class TwoServers:
    """Two servers and the Redis that they share."""

    one: Api
    other: Api
    redis: EmbeddedServers
    monkeypatch: pytest.MonkeyPatch

    async def lose_redis(self) -> None:
        """Stop Redis, and let both servers notice it."""
        self.redis._child("redis").kill()
        self.monkeypatch.setattr(reach_times, "AWAY_AFTER_MS", 200)
        await self.until(lambda api: api.services.app.uses_fallback)
        self.monkeypatch.setattr(reach_times, "AWAY_AFTER_MS", AWAY_AFTER_MS)

    async def bring_redis_back(self) -> None:
        """Start Redis empty, and let both servers notice it."""
        await self.start_redis()
        await self.until(lambda api: api.services.app.store.cache.is_shared)

    async def start_redis(self) -> None:
        child = self.redis._child("redis")
        await asyncio.to_thread(child.launch)
        await asyncio.to_thread(child.await_ready)

    async def until(self, is_so: Callable[[Api], bool]) -> None:
        async with asyncio.timeout(3 * TIMEOUT_SECONDS):
            for api in (self.one, self.other):
                while not is_so(api):
                    # The housekeeper does this once a second, and logs the error.
                    with suppress(Unreachable):
                        await api.services.housekeeper.check_redis()
                    await asyncio.sleep(0.02)
