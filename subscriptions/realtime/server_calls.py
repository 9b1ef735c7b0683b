"""What one server asks of another, over the bus, and waits for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import structlog

from store.base.errors import Unreachable
from store.base.tasks import end_tasks
from subscriptions.transport.engine import Json

_log = structlog.get_logger()

_PATIENCE_SECONDS = 5.0

Publish = Callable[[str, Json], Awaitable[int]]
"""Sends a frame to a server. Answers how many heard it."""


class Calls:
    """This server's calls to others, and theirs to this one.

    A call is made at most once. One without an answer may have been heeded all the same.
    """

    def __init__(self, server: str, publish: Publish) -> None:
        self._server = server
        self._publish = publish
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._answer: Callable[[Json], Awaitable[Json]] | None = None

    def answer_with(self, answer: Callable[[Json], Awaitable[Json]]) -> None:
        """Has calls of other servers answered by `answer`. What it raises is logged, and the caller waits in vain."""
        self._answer = answer

    async def ask(self, server: str, question: Json) -> Json:
        """The other server's answer. Raises Unreachable where it is gone, or doesn't answer in time."""
        number = next(self._numbers)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            heard = await self._publish(
                server, {"call": {"number": number, "from": self._server, "question": question}}
            )
            if not heard:
                raise Unreachable("the other server is gone")
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await answer
        except TimeoutError:
            raise Unreachable("the other server gave no answer") from None
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """Answers no more."""
        await end_tasks(self._answering)

    def receive(self, call: Json) -> None:
        """A call, or the answer to one, that came over the bus."""
        if "question" in call:
            task = asyncio.create_task(self._reply(call))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        waiting = self._waiting.get(call["number"])
        if waiting is not None and not waiting.done():
            waiting.set_result(call["answer"])

    async def _reply(self, call: Json) -> None:
        if self._answer is None:
            return
        try:
            answer = await self._answer(call["question"])
            await self._publish(call["from"], {"call": {"number": call["number"], "answer": answer}})
        except Exception:
            _log.exception("another server's call was not answered")
