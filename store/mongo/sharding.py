"""Shard keys of the collections, and the commands that shard them (ADR 22)."""

from __future__ import annotations

from collections.abc import Mapping

from pymongo import IndexModel

from store.messages.message_origins import OriginStore
from store.mongo.client import Document, Mongo
from store.mongo.collections import CLAIMS, CONVERSATIONS, MEMBERS, MESSAGES, ORIGINS, PLACE, RECEIPTS, SESSIONS
from store.mongo.indexes import ensure_indexes
from store.users.user_store import USERS

SHARD_KEYS: Mapping[str, Mapping[str, int | str]] = {
    USERS: {"_id": "hashed"},
    CONVERSATIONS: {"_id": "hashed"},
    ORIGINS: {"_id": "hashed"},
    CLAIMS: {"_id": "hashed"},
    SESSIONS: {"_id": 1},
    MEMBERS: {"_id": 1},
    RECEIPTS: {"_id": 1},
    MESSAGES: {"c": 1, "b": 1},
}
"""Shard key of each sharded collection.

Hashed if rows are looked up one at a time; ranged if the rows of a user or of a conversation are read together. The
other collections are small and stay on one shard.
"""


def shard_commands(database: str) -> list[Document]:
    """Return the commands, for the `admin` database, that shard the collections.

    The indexes must exist. May be repeated.
    """
    commands: list[Document] = [{"enableSharding": database}]
    for collection, key in SHARD_KEYS.items():
        commands.append({"shardCollection": f"{database}.{collection}", "key": dict(key)})
    return commands


def shell_lines(database: str) -> list[str]:
    """Return the same commands for MongoDB's shell, and those that create the indexes."""
    lines = [f'sh.enableSharding("{database}")']
    for collection, key in SHARD_KEYS.items():
        fields = ", ".join(f"{name}: {_as_javascript(order)}" for name, order in key.items())
        if key == {"_id": "hashed"}:
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {fields} }})')
        elif collection == MESSAGES:
            place = ", ".join(f"{name}: {order}" for name, order in PLACE)
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {place} }}, {{ unique: true }})')
        lines.append(f'sh.shardCollection("{database}.{collection}", {{ {fields} }})')
    return lines


def _as_javascript(order: int | str) -> str:
    return f'"{order}"' if isinstance(order, str) else str(order)


class NotSharded(Exception):
    """The MongoDB that is connected to is not a sharded cluster."""


async def shard(mongo: Mongo, database: str) -> int:
    """Create the indexes and shard the collections. Idempotent. Returns how many messages were added to `origins`.

    Raises:
        NotSharded: MongoDB is no sharded cluster. Nothing was changed.
        Unreachable: MongoDB does not answer, or a collection has another shard key already.
    """
    await mongo.ping()
    if not mongo.is_sharded:
        raise NotSharded
    await ensure_indexes(mongo)
    for collection, key in SHARD_KEYS.items():
        if "hashed" in key.values():
            await mongo.ensure_indexes(collection, [IndexModel(list(key.items()))])
    added = await OriginStore(mongo).fill()
    for command in shard_commands(database):
        await mongo.run_admin(command)
    return added
