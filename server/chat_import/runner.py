"""Runs the steps of an import: many at once, with messages in the order of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from resolvers.base.app import Confab
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from server.chat_import.ordered_turns import OrderedTurns, Turn, in_turn
from server.chat_import.plan import JoinStep, RenameStep, SendStep, Step
from store.base.ids import ConversationId, MessageId, UserId

MAX_RUNNING_STEPS = 32
"""Steps that run at once. More are not faster: fan-out takes longer than storing."""

MAX_IN_FLIGHT_MESSAGES = 200
"""Stored messages whose fan-out to a large group is not complete. They take memory."""

_SAVE_SECONDS = 1.0
_SETTLE_SECONDS = 20.0


@dataclass(slots=True)
class ImportCounts:
    """Numbers of messages, joins and renames that one run has added."""

    messages: int = 0
    joins: int = 0
    renames: int = 0


class ImportRunner:
    """Imports one log into one group or channel. The effects of the first `done` lines are durable."""

    def __init__(
        self,
        app: Confab,
        group: ConversationId,
        digest: str,
        *,
        members: Collection[UserId],
        done: int,
        stored: Collection[str],
        join: Callable[[Confab, UserId], Awaitable[object]],
        rename: Callable[[UserId, str], Awaitable[None]],
        save: Callable[[int], Awaitable[None]],
        report: Callable[[int], None],
    ) -> None:
        """Create the runner.

        Args:
            app: The parts of the process.
            group: The group or channel to import into.
            digest: Digest of the log.
            members: Users who may write there.
            done: Number of lines whose effects are durable.
            stored: Idempotency keys of messages that are stored already.
            join: Makes a user a member, with the application that keeps the order of the log.
            rename: Changes the display name of a user.
            save: Stores the number of durable lines.
            report: Shows the number of durable lines.
        """
        self._app = in_turn(app)
        self._group = group
        self._digest = digest
        self._members = set(members)
        self._stored = stored
        self._join, self._rename, self._save, self._report = join, rename, save, report
        self._turns = OrderedTurns()
        self._slots = asyncio.Semaphore(MAX_RUNNING_STEPS)
        # Running and failed steps by line, in order.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._in_flight: deque[MessageId] = deque()
        self._reached = self._saved = done
        self._saved_at = 0.0
        self.counts = ImportCounts()

    @property
    def done(self) -> int:
        """Number of lines before the first running or failed step."""
        return next(iter(self._tasks)) - 1 if self._tasks else self._reached

    async def run(self, steps: Sequence[Step], length: int) -> None:
        """Run the steps after the first `done` lines. Raises ConfabError and StoreError.

        At the end, also after an error, all started steps are durable (or unknown, if a database does not answer), and
        `done` is saved.
        """
        try:
            for step in steps:
                if step.line > self._reached:
                    await self._start(step)
            await self._wait_for_steps()
            self._reached = length
            await self._wait_for_deliveries(0)
        finally:
            await self._settle()

    async def _start(self, step: Step) -> None:
        await self._slots.acquire()
        await self._check()
        await self._wait_for_deliveries(MAX_IN_FLIGHT_MESSAGES)
        self._report(self.done)
        now = asyncio.get_running_loop().time()
        if now - self._saved_at > _SAVE_SECONDS:
            self._saved_at = now
            await self._save_progress()
        self._tasks[step.line] = task = asyncio.create_task(self._run_step(step, self._turns.next()))
        self._reached = step.line
        task.add_done_callback(partial(self._on_step_end, step.line))

    def _on_step_end(self, line: int, task: asyncio.Task[None]) -> None:
        self._slots.release()
        if not task.cancelled() and task.exception() is None:
            del self._tasks[line]

    async def _run_step(self, step: Step, turn: Turn) -> None:
        async with turn:
            match step:
                case SendStep(user=user, text=text, mentions=mentions):
                    key = message_key(self._group, self._digest, step.line)
                    if key not in self._stored:
                        new = NewMessage(None, self._group, text, mentions=mentions, key=key)
                        result = await send_message(self._app, user, new)
                        self._in_flight.append(result.message.id)
                        self.counts.messages += not result.replayed
                case JoinStep(user=user):
                    if user not in self._members:
                        await self._join(self._app, user)
                        self.counts.joins += 1
                case RenameStep(user=user, name=name):
                    await turn.wait()
                    await self._rename(user, name)
                    self.counts.renames += 1

    async def _wait_for_steps(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        await self._check()

    async def _check(self) -> None:
        if self._turns.failure is not None:
            raise self._turns.failure
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # Drivers use asyncio.wait_for, which may swallow a cancellation in Python 3.11; cancelling() counts it.
            # A cancellation that is not delivered yet is delivered here, not while running steps are awaited.
            await asyncio.sleep(0)
            raise asyncio.CancelledError

    async def _settle(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_SETTLE_SECONDS)
        self._report(self.done)
        await self._save_progress()

    async def _save_progress(self) -> None:
        done = self.done
        if done > self._saved:
            await self._save(done)
            self._saved = done

    async def _wait_for_deliveries(self, max_in_flight: int) -> None:
        """Wait until at most `max_in_flight` messages have an incomplete fan-out."""
        find = self._app.delivery.find
        while True:
            while self._in_flight and find(self._in_flight[0]) is None:
                self._in_flight.popleft()
            if len(self._in_flight) <= max_in_flight:
                return
            await asyncio.sleep(0.005)


def message_key(group: ConversationId, digest: str, line: int) -> str:
    """Return the idempotency key of the message of a line."""
    return f"import {group} {digest} {line}"
