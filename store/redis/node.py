"""Pipelines to one Redis: the only one, or one node of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from store.redis.calls import Call
from store.redis.pipeline_connection import Encode, PendingCalls
from store.redis.pipeline_pool import PipelinePool

TIMEOUT_SECONDS = 5.0
"""Longest wait for the opening of a connection, for an idle connection, and for a reply."""

_MAX_SHARED_CALLS = 16
"""A caller with more calls gets a connection of its own: others would have to wait for all its replies."""

_SHARED_CONNECTIONS = 3
"""More connections cost more CPU, fewer make callers wait for each other."""

_NOT_A_CLUSTER = "cluster support disabled"
"""In the answer of a Redis that is not part of a cluster."""

_DEDICATED_CONNECTIONS = 16


class RedisNode:
    """One Redis, with shared pipelines for callers of few calls and dedicated ones for callers of many.

    `shard` is the id of its shard in a cluster, after its first connection was admitted; else "".
    """

    def __init__(self, url: str, encode: Encode, admit: Callable[[AbstractConnection], Awaitable[None]]) -> None:
        """Open no connection yet. encode, admit: see `PipelinePool`."""
        self.shard = ""
        connections = ConnectionPool.from_url(
            url,
            protocol=2,
            socket_connect_timeout=TIMEOUT_SECONDS,
            socket_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self.shared = PipelinePool(
            connections, _SHARED_CONNECTIONS, TIMEOUT_SECONDS, shared=True, encode=encode, admit=admit
        )
        self._dedicated = PipelinePool(
            connections, _DEDICATED_CONNECTIONS, TIMEOUT_SECONDS, shared=False, encode=encode, admit=admit
        )
        self._questions = PipelinePool(
            connections, 1, TIMEOUT_SECONDS, shared=True, encode=encode, admit=_admit_for_questions
        )

    def enqueue(self, calls: Sequence[Call], run_size: int) -> PendingCalls:
        """Send calls when a connection is idle. run_size: all calls of the caller, those on other nodes included."""
        return (self.shared if run_size <= _MAX_SHARED_CALLS else self._dedicated).enqueue(calls)

    async def ask(self, question: Call) -> Any:
        """Return the answer to a question about the cluster. The connection for it is not admitted.

        So replicas answer too, and so does a node whose admission depends on the answer. Raises RedisError, OSError.
        """
        (answer,) = await self._questions.run([question])
        if isinstance(answer, Exception):
            if _NOT_A_CLUSTER in str(answer):
                raise RedisConnectionError("this Redis is not part of a cluster")
            raise answer
        return answer

    @property
    def queued(self) -> int:
        """Callers whose calls were not sent yet."""
        return self.shared.queued + self._dedicated.queued

    def drop(self) -> None:
        """End all connections that commands use, and fail all callers. Later calls go over new connections."""
        self.shared.drop()
        self._dedicated.drop()

    async def close(self) -> None:
        """Like `drop`, and wait until the connections have ended."""
        await asyncio.gather(self.shared.close(), self._dedicated.close(), self._questions.close())


async def _admit_for_questions(_connection: AbstractConnection) -> None:
    """Admit a connection that is used for nothing else."""
