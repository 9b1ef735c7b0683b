"""Commands to the primary over connections that PyMongo opens and this module uses directly (ADR 39).

PyMongo knows the servers, finds the primary, opens and authenticates connections. Sessions, retries and command
monitoring are not used here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import AutoReconnect, NetworkTimeout, NotPrimaryError, OperationFailure, PyMongoError
from pymongo.server_selectors import writable_server_selector
from pymongo.topology_shared import _ErrorContext

from store.base.tasks import end_tasks
from store.mongo.direct_connection import DirectConnection, PendingCommand, encode_command
from store.mongo.read_queue import ReadQueue
from store.mongo.writes import Command

_CLOSED = "the connections were closed"
_MAX_CONNECTIONS = 100
_MAX_OPENING = 4
"""Connections that are opened at the same time. Most commands of a burst find an idle one before theirs is open."""

_REPEATABLE = frozenset({6, 7, 89, 134, 262, 9001})
"""Codes of replies after which a read may succeed: a mongos has lost a shard, or a new primary is not ready."""


class DirectCommands:
    """Runs commands of one database on the primary, or on a mongos. Connections are opened when they are needed.

    Cancelling a caller does not stop its command.
    """

    def __init__(self, client: AsyncMongoClient[Any], database: str, timeout_seconds: float, reads: ReadQueue) -> None:
        """Open no connection yet.

        Args:
            client: Finds the primary and opens connections.
            database: The database of all commands.
            timeout_seconds: Longest wait for a connection, and then for a reply.
            reads: The queue in which reads wait.
        """
        self._reads = reads
        self._client = client
        self.database = database
        self._timeout_seconds = timeout_seconds
        self._loop: asyncio.AbstractEventLoop
        self._is_closed = False
        self._waiting: deque[PendingCommand] = deque()
        self._idle: list[DirectConnection] = []
        self._connections: set[DirectConnection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._failure: tuple[DirectConnection, Exception] | None = None
        """The last connection that was lost with a command in flight, of which PyMongo has no notice yet."""

    def begin(
        self, commands: Sequence[Command], on_end: Callable[[], None] | None = None
    ) -> list[asyncio.Future[dict[str, Any]]]:
        """Send commands at the same time. Returns the futures of their replies.

        on_end: called when a command has ended, also if its caller was cancelled.

        The futures raise PyMongoError; after an AutoReconnect that is no NotPrimaryError, the command may have been
        executed. Raises ValueError, TypeError for values that cannot be stored; nothing was sent then.
        """
        self._loop = asyncio.get_running_loop()
        encoded = [encode_command(self.database, *command) for command in commands]
        return [self._enqueue(PendingCommand(message, number, self._loop, on_end)) for message, number in encoded]

    async def read(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Run a command that changes nothing. Repeat it once if its connection was lost or led to a former primary.

        It waits for its turn in the read queue. The reply to a `find` or `aggregate` has all rows in its first batch.
        """
        try:
            return await self._read_once(command)
        except (AutoReconnect, OperationFailure) as error:
            is_final = isinstance(error, OperationFailure) and error.code not in _REPEATABLE
            if is_final or isinstance(error, NetworkTimeout):
                raise
            return await self._read_once(command)

    async def _read_once(self, command: Mapping[str, Any]) -> dict[str, Any]:
        on_end = await self._reads.begin(is_aggregation="aggregate" in command)
        try:
            (reply,) = self.begin((Command(dict(command)),), on_end)
        except BaseException:
            if on_end is not None:
                on_end()
            raise
        return await reply

    async def close(self) -> None:
        """End all connections and fail all callers."""
        self._is_closed = True
        error = AutoReconnect(_CLOSED)
        self._fail_waiting(error, float("inf"))
        await end_tasks(self._opening)
        for connection in list(self._connections):
            connection.end(error)
        self._failure = None

    def end_connections_except(self, writable: Container[tuple[str, int | None]]) -> None:
        """End the connections to all other servers: a former primary may hang instead of closing them."""
        for connection in list(self._connections):
            if connection.connection.address not in writable:
                connection.end(AutoReconnect("the primary has changed"))
        if self._failure is not None and self._failure[0].connection.address not in writable:
            # PyMongo knows. The notice would make it forget what it has learned about that server since.
            self._failure = None

    def _enqueue(self, pending: PendingCommand) -> asyncio.Future[dict[str, Any]]:
        if self._is_closed:
            pending.fail(AutoReconnect(_CLOSED))
            return pending.reply
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                connection.send(pending)
                return pending.reply
        self._waiting.append(pending)
        self._open_missing()
        return pending.reply

    def _open_missing(self) -> None:
        """Open connections for waiting callers, as many as may be opened."""
        while (
            len(self._opening) < min(len(self._waiting), _MAX_OPENING)
            and len(self._connections) + len(self._opening) < _MAX_CONNECTIONS
        ):
            task = self._loop.create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._on_opened)

    async def _open(self) -> None:
        began = self._loop.time()
        try:
            await self._report_failure()
            server = await self._client._select_server(writable_server_selector, None, "command")
            pool = server.pool
            # Without this, a server that accepts the connection and does not answer would be waited for without end.
            async with asyncio.timeout(self._timeout_seconds):
                connection = await pool.connect()
        except TimeoutError:
            self._fail_waiting(NetworkTimeout("no connection could be opened in time"), began)
            return
        except (PyMongoError, OSError) as error:
            self._fail_waiting(error, began)
            return
        # The pool would keep it for interrupting it, which `_on_lost` replaces.
        pool.active_contexts.discard(connection.cancel_context)
        opened = DirectConnection(connection, self._timeout_seconds, self._on_idle, self._on_lost)
        self._connections.add(opened)
        if opened.is_usable:
            self._on_idle(opened)
        else:
            opened.end(AutoReconnect("the connection was lost"))

    def _on_opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            failure = AutoReconnect(f"no connection could be opened: {error}")
            failure.__cause__ = error
            self._fail_waiting(failure, float("inf"))
        self._open_missing()

    async def _report_failure(self) -> None:
        """Let PyMongo look for the primary again if a connection was lost. Until then it would name the same server."""
        failure, self._failure = self._failure, None
        if failure is not None:
            lost, error = failure
            connection = lost.connection
            context = _ErrorContext(
                error, connection.max_wire_version, connection.generation, True, connection.service_id
            )
            topology = await self._client._get_topology()
            await topology.handle_error(connection.address, context)

    def _on_idle(self, connection: DirectConnection) -> None:
        oldest_allowed = self._loop.time() - self._timeout_seconds
        while self._waiting:
            pending = self._waiting.popleft()
            if pending.queued_at < oldest_allowed:
                pending.fail(NetworkTimeout("no connection was idle in time"))
            elif not pending.reply.done():
                connection.send(pending)
                return
            else:
                pending.end()
        self._idle.append(connection)

    def _on_lost(self, connection: DirectConnection, error: Exception, was_in_flight: bool) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if was_in_flight:
            # An idle connection may be lost at any time, while the server is well.
            self._failure = (connection, error)
        if isinstance(error, NotPrimaryError):
            # The others lead to the same server. Those with a command in flight end with its reply.
            former, self._idle = self._idle, []
            for other in former:
                other.end(error)
        if self._waiting:
            self._open_missing()

    def _fail_waiting(self, error: Exception, queued_until: float) -> None:
        """Fail the callers that were waiting at a time of the loop's clock."""
        while self._waiting and self._waiting[0].queued_at <= queued_until:
            self._waiting.popleft().fail(error)
