"""Connections to one Redis that concurrent callers share: what they ask at about the same time goes out as one pipeline.

redis-py opens the connections (addresses, TLS, passwords, databases); from then on its layers, each of which costs as much as
the command itself, are left out: commands are packed and replies are parsed by hiredis, straight at the transport.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, cast

import hiredis
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from store.base.errors import StoreError
from store.base.tasks import end_tasks

_NOTHING = object()
_MOST_COMMANDS = 256
"""Of one pipeline that is shared."""


def _error_reply(text: str) -> ResponseError:
    return NoScriptError(text) if text.startswith("NOSCRIPT") else ResponseError(text)


def packed(command: tuple[Any, ...]) -> bytes:
    """A command as Redis reads it."""
    try:
        text: bytes = hiredis.pack_command(command)
    except TypeError:
        # MongoDB's whole numbers, members of enums: hiredis takes none but the plain types.
        text = hiredis.pack_command(tuple(map(_plain, command)))  # type: ignore[arg-type]  # its stub means a pair of them
    return text


def _plain(word: Any) -> str | int | float | bytes:
    match word:
        case str():
            return str(word)
        case int() if not isinstance(word, bool):
            return int(word)
        case float() | bytes():
            return word
        case _:
            raise TypeError(f"Redis has no {type(word).__name__}")


class Asked:
    """Calls of one caller, which stay together and in order, and the replies to come."""

    __slots__ = ("asked_at", "calls", "replies", "size", "unconnected")

    def __init__(self, calls: Sequence[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.calls = calls
        self.size = len(calls)
        self.asked_at = loop.time()
        self.unconnected = False
        """Whether it failed since no connection could be made: then nothing was sent."""
        self.replies: asyncio.Future[list[Any]] = loop.create_future()

    def fail(self, error: Exception) -> None:
        """It has no replies, or not all of them."""
        if not self.replies.done():
            self.replies.set_exception(error)


class PipelineConnection(asyncio.Protocol):
    """One connection, with one pipeline on its way at most. What is lost with it is lost to those who are in that pipeline."""

    def __init__(self, lines: PipelinePool, connection: AbstractConnection) -> None:
        self._lines = lines
        self.connection = connection
        # The one thing that redis-py has no word for.
        writer = connection._writer
        assert writer is not None
        self._transport = cast(asyncio.Transport, writer.transport)
        self._reader = hiredis.Reader(replyError=_error_reply, notEnoughData=_NOTHING)
        self._asked: deque[Asked] = deque()
        self._replies: list[Any] = []
        self._heard_at = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._transport.set_protocol(self)

    @property
    def is_usable(self) -> bool:
        """Whether a pipeline may be sent."""
        return not (self._asked or self._transport.is_closing())

    def send(self, asked: list[Asked]) -> None:
        """A pipeline of all of them that may still be asked. To be called while it is usable."""
        texts = []
        for each in asked:
            try:
                texts.append(self._lines.pack(each.calls))
            except Exception as error:
                each.fail(error)
            else:
                self._asked.append(each)
        if not texts:
            self._lines.freed(self)
            return
        self._heard_at = self._lines.loop.time()
        if self._watch is None:
            self._watch_until(self._heard_at + self._lines.patience)
        self._transport.write(b"".join(texts))

    def data_received(self, data: bytes) -> None:
        reader, replies, asked = self._reader, self._replies, self._asked
        self._heard_at = self._lines.loop.time()
        try:
            reader.feed(data)
            while True:
                if not asked:
                    # Whatever else came would be taken for the reply to what is asked next.
                    if reader.has_data():
                        self._end(RedisConnectionError("a reply came that nobody asked for"))
                    else:
                        self._lines.freed(self)
                    return
                reply = reader.gets()
                if reply is _NOTHING:
                    return
                replies.append(reply)
                if len(replies) == asked[0].size:
                    answered = asked.popleft().replies
                    if not answered.done():
                        answered.set_result(replies)
                    replies = self._replies = []
        except hiredis.ProtocolError as error:
            self._end(RedisConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(RedisConnectionError("the connection was lost"))

    def close(self) -> None:
        """Ends it, with what is on its way."""
        self._end(RedisConnectionError("the connection was closed"))

    def _watch_until(self, when: float) -> None:
        self._watch = self._lines.loop.call_at(when, self._look)

    def _look(self) -> None:
        """A timer for as long as something is on its way, none for each pipeline."""
        self._watch = None
        if not self._asked:
            return
        until = self._heard_at + self._lines.patience
        if self._lines.loop.time() < until:
            self._watch_until(until)
        else:
            self._end(RedisTimeoutError("no reply in time"))

    def _end(self, error: RedisError) -> None:
        asked, self._asked = self._asked, deque()
        for each in asked:
            each.fail(error)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._transport.abort()
        self._lines.lost(self)


class PipelinePool:
    """Some connections, made as they are needed. Nobody waits for company: what is asked while none of them is at work goes out at
    once. While some are, all that is asked within one turn of the loop goes out together; while all are, whatever is asked
    until one of them is free.

    A failure, a caller's own or that of a connection, reaches those in that pipeline only. A caller who is cancelled takes
    nothing from others; what they asked may have been carried out.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        most: int,
        patience: float,
        *,
        shared: bool,
        pack: Callable[[Sequence[Any]], bytes],
        admit: Callable[[AbstractConnection], Awaitable[None]],
    ) -> None:
        """`most` connections, each of which is given to `admit` before it is used. pack: a caller's calls as Redis reads them, made at
        the moment of sending; what it raises is the caller's. patience: seconds without a word from Redis, or without a free connection, that a caller waits at the
        most. shared: otherwise each caller's commands are a pipeline of their own."""
        self.loop: asyncio.AbstractEventLoop
        self.patience = patience
        self._pool = pool
        self._most = most
        self._shared = shared
        self.pack = pack
        self._admit = admit
        self._waiting: deque[Asked] = deque()
        self._free: list[PipelineConnection] = []
        self._lines: set[PipelineConnection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._flushing = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, calls: Sequence[Any]) -> list[Any]:
        """The replies to one caller's calls, in order; an error that Redis answered is in its place. Raises RedisError and
        OSError where not all of them came."""
        return await self.put(calls).replies

    def put(self, calls: Sequence[Any]) -> Asked:
        """The same, to be waited for later."""
        self.loop = asyncio.get_running_loop()
        asked = Asked(calls, self.loop)
        self._waiting.append(asked)
        if not self._flushing:
            if self._free and len(self._free) == len(self._lines) and not self._opening:
                self._flush()
            else:
                self._flush_soon()
        return asked

    def drop(self) -> None:
        """Ends all connections, with what is on its way. What is asked from then on goes over new ones."""
        while self._waiting:
            self._waiting.popleft().fail(RedisConnectionError("the connections were closed"))
        for line in list(self._lines):
            line.close()

    @property
    def waiting(self) -> int:
        """Callers whose commands were not sent yet."""
        return len(self._waiting)

    async def close(self) -> None:
        """Ends all connections, with what is on its way."""
        self.drop()
        await end_tasks(self._opening)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def freed(self, line: PipelineConnection) -> None:
        """All that was on its way over a connection has been answered."""
        self._free.append(line)
        if self._waiting:
            # A turn later: who was answered just now may ask for more.
            self._flush_soon()

    def lost(self, line: PipelineConnection) -> None:
        """A connection has ended."""
        if line in self._lines:
            self._lines.discard(line)
            if line in self._free:
                self._free.remove(line)
            self._begin(line.connection.disconnect(nowait=True))
            if self._waiting:
                self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        while self._waiting:
            line = self._take_free()
            if line is None and len(self._lines) + len(self._opening) >= self._most:
                return
            asked = self._take_waiting()
            if not asked:
                if line is not None:
                    self._free.append(line)
                return
            if line is not None:
                line.send(asked)
            else:
                opening = self._begin(self._open(asked))
                self._opening.add(opening)
                opening.add_done_callback(partial(self._opened, asked))

    def _take_free(self) -> PipelineConnection | None:
        while self._free:
            line = self._free.pop()
            if line.is_usable:
                return line
        return None

    def _take_waiting(self) -> list[Asked]:
        taken: list[Asked] = []
        size, latest = 0, self.loop.time() - self.patience
        while self._waiting and size < _MOST_COMMANDS:
            asked = self._waiting.popleft()
            if asked.asked_at < latest:
                asked.fail(RedisTimeoutError("no connection was free in time"))
            elif not asked.replies.done():
                taken.append(asked)
                size += asked.size
                if not self._shared:
                    break
        return taken

    async def _open(self, asked: list[Asked]) -> None:
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await self._admit(connection)
            line = PipelineConnection(self, connection)
        except (RedisError, OSError, StoreError, asyncio.CancelledError) as error:
            closed = RedisConnectionError("the connections were closed")
            for each in asked:
                each.unconnected = isinstance(error, RedisError | OSError)
                each.fail(closed if isinstance(error, asyncio.CancelledError) else error)
            await connection.disconnect(nowait=True)
            return
        finally:
            self._opening.difference_update({asyncio.current_task()})
            if self._waiting:
                self._flush_soon()
        self._lines.add(line)
        line.send(asked)

    def _opened(self, asked: list[Asked], opening: asyncio.Task[None]) -> None:
        """Nobody waits for ever, even if it was cancelled before it began, or came to an end that nobody thought of."""
        self._opening.discard(opening)
        error = None if opening.cancelled() else opening.exception()
        for each in asked if opening.cancelled() or error else ():
            failure = RedisConnectionError(str(error) if error else "the connections were closed")
            failure.__cause__ = error
            each.fail(failure)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
