"""Servers of one deployment on a cluster of the tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from pymongo import MongoClient

from server.services import open_services
from server.settings import Settings
from store.mongo.collections import DEPLOYMENT
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


async def until_recovered(apis: list[Api], min_generation: int) -> None:
    """Wait until the recovery from a loss has ended: all shards are back, and all servers know the newest generation.

    A new connection can begin a generation before a server has noted the loss. So `egen`, the generation of the noted
    epoch, has to be the newest one too.

    min_generation: The smallest number that the newest generation may have.
    """
    async with asyncio.timeout(60):
        while True:
            stores = [api.services.app.store for api in apis]
            row = await stores[0].mongo.find_one(DEPLOYMENT, {"_id": 1}) or {}
            numbers = {row.get("gen"), row.get("egen"), *(store.deployment.generations.number for store in stores)}
            if len(numbers) == 1 and row["gen"] >= min_generation and not row.keys() & {"apart", "mend"}:
                return
            await asyncio.sleep(0.05)
