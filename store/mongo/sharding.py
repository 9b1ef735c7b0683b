"""How MongoDB's collections are divided among shards (ADR 22)."""

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
"""By collection. Hashed where one row is looked up at a time; in order where the rows of a user or of a conversation are read
together. All other collections are small, and stay whole on one shard."""


def shard_commands(database: str) -> list[Document]:
    """The commands, for the `admin` database, that divide the collections once their indexes are there. Each may be repeated."""
    commands: list[Document] = [{"enableSharding": database}]
    for collection, key in SHARD_KEYS.items():
        commands.append({"shardCollection": f"{database}.{collection}", "key": dict(key)})
    return commands


def shell_lines(database: str) -> list[str]:
    """The same for MongoDB's shell, indexes included."""
    lines = [f'sh.enableSharding("{database}")']
    for collection, key in SHARD_KEYS.items():
        fields = ", ".join(f"{name}: {_spelt(order)}" for name, order in key.items())
        if key == {"_id": "hashed"}:
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {fields} }})')
        elif collection == MESSAGES:
            place = ", ".join(f"{name}: {order}" for name, order in PLACE)
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {place} }}, {{ unique: true }})')
        lines.append(f'sh.shardCollection("{database}.{collection}", {{ {fields} }})')
    return lines


def _spelt(order: int | str) -> str:
    return f'"{order}"' if isinstance(order, str) else str(order)


class NotSharded(Exception):
    """What is connected to is no cluster of shards."""


async def shard(mongo: Mongo, database: str) -> int:
    """Makes the indexes and divides the collections. Idempotent. Answers how many messages had to be noted in `origins` before.

    Raises NotSharded: nothing was changed then. Raises Unreachable, also where a collection is divided otherwise already.
    """
    await mongo.ping()
    if not mongo.is_sharded:
        raise NotSharded
    await ensure_indexes(mongo)
    for collection, key in SHARD_KEYS.items():
        if "hashed" in key.values():
            await mongo.ensure_indexes(collection, [IndexModel(list(key.items()))])
    noted = await OriginStore(mongo).fill()
    for command in shard_commands(database):
        await mongo.run_admin(command)
    return noted
