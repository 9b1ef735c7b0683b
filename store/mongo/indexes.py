"""The indexes beside those on `_id`, and when they have to be there.

One is what I1 and I2 rest on: no message is stored before two can't have the same place. It is made at once in a new deployment. Where
messages are there and it is not, its build is waited for, however long that takes, without holding up what else goes on. The
others make something quicker, and are built behind.
"""

from __future__ import annotations

import asyncio

import structlog
from pymongo import IndexModel

from store.base.errors import StoreError, Unreachable
from store.mongo.client import Mongo
from store.mongo.collections import CLAIMS, MESSAGES, ORIGINS, PLACE

_log = structlog.get_logger()

NEEDED = ((MESSAGES, IndexModel(list(PLACE), unique=True)),)
"""Before the first write."""

BEHIND = (
    (MESSAGES, IndexModel([("u", 1), ("ik", 1)], partialFilterExpression={"ik": {"$exists": True}})),
    (CLAIMS, IndexModel([("until", 1)], expireAfterSeconds=0)),
    # Few of its rows end.
    (ORIGINS, IndexModel([("until", 1)], expireAfterSeconds=0, partialFilterExpression={"until": {"$exists": True}})),
)
"""Sometime."""

_PATIENCE_SECONDS = 5.0
_AGAIN_SECONDS = 30.0


async def ensure_indexes(mongo: Mongo) -> None:
    """All of them are there when this returns, however long that takes. Raises Unreachable."""
    for collection, index in (*NEEDED, *BEHIND):
        await mongo.ensure_indexes(collection, [index])


class Indexes:
    """One process's part in their being there. MongoDB builds one once, whoever asks for it."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo
        self._building: asyncio.Task[None] | None = None
        self._behind: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Returns once those are there that are needed, and has begun with the others. Raises Unreachable while they are not; their
        build goes on then, and this is to be called again."""
        if self._building is None:
            self._building = asyncio.create_task(self._build_needed())
        done, _ = await asyncio.wait({self._building}, timeout=_PATIENCE_SECONDS)
        if not done:
            raise Unreachable("the index of messages by their place is being built")
        building, self._building = self._building, None
        building.result()
        if self._behind is None:
            self._behind = asyncio.create_task(self._build_behind())
            # Where there is little, they are there at once.
            await asyncio.wait({self._behind}, timeout=_PATIENCE_SECONDS)

    async def close(self) -> None:
        """Waits for nothing; a build that MongoDB has begun goes on."""
        for task in (self._building, self._behind):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _build_needed(self) -> None:
        for collection, index in NEEDED:
            await self._mongo.ensure_indexes(collection, [index])

    async def _build_behind(self) -> None:
        for collection, index in BEHIND:
            while True:
                try:
                    await self._mongo.ensure_indexes(collection, [index])
                    break
                except StoreError as error:
                    _log.warning("an index is not built yet", collection=collection, reason=str(error))
                    await asyncio.sleep(_AGAIN_SECONDS)
