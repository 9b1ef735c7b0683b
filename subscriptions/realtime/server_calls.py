"""Calls from one server to another, over the bus."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from store.base.errors import StoreError, Unreachable
from store.base.tasks import end_tasks

_log = structlog.get_logger()

_TIMEOUT_SECONDS = 5.0

Json = dict[str, Any]


class ServerGone(Unreachable):
    """Raised if a server does not listen at present, so that it got no call."""


Publish = Callable[[str, Json], Awaitable[int]]
"""Sends a frame to a server. Returns the number of servers that received it."""


class ServerCalls:
    """This server's calls to others, and their calls to this one.

    A call is made at most once. A call without an answer may have been carried out.
    """

    def __init__(self, server: str, publish: Publish) -> None:
        self._server = server
        self._publish = publish
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Json | None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._answers: dict[str, Callable[[Json], Awaitable[Json]]] = {}

    def answer_kind(self, field: str, answer: Callable[[Json], Awaitable[Json]]) -> None:
        """Set the function that answers calls whose question has a field. If it raises, the caller gets no answer."""
        self._answers[field] = answer

    async def ask(self, server: str, question: Json, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> Json:
        """Return another server's answer. Raises Unreachable if there is none in time, and ServerGone."""
        number = next(self._numbers)
        answer: asyncio.Future[Json | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            receivers = await self._publish(
                server, {"call": {"number": number, "from": self._server, "question": question}}
            )
            if not receivers:
                raise ServerGone("the other server is gone")
            async with asyncio.timeout(timeout_seconds):
                answered = await answer
            if answered is None:
                raise Unreachable("the other server does not know this kind of question")
            return answered
        except TimeoutError:
            raise Unreachable("the other server gave no answer") from None
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """Stop answering."""
        await end_tasks(self._answering)

    def receive(self, call: Json) -> None:
        """Take a call, or the answer to one, from the bus."""
        if "question" in call:
            task = asyncio.create_task(self._reply(call))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
            return
        waiting = self._waiting.get(call["number"])
        if waiting is not None and not waiting.done():
            waiting.set_result(call["answer"])

    async def answer(self, question: Json) -> Json:
        """Return this server's own answer. Raises Unreachable for other kinds of questions."""
        answer_question = self._find_answer(question)
        if answer_question is None:
            raise Unreachable("this server does not know this kind of question")
        return await answer_question(question)

    def _find_answer(self, question: Json) -> Callable[[Json], Awaitable[Json]] | None:
        return next((self._answers[name] for name in question if name in self._answers), None)

    async def _reply(self, call: Json) -> None:
        question = call["question"]
        answer_question = self._find_answer(question)
        try:
            # An unknown question of a later version is answered with None, so that its caller need not wait.
            answer = await answer_question(question) if answer_question is not None else None
            await self._publish(call["from"], {"call": {"number": call["number"], "answer": answer}})
        except StoreError as error:
            # The caller gets no answer, and asks again.
            _log.warning("server_call_not_answered", reason=str(error))
        except Exception:
            _log.exception("server_call_failed")
