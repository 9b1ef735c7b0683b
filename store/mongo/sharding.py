"""Shard keys of the collections, and the commands that shard them (ADR 22)."""

from __future__ import annotations

from collections.abc import Mapping

from store.mongo.client import Document
from store.mongo.collections import (
    AUDIT,
    BANS,
    BLOB_CHUNKS,
    BLOB_FILES,
    BLOCKS,
    CHANNELS,
    CLAIMS,
    CONVERSATIONS,
    DEVICES,
    FILES,
    INVITES,
    MEMBERS,
    MESSAGES,
    NOTIFICATION_SETTINGS,
    ORIGINS,
    PRESENCES,
    PREVIEWS,
    PUSH_TOKENS,
    REACTIONS,
    RECEIPTS,
    SEARCH,
    SESSIONS,
    USERS,
    WORKSPACE_MEMBERS,
    WORKSPACES,
    WORKSPACES_OF,
)
from store.mongo.index_fields import BY_CHUNK, BY_NEWEST, PLACE
from store.mongo.indexes import NOT_IF_SHARDED

SHARD_KEYS: Mapping[str, Mapping[str, int | str]] = {
    USERS: {"_id": "hashed"},
    CONVERSATIONS: {"_id": "hashed"},
    ORIGINS: {"_id": "hashed"},
    CLAIMS: {"_id": "hashed"},
    WORKSPACES: {"_id": "hashed"},
    BLOB_FILES: {"_id": "hashed"},
    BLOB_CHUNKS: {"files_id": "hashed"},
    FILES: {"_id": "hashed"},
    PREVIEWS: {"_id": "hashed"},
    PUSH_TOKENS: {"_id": "hashed"},
    NOTIFICATION_SETTINGS: {"_id": "hashed"},
    BLOCKS: {"_id": "hashed"},
    PRESENCES: {"_id": "hashed"},
    SESSIONS: {"_id": 1},
    MEMBERS: {"_id": 1},
    RECEIPTS: {"_id": 1},
    REACTIONS: {"_id": 1},
    CHANNELS: {"_id": 1},
    WORKSPACE_MEMBERS: {"_id": 1},
    WORKSPACES_OF: {"_id": 1},
    DEVICES: {"_id": 1},
    INVITES: {"_id": 1},
    AUDIT: {"_id": 1},
    BANS: {"_id": 1},
    MESSAGES: {"c": 1, "b": 1},
    SEARCH: dict(BY_NEWEST),
}
"""Shard key of each sharded collection.

Hashed if rows are looked up one at a time; ranged if the rows of a user, conversation or workspace are read together.
All chunks of a blob are on one shard. Names of blobs grow with time, so ranges would make one shard take all uploads.
The other collections are small and stay on one shard.
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
        if collection == BLOB_CHUNKS:
            chunk = ", ".join(f"{name}: {_as_javascript(order)}" for name, order in BY_CHUNK)
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {chunk} }}, {{ unique: true }})')
        if "hashed" in key.values() or collection == SEARCH:
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {fields} }})')
        elif collection == MESSAGES:
            place = ", ".join(f"{name}: {order}" for name, order in PLACE)
            lines.append(f'db.getSiblingDB("{database}").{collection}.createIndex({{ {place} }}, {{ unique: true }})')
            # A replica set has it. A collection with a unique index can be sharded only by the fields it begins with.
            own, index = f'db.getSiblingDB("{database}").{collection}', NOT_IF_SHARDED
            lines.append(f'if ({own}.getIndexes().some(({{ name }}) => name == "{index}")) {own}.dropIndex("{index}")')
        lines.append(f'sh.shardCollection("{database}.{collection}", {{ {fields} }})')
    return lines


def _as_javascript(order: int | str) -> str:
    return f'"{order}"' if isinstance(order, str) else str(order)
