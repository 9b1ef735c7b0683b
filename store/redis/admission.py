"""Checks each new connection before it is used: which Redis it leads to, and whether that Redis has the scripts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from store.redis.calls import Script

Admit = Callable[[str, str], Awaitable[None]]
"""Called with the run id of the Redis behind a new connection, and its shard id in a cluster ("" elsewhere).

An exception refuses the connection.
"""

_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)


class ConnectionAdmission:
    """Identifies the Redis behind a new connection and lets `admit` decide whether it may be used."""

    def __init__(self, scripts: Iterable[Script], *, is_cluster: bool) -> None:
        """Admit all connections until `admit` is set."""
        self.admit: Admit | None = None
        self._scripts = list(scripts)
        self._is_cluster = is_cluster
        self._loaded_into: set[str] = set()
        """Run ids of the nodes of a cluster that have loaded the scripts."""

    async def check(self, connection: AbstractConnection) -> None:
        """Return if the connection may be used. Raises RedisError, OSError, StoreError."""
        if self.admit is None and not self._is_cluster:
            return
        await connection.send_command("INFO", "server")
        info: bytes = await connection.read_response()
        found = _RUN_ID.search(info)
        if found is None:
            raise RedisConnectionError("this Redis does not report its run id")
        run_id, shard = found[1].decode(), ""
        if self._is_cluster:
            shard = await _read_shard(connection)
            await self._load_scripts(connection, run_id)
        if self.admit is not None:
            await self.admit(run_id, shard)

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


async def _read_shard(connection: AbstractConnection) -> str:
    """Return the id that a primary and its replicas share, or the node's own id if this Redis has no shard ids."""
    for subcommand in ("MYSHARDID", "MYID"):
        try:
            await connection.send_command("CLUSTER", subcommand)
            found: bytes = await connection.read_response()
        except ResponseError:
            continue
        return found.decode()
    raise RedisConnectionError("this Redis is not part of a cluster")
