"""Servers of one deployment on a cluster of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pymongo import MongoClient

from server.services import open_services
from server.settings import Settings
from tests.api.client import Api, Json


@asynccontextmanager
async def servers(settings: Settings, mongo: MongoClient[Json], count: int) -> AsyncIterator[list[Api]]:
    async with AsyncExitStack() as stack:
        apis = []
        for _ in range(count):
            services = await stack.enter_async_context(open_services(settings))
            api = Api(services, mongo, settings.mongo_database)
            stack.push_async_callback(api.stop_subscriptions)
            apis.append(api)
        yield apis


async def until_recovered(apis: list[Api]) -> None:
    """Wait until all servers know the newest generation, and the recovery from the loss has ended."""
    async with asyncio.timeout(60):
        while True:
            generations = [api.services.app.store.deployment.generations for api in apis]
            numbers = {each.number for each in generations}
            if len(numbers) == 1 and not await generations[0].is_recovering():
                return
            await asyncio.sleep(0.05)
