"""The indexes other than those on `_id`, and when each is needed.

Invariants I1 and I2 depend on two of them: no message may be stored before they prevent two messages at the same seq,
or with the same idempotency key. A new deployment creates them at once. If there are messages but no index, servers
wait for its build, however long it takes, without blocking other operations of MongoDB. The other indexes only make
queries faster, and are built in the background.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import structlog
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError

from store.base.errors import StoreError, Unreachable
from store.mongo.client import Document, Mongo
from store.mongo.collections import (
    AUDIT,
    BLOB_CHUNKS,
    BLOCK_PENDING_SINCE,
    BLOCKED_USER,
    BLOCKS,
    CLAIMS,
    CONVERSATIONS,
    DEVICES,
    EXPIRED,
    FILES,
    HELD_RECEIPTS,
    JOBS,
    MESSAGES,
    ONLY_JOB,
    ORIGINS,
    PREVIEWS,
    REACTIONS,
    REPORTS,
    SEARCH,
    SESSIONS,
    USERS,
    WEBHOOK_EVENTS,
    WEBHOOK_LINES,
    WEBHOOKS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
)
from store.mongo.index_fields import (
    BY_AUDIT_ACTED_BY,
    BY_AUDIT_ACTION,
    BY_AUDIT_TARGET,
    BY_AUDIT_USER,
    BY_CHANNEL,
    BY_CHUNK,
    BY_DELETION,
    BY_DELIVERY,
    BY_EXPIRED,
    BY_HELD_UNTIL,
    BY_JOB_DUE,
    BY_JOB_USER,
    BY_KEY,
    BY_LINE,
    BY_LINE_DUE,
    BY_LINKS_DUE,
    BY_MEMBER_KEY,
    BY_MEMBER_NAME,
    BY_MEMBER_ROLE,
    BY_MUTE_END,
    BY_NEWEST,
    BY_NICKNAMED_USER,
    BY_OLDEST,
    BY_OPEN_SIZE,
    BY_OPEN_SIZE_AND_KEY,
    BY_OWNER_AND_REMOVAL,
    BY_PARENT,
    BY_PENDING_TIME,
    BY_PUSHED_USER,
    BY_REACTION_ORDER,
    BY_REMOVAL,
    BY_REPORT_NOTE,
    BY_REPORT_PLACE,
    BY_REPORT_TIME,
    BY_REPORTER,
    BY_RETENTION_DUE,
    BY_SCANNING,
    BY_SEARCH_KEY,
    BY_TERM,
    BY_TIDYING,
    BY_WEBHOOK_OWNER,
    BY_WEBHOOK_WORKSPACE,
    OWNED_KEY,
    OWNED_KEY_IN_BUCKET,
    PENDING_SINCE,
    PIN_NOTED_AT,
    PLACE,
)
from store.mongo.writes import Update, Write

_log = structlog.get_logger()

_COMPRESSED = {"wiredTiger": {"configString": "block_compressor=snappy"}}
"""Options of an index whose blocks are compressed. By default MongoDB compresses only beginnings of keys."""

_WITH_KEY = {"ik": {"$exists": True}}

KEYS = IndexModel(list(BY_KEY), partialFilterExpression=_WITH_KEY)
"""Finds messages by their keys."""

_PLACES = (MESSAGES, IndexModel(list(PLACE), unique=True))
_OWNED_KEYS = IndexModel(list(OWNED_KEY), unique=True, partialFilterExpression=_WITH_KEY)

REQUIRED = (_PLACES, (MESSAGES, _OWNED_KEYS))
"""Have to exist before the first write."""

REQUIRED_IF_SHARDED = (
    _PLACES,
    (MESSAGES, KEYS),
    (MESSAGES, IndexModel(list(OWNED_KEY_IN_BUCKET), unique=True, partialFilterExpression=_WITH_KEY)),
)
"""The same on a sharded cluster, where a unique index has to begin with the shard key."""

NOT_IF_SHARDED = str(_OWNED_KEYS.document["name"])
"""Name of the index of `messages` that has to be dropped before they are sharded."""

_NOT_IF_OWNED = str(KEYS.document["name"])
"""Name of an index of `messages` that is of no use where that of owned keys exists."""

OPTIONAL = (
    # The first ones: searches name these indexes, so they fail until both exist. After an upgrade the collection is
    # empty, while an index of `messages` may take an hour.
    # It has an entry for each term of each row: compressed it takes a quarter of the bytes, for the same CPU.
    (SEARCH, IndexModel(list(BY_TERM), storageEngine=_COMPRESSED)),
    (SEARCH, IndexModel(list(BY_NEWEST))),
    # Few messages have links that were not fetched yet.
    (MESSAGES, IndexModel(list(BY_LINKS_DUE), sparse=True)),
    # Few messages are edited.
    (MESSAGES, IndexModel([("et", 1)], sparse=True)),
    (CLAIMS, IndexModel([("until", 1)], expireAfterSeconds=0)),
    (PREVIEWS, IndexModel([("until", 1)], expireAfterSeconds=0)),
    # Most rows have no end.
    (ORIGINS, IndexModel([("until", 1)], expireAfterSeconds=0, partialFilterExpression={"until": {"$exists": True}})),
    # Nearly all workspaces have nothing pending.
    (WORKSPACES, IndexModel([(PENDING_SINCE, 1)], sparse=True)),
    # Nearly all changes of pins are announced.
    (CONVERSATIONS, IndexModel([(PIN_NOTED_AT, 1)], sparse=True)),
    # Most workspaces are not open, and few are being removed, so these stay small.
    (WORKSPACES, IndexModel(list(BY_OPEN_SIZE), partialFilterExpression={"op": True})),
    (WORKSPACES, IndexModel(list(BY_OPEN_SIZE_AND_KEY), partialFilterExpression={"op": True})),
    (WORKSPACES, IndexModel(list(BY_DELETION), partialFilterExpression={"del": {"$exists": True}})),
    # Only threads have a parent.
    (CONVERSATIONS, IndexModel(list(BY_PARENT), partialFilterExpression={"tp": {"$exists": True}})),
    (CONVERSATIONS, IndexModel(list(BY_OLDEST))),
    (WORKSPACES, IndexModel(list(BY_RETENTION_DUE), sparse=True)),
    (EXPIRED, IndexModel(list(BY_EXPIRED))),
    (REACTIONS, IndexModel(list(BY_REACTION_ORDER))),
    (HELD_RECEIPTS, IndexModel(list(BY_HELD_UNTIL))),
    # Only sessions in channels have the field.
    (SESSIONS, IndexModel(list(BY_CHANNEL), sparse=True)),
    # Few sessions have a mute that ends by itself.
    (SESSIONS, IndexModel(list(BY_MUTE_END), partialFilterExpression={"mu": {"$exists": True}})),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_MEMBER_NAME))),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_MEMBER_KEY))),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_MEMBER_ROLE), partialFilterExpression={"r": {"$exists": True}})),
    (WORKSPACE_MEMBERS, IndexModel(list(BY_NICKNAMED_USER), partialFilterExpression={"us": {"$exists": True}})),
    # Few messages are recalled.
    (MESSAGES, IndexModel([("rc", 1)], sparse=True)),
    (BLOCKS, IndexModel([(BLOCKED_USER, 1)])),
    # Nearly all changes of blocks are complete.
    (BLOCKS, IndexModel([(BLOCK_PENDING_SINCE, 1)], sparse=True)),
    (AUDIT, IndexModel(list(BY_AUDIT_USER))),
    # Only services and admins act for others.
    (AUDIT, IndexModel(list(BY_AUDIT_ACTED_BY), partialFilterExpression={"ab": {"$exists": True}})),
    (AUDIT, IndexModel(list(BY_AUDIT_TARGET), partialFilterExpression={"t": {"$exists": True}})),
    (AUDIT, IndexModel(list(BY_AUDIT_ACTION))),
    # Only if the log is not kept for ever.
    (AUDIT, IndexModel([("x", 1)], expireAfterSeconds=0, partialFilterExpression={"x": {"$exists": True}})),
    (JOBS, IndexModel(list(BY_JOB_DUE), sparse=True)),
    (JOBS, IndexModel(list(BY_JOB_USER))),
    (JOBS, IndexModel(list(ONLY_JOB), unique=True, sparse=True)),
    (REPORTS, IndexModel(list(BY_REPORT_PLACE))),
    (REPORTS, IndexModel(list(BY_REPORT_TIME))),
    (REPORTS, IndexModel(list(BY_REPORTER))),
    # Nearly all events of reports are noted, or no webhook wants them.
    (REPORTS, IndexModel(list(BY_REPORT_NOTE), sparse=True)),
    (JOBS, IndexModel([("until", 1)], expireAfterSeconds=0)),
    (WEBHOOKS, IndexModel(list(BY_WEBHOOK_OWNER))),
    (WEBHOOKS, IndexModel(list(BY_WEBHOOK_WORKSPACE))),
    (WEBHOOK_EVENTS, IndexModel(list(BY_LINE), partialFilterExpression={"p": 1})),
    (WEBHOOK_EVENTS, IndexModel(list(BY_PENDING_TIME), partialFilterExpression={"p": 1})),
    (WEBHOOK_EVENTS, IndexModel(list(BY_DELIVERY))),
    (WEBHOOK_EVENTS, IndexModel([("x", 1)], expireAfterSeconds=0)),
    (WEBHOOK_LINES, IndexModel(list(BY_LINE_DUE))),
    # Only devices that take pushes have the field.
    (DEVICES, IndexModel(list(BY_PUSHED_USER), sparse=True)),
    # A file that a message has is not removed.
    (FILES, IndexModel(list(BY_REMOVAL), sparse=True)),
    (FILES, IndexModel(list(BY_OWNER_AND_REMOVAL), partialFilterExpression={"rm": {"$exists": True}})),
    (FILES, IndexModel(list(BY_TIDYING), sparse=True)),
    (FILES, IndexModel(list(BY_SCANNING), partialFilterExpression={"st": "S"})),
)
"""Built in the background."""

DIRECTORY = ((USERS, IndexModel(list(BY_SEARCH_KEY), partialFilterExpression={"k": {"$exists": True}})),)
"""Built in the background if users may search the directory."""

BLOBS = ((BLOB_CHUNKS, IndexModel(list(BY_CHUNK), unique=True)),)
"""Created before the first blob is written. Deployments without files, or with S3, have none."""

_MAX_WAIT_SECONDS = 5.0
_RETRY_SECONDS = 30.0

KEYS_PER_PAGE = 10_000
"""Entries of an index that are read at once to find repeated keys."""

FIRST_KEY: Mapping[str, Any] = {"u": {"$gte": ""}, "ik": {"$gte": ""}}
"""Query for all keys."""

_KEYS_AT_ONCE = 500
_ROWS_AT_ONCE = 1_000


async def ensure_indexes(mongo: Mongo) -> None:
    """Create all indexes and wait for their builds, however long they take. Raises Unreachable."""
    await _ensure_required(mongo)
    for collection, indexes in _by_collection((*OPTIONAL, *BLOBS)):
        await mongo.ensure_indexes(collection, indexes)


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
            raise Unreachable("the unique indexes of messages are being built")
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
        await self._mongo.ping()
        await _ensure_required(self._mongo)

    async def _build_optional(self) -> None:
        for collection, indexes in _by_collection(self._optional):
            while True:
                try:
                    await self._mongo.ensure_indexes(collection, indexes)
                    break
                except StoreError as error:
                    _log.warning("index_not_built", collection=collection, reason=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)


async def _ensure_required(mongo: Mongo) -> None:
    for collection, indexes in _by_collection(REQUIRED_IF_SHARDED if mongo.is_sharded else REQUIRED):
        while True:
            try:
                await mongo.ensure_indexes(collection, indexes)
                break
            except DuplicateKeyError as error:
                if "ik" not in (error.details or {}).get("keyPattern", ()):
                    raise
                # Servers of an older version may store more of them until the index exists.
                await _release_repeated_keys(mongo)
    if mongo.is_sharded:
        # It would refuse messages because of keys in other buckets, where their owners are not looked for.
        await mongo.drop_index(MESSAGES, NOT_IF_SHARDED)
    else:
        await mongo.drop_index(MESSAGES, _NOT_IF_OWNED)


async def _release_repeated_keys(mongo: Mongo) -> None:
    """Leave each idempotency key to the newest message that was stored with it while the unique index was missing.

    Pages of an index that is not unique are read, because one query of all messages may take hours.
    """
    await mongo.ensure_indexes(MESSAGES, [KEYS])
    released = 0
    async for senders_and_keys in _repeated_keys(mongo):
        query = {"$or": [{"u": sender, "ik": key, "ir": None} for sender, key in senders_and_keys]}
        owners: dict[tuple[str, str], list[Document]] = {}
        fields = dict.fromkeys(("u", "ik", "c", "b", "s"), 1)
        for row in await mongo.find(MESSAGES, query, projection=fields, sort=[("_id", 1)]):
            owners.setdefault((row["u"], row["ik"]), []).append(row)
        older = [row for rows in owners.values() for row in rows[:-1]]
        updates = [Update(row, {"$set": {"ir": row["_id"]}}) for row in older]
        for start in range(0, len(updates), _ROWS_AT_ONCE):
            await mongo.write([Write.updates(MESSAGES, updates[start : start + _ROWS_AT_ONCE])])
        released += len(older)
    _log.warning("repeated_keys_released", messages=released)


async def _repeated_keys(mongo: Mongo) -> AsyncIterator[list[tuple[str, str]]]:
    """Yield senders and keys of more than one message, some at once."""
    after = FIRST_KEY
    page = KEYS_PER_PAGE
    while True:
        # From the index alone.
        fields = {"_id": 0, "u": 1, "ik": 1}
        rows = await mongo.find(MESSAGES, after, projection=fields, sort=BY_KEY, limit=page, hint=BY_KEY)
        counts = Counter((row["u"], row["ik"]) for row in rows)
        is_last = len(rows) < page
        if not is_last and len(counts) == 1:
            page *= 2
            continue
        if not is_last:
            # The next page begins with all messages of this key.
            del counts[rows[-1]["u"], rows[-1]["ik"]]
        repeated = [each for each, count in counts.items() if count > 1]
        for start in range(0, len(repeated), _KEYS_AT_ONCE):
            yield repeated[start : start + _KEYS_AT_ONCE]
        if is_last:
            return
        after = keys_after(*list(counts)[-1])


def keys_after(sender: str, key: str) -> Mapping[str, Any]:
    """Return the query for the keys that follow a sender's key in the order of `KEYS`."""
    return {"$or": [{"u": sender, "ik": {"$gt": key}}, {"u": {"$gt": sender}, "ik": {"$gte": ""}}]}


def _by_collection(indexes: Iterable[tuple[str, IndexModel]]) -> list[tuple[str, list[IndexModel]]]:
    """Return the indexes of each collection: MongoDB builds them together, with one scan of the collection."""
    found: dict[str, list[IndexModel]] = {}
    for collection, index in indexes:
        found.setdefault(collection, []).append(index)
    return list(found.items())
