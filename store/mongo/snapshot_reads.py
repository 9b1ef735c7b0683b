"""Reads of several collections as of one moment, on all shards."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pymongo.errors import OperationFailure

from store.mongo.writes import Document

_UNAVAILABLE = 246
"""Error code: a collection was changed after the moment that MongoDB has chosen, for example by a new index."""

_ATTEMPTS = 10
_PAUSE_SECONDS = 0.05
_ROWS_PER_BATCH = 10_000


async def find_as_of_one_moment(
    client: Any, database: Any, queries: Sequence[tuple[str, Mapping[str, Any]]], count: Callable[[], None]
) -> list[list[Document]]:
    """Return all documents that match each query of a collection. Raises the driver's errors.

    count: called before each round trip.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _find(client, database, queries, count)
        except OperationFailure as error:
            if error.code != _UNAVAILABLE:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
    return await _find(client, database, queries, count)


async def _find(
    client: Any, database: Any, queries: Sequence[tuple[str, Mapping[str, Any]]], count: Callable[[], None]
) -> list[list[Document]]:
    found: list[list[Document]] = []
    session = client.start_session(snapshot=True)
    # Motor's is awaited.
    async with await session if inspect.isawaitable(session) else session as started:
        for collection, query in queries:
            count()
            cursor = database[collection].find(query, session=started, batch_size=_ROWS_PER_BATCH)
            found.append(await cursor.to_list(None))
    return found
