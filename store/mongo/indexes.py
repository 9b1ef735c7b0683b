"""The indexes other than those on `_id`, and when each is needed.

Invariants I1 and I2 depend on one of them: no message may be stored before it prevents two messages at the same seq. A
new deployment creates it at once. If there are messages but no index, servers wait for its build, however long it
takes, without blocking other operations of MongoDB. The other indexes only make queries faster, and are built in the
background.
"""

from __future__ import annotations

import asyncio

import structlog
from pymongo import IndexModel

from store.base.errors import StoreError, Unreachable
from store.mongo.client import Mongo
from store.mongo.collections import (
    BY_CHANNEL,
    BY_DELETION,
    BY_MEMBER_KEY,
    BY_MEMBER_NAME,
    BY_MEMBER_ROLE,
    BY_MUTE_END,
    BY_NICKNAMED_USER,
    BY_OPEN_SIZE,
    BY_OPEN_SIZE_AND_KEY,
    BY_SEARCH_KEY,
    CLAIMS,
    MESSAGES,
    ORIGINS,
    PENDING_SINCE,
    PLACE,
    SESSIONS,
    USERS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
)

_log = structlog.get_logger()

REQUIRED = ((MESSAGES, IndexModel(list(PLACE), unique=True)),)
"""Have to exist before the first write."""

OPTIONAL = (
    (MESSAGES, IndexModel([("u", 1), ("ik", 1)], partialFilterExpression={"ik": {"$exists": True}})),
    (CLAIMS, IndexModel([("until", 1)], expireAfterSeconds=0)),
    # Most rows have no end.
    (ORIGINS, IndexModel([("until", 1)], expireAfterSeconds=0, partialFilterExpression={"until": {"$exists": True}})),
    # Nearly all workspaces have nothing pending.
    (WORKSPACES, IndexModel([(PENDING_SINCE, 1)], sparse=True)),
    # Most workspaces are not open, and few are being removed, so these stay small.
    (WORKSPACES, IndexModel(list(BY_OPEN_SIZE), partialFilterExpression={"op": True})),
    (WORKSPACES, IndexModel(list(BY_OPEN_SIZE_AND_KEY), partialFilterExpression={"op": True})),
    (WORKSPACES, IndexModel(list(BY_DELETION), partialFilterExpression={"del": {"$exists": True}})),
    # Only sessions in channels have the field.
    (SESSIONS, IndexModel(list(BY_CHANNEL), sparse=True)),
    # Few sessions have a mute that ends by itself.
    (SESSIONS, IndexModel(list(BY_MUTE_END), partialFilterExpression={"mu": {"$exists": True}})),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_MEMBER_NAME))),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_MEMBER_KEY))),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_MEMBER_ROLE), partialFilterExpression={"r": {"$exists": True}})),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_NICKNAMED_USER), partialFilterExpression={"us": {"$exists": True}})),
)
"""Built in the background."""

DIRECTORY = ((USERS, IndexModel(list(BY_SEARCH_KEY), partialFilterExpression={"k": {"$exists": True}})),)
"""Built in the background if users may search the directory."""

_MAX_WAIT_SECONDS = 5.0
_RETRY_SECONDS = 30.0


async def ensure_indexes(mongo: Mongo) -> None:
    """Create all indexes and wait for their builds, however long they take. Raises Unreachable."""
    for collection, index in (*REQUIRED, *OPTIONAL):
        await mongo.ensure_indexes(collection, [index])


class Indexes:
    """Creates the indexes from one process. If several processes create the same index, MongoDB builds it once."""

    def __init__(self, mongo: Mongo, *, has_directory: bool = False) -> None:
        self._mongo = mongo
        self._optional = (*OPTIONAL, *DIRECTORY) if has_directory else OPTIONAL
        self._required_build: asyncio.Task[None] | None = None
        self._optional_build: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Return when the required indexes exist; the optional ones are being built then.

        Raises Unreachable if the required ones do not exist after 5 s. Their build continues; call this method again.
        """
        if self._required_build is None:
            self._required_build = asyncio.create_task(self._build_required())
        done, _ = await asyncio.wait({self._required_build}, timeout=_MAX_WAIT_SECONDS)
        if not done:
            raise Unreachable("the unique index of messages is being built")
        building, self._required_build = self._required_build, None
        building.result()
        if self._optional_build is None:
            self._optional_build = asyncio.create_task(self._build_optional())
            # In a small deployment they exist at once.
            await asyncio.wait({self._optional_build}, timeout=_MAX_WAIT_SECONDS)

    async def close(self) -> None:
        """Stop waiting. A build that MongoDB has begun continues."""
        for task in (self._required_build, self._optional_build):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _build_required(self) -> None:
        for collection, index in REQUIRED:
            await self._mongo.ensure_indexes(collection, [index])

    async def _build_optional(self) -> None:
        for collection, index in self._optional:
            while True:
                try:
                    await self._mongo.ensure_indexes(collection, [index])
                    break
                except StoreError as error:
                    _log.warning("index_not_built", collection=collection, reason=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
