"""Checks each new connection before it is used: which Redis it leads to, and whether that Redis has the scripts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from store.redis.calls import Script
from store.redis.keys import SLOTS


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The state of a cluster: the slots of one node's shard, and the epochs of all primaries.

    Attributes:
        slots: The slots of the shard. May contain slots of other shards, but lacks none.
        primary_epochs: The configuration epoch of each primary with slots, by node id, as that node reports them.
    """

    slots: Collection[int] = range(SLOTS)
    primary_epochs: Mapping[str, int] = field(default_factory=dict)


async def _report_all_slots() -> ClusterReport:
    return ClusterReport()


@dataclass(frozen=True, slots=True)
class RedisIdentity:
    """The Redis behind a new connection.

    Attributes:
        run: Its run id, which each start of a process chooses at random.
        shard: Its shard id in a cluster, common to a primary and its replicas; "" elsewhere. If a primary
            dies soon after a replica has joined, the replica keeps a shard id of its own.
        node: Its node id in a cluster.
        config_epoch: Its configuration epoch in a cluster. It grows when a replica takes over after a vote.
        has_loaded_data: True if it may have data from a primary that it followed, or from a file.
        read_report: Asks the nodes of the cluster for a report about this one. Raises RedisError, OSError.
    """

    run: str
    shard: str = ""
    node: str = ""
    config_epoch: int = 0
    has_loaded_data: bool = False
    read_report: Callable[[], Awaitable[ClusterReport]] = _report_all_slots


Admit = Callable[[RedisIdentity], Awaitable[None]]
"""Called with the Redis behind a new connection. An exception refuses the connection."""

_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)
_IS_PRIMARY = re.compile(rb"^role:master", re.MULTILINE)
_NO_SECOND_REPLICATION_ID = re.compile(rb"^master_replid2:0+\s", re.MULTILINE)
"""Matches a node without a second replication id. A promoted replica has one for at least an hour
(`repl-backlog-ttl`)."""

_LOADED_NOTHING = re.compile(rb"^rdb_last_load_keys_loaded:0\s", re.MULTILINE)
"""Matches a node that has read no keys from a file, and received none when it began to follow a primary."""

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

    async def check(self, connection: AbstractConnection, read_report: Callable[[], Awaitable[ClusterReport]]) -> str:
        """Return the id of the shard that a connection leads to; "" if it is not a cluster.

        Raises RedisError, OSError, StoreError. Refuses replicas, whose run id is not that of the primary.
        """
        if self.admit is None and not self._is_cluster:
            return ""
        await connection.send_command("INFO", "default" if self._is_cluster else "server")
        info: bytes = await connection.read_response()
        found = _RUN_ID.search(info)
        if found is None:
            raise RedisConnectionError("this Redis does not report its run id")
        identity = RedisIdentity(found[1].decode())
        if self._is_cluster:
            if not _IS_PRIMARY.search(info):
                raise RedisConnectionError("this node of the cluster is a replica")
            shard, node = await _read_shard(connection), await _read_node(connection)
            epoch = await _read_config_epoch(connection)
            # A node whose INFO lacks one of these lines counts as one with loaded data.
            has_loaded_data = not (_NO_SECOND_REPLICATION_ID.search(info) and _LOADED_NOTHING.search(info))
            identity = RedisIdentity(identity.run, shard, node, epoch, has_loaded_data, read_report)
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


async def _read_node(connection: AbstractConnection) -> str:
    await connection.send_command("CLUSTER", "MYID")
    found: bytes = await connection.read_response()
    return found.decode()


async def _read_config_epoch(connection: AbstractConnection) -> int:
    await connection.send_command("CLUSTER", "INFO")
    found = _CONFIG_EPOCH.search(await connection.read_response())
    return int(found[1]) if found is not None else 0


async def _read_shard(connection: AbstractConnection) -> str:
    """Return the id that a primary and its replicas share.

    Raises RedisConnectionError if there is none: without it, a paused primary would look like its successor.
    """
    await connection.send_command("CLUSTER", "MYSHARDID")
    try:
        found: bytes = await connection.read_response()
    except ResponseError as error:
        reason = "this Redis has no shard id: it is not part of a cluster, or older than 7.2"
        raise RedisConnectionError(reason) from error
    return found.decode()
