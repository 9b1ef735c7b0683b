"""Reads of whole collections for work in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from store.mongo.client import Document, Mongo
from store.mongo.collections import BY_ID

PAUSE_RATIO = 4.0
"""Seconds of pause for each second of work, so that servers can use the database."""


async def read_in_steps(
    mongo: Mongo, collection: str, query: Mapping[str, Any], *, projection: Mapping[str, Any], size: int
) -> AsyncIterator[list[Document]]:
    """Yield all rows that match, in the order of their ids, at most `size` together. Raises Unreachable.

    Between two steps it pauses, longer if the read or the caller's work took longer. query: must not name `_id`.
    """
    loop = asyncio.get_running_loop()
    after: Document = {}
    while True:
        began = loop.time()
        rows = await mongo.find(
            collection, {**query, **after}, projection=projection, sort=BY_ID, limit=size, hint=BY_ID
        )
        yield rows
        if len(rows) < size:
            return
        after = {"_id": {"$gt": rows[-1]["_id"]}}
        await asyncio.sleep(PAUSE_RATIO * (loop.time() - began))
