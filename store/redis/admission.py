"""Checks each new connection before it is used: which Redis it leads to, and whether that Redis has the scripts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from store.redis.calls import Script
from store.redis.keys import SLOTS

ListSlots = Callable[[], Awaitable[Collection[int]]]
"""Returns the slots of a shard of a cluster, rather too many than too few. Raises RedisError, OSError."""


async def _list_all_slots() -> Collection[int]:
    return range(SLOTS)


@dataclass(frozen=True, slots=True)
class RedisIdentity:
    """The Redis behind a new connection.

    Attributes:
        run: Its run id, which each start of a process chooses at random.
        shard: Its shard id in a cluster, common to a primary and its replicas; "" elsewhere.
        config_epoch: The number of its configuration in a cluster. It grows whenever a replica takes over.
        list_slots: Lists the slots of its shard.
    """

    run: str
    shard: str = ""
    config_epoch: int = 0
    list_slots: ListSlots = _list_all_slots


Admit = Callable[[RedisIdentity], Awaitable[None]]
"""Called with the Redis behind a new connection. An exception refuses the connection."""

_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)
_CONFIG_EPOCH = re.compile(rb"^cluster_my_epoch:(\d+)", re.MULTILINE)


class ConnectionAdmission:
    """Identifies the Redis behind a new connection and lets `admit` decide whether it may be used."""

    def __init__(self, scripts: Iterable[Script], *, is_cluster: bool) -> None:
        """Admit all connections until `admit` is set."""
        self.admit: Admit | None = None
        self._scripts = list(scripts)
        self._is_cluster = is_cluster
        self._loaded_into: set[str] = set()
        """Run ids of the nodes of a cluster that have loaded the scripts."""

    async def check(self, connection: AbstractConnection, list_slots: ListSlots) -> str:
        """Return the id of its shard if the connection may be used; "" if it leads to no cluster.

        Raises RedisError, OSError, StoreError. A replica is refused: its run id is not that of its shard's primary.
        """
        if self.admit is None and not self._is_cluster:
            return ""
        await connection.send_command("INFO", "server")
        info: bytes = await connection.read_response()
        found = _RUN_ID.search(info)
        if found is None:
            raise RedisConnectionError("this Redis does not report its run id")
        identity = RedisIdentity(found[1].decode())
        if self._is_cluster:
            shard = await _read_shard(connection)
            identity = RedisIdentity(identity.run, shard, await _read_config_epoch(connection), list_slots)
            await self._load_scripts(connection, identity.run)
        if self.admit is not None:
            await self.admit(identity)
        return identity.shard

    async def _load_scripts(self, connection: AbstractConnection, run_id: str) -> None:
        """Load all scripts into a node of a cluster when the first connection to it is opened.

        If a script is missing, it is loaded into the node that owns the key of the call. This does not work for a call
        that ASK redirected, because its key leads to another node.
        """
        if run_id not in self._loaded_into:
            loads = [("SCRIPT", "LOAD", script.source) for script in self._scripts]
            await connection.send_packed_command(connection.pack_commands(loads))
            for _ in loads:
                await connection.read_response()
            self._loaded_into.add(run_id)


async def _read_config_epoch(connection: AbstractConnection) -> int:
    """Return the number of the node's configuration. Raises RedisConnectionError if it is a replica."""
    await connection.send_command("ROLE")
    role, *_ = await connection.read_response()
    if role != b"master":
        raise RedisConnectionError("this node of the cluster is a replica")
    await connection.send_command("CLUSTER", "INFO")
    found = _CONFIG_EPOCH.search(await connection.read_response())
    return int(found[1]) if found is not None else 0


async def _read_shard(connection: AbstractConnection) -> str:
    """Return the id that a primary and its replicas share.

    Raises RedisConnectionError if there is none: a promoted replica looks like a new shard.
    """
    await connection.send_command("CLUSTER", "MYSHARDID")
    try:
        found: bytes = await connection.read_response()
    except ResponseError as error:
        reason = "this Redis has no shard id: it is not part of a cluster, or older than 7.2"
        raise RedisConnectionError(reason) from error
    return found.decode()
