"""Replays the steps of a chat log through the use cases of the API: many at once, in the order of the log."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from resolvers.base.app import Confab
from resolvers.groups.group_changes import invite_members
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from server.chat_import.ordered_turns import OrderedTurns, Turn, in_turn
from server.chat_import.plan import IMPORTER, JoinStep, RenameStep, SendStep, Step
from store.base.ids import ConversationId, MessageId, UserId

UNDER_WAY = 32
"""Steps that have begun and are not durable yet. More were not faster: showing messages takes longer than storing them."""

SPREADING = 200
"""Messages that are durable and have not reached all members of a large group yet."""

_SAVE_SECONDS = 1.0
_SETTLE_SECONDS = 20.0


@dataclass(slots=True)
class ImportCounts:
    """What one run of an import has added."""

    messages: int = 0
    joins: int = 0
    renames: int = 0


class ImportRunner:
    """One log on its way into one group. Everything its first `done` lines make happen is durable."""

    def __init__(
        self,
        app: Confab,
        group: ConversationId,
        digest: str,
        *,
        members: Collection[UserId],
        done: int,
        stored: Collection[str],
        rename: Callable[[UserId, str], Awaitable[None]],
        save: Callable[[int], Awaitable[None]],
        tell: Callable[[int], None],
    ) -> None:
        """`stored`: keys of messages that are durable already. `save` keeps a number of lines, `tell` shows it."""
        self._app = in_turn(app)
        self._group = group
        self._digest = digest
        self._members = set(members)
        self._stored = stored
        self._rename, self._save, self._tell = rename, save, tell
        self._turns = OrderedTurns()
        self._free = asyncio.Semaphore(UNDER_WAY)
        # Of the steps under way and those that failed, by line, the first one first.
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._spreading: deque[MessageId] = deque()
        self._reached = self._saved = done
        self._saved_at = 0.0
        self.counts = ImportCounts()

    @property
    def done(self) -> int:
        """Lines before the first that is under way or has failed."""
        return next(iter(self._tasks)) - 1 if self._tasks else self._reached

    async def run(self, steps: Sequence[Step], length: int) -> None:
        """Carries out the steps after the lines done. Raises ConfabError, StoreError.

        However it ends, what it began is durable then (or, where a database doesn't answer, unknown), and `done` is saved.
        """
        try:
            for step in steps:
                if step.line > self._reached:
                    await self._begin(step)
            await self._finish()
            self._reached = length
            await self._thin_out(0)
        finally:
            await self._settle()

    async def _begin(self, step: Step) -> None:
        await self._free.acquire()
        await self._check()
        await self._thin_out(SPREADING)
        self._tell(self.done)
        now = asyncio.get_running_loop().time()
        if now - self._saved_at > _SAVE_SECONDS:
            self._saved_at = now
            await self._keep()
        self._tasks[step.line] = task = asyncio.create_task(self._carry_out(step, self._turns.next()))
        self._reached = step.line
        task.add_done_callback(partial(self._end, step.line))

    def _end(self, line: int, task: asyncio.Task[None]) -> None:
        self._free.release()
        if not task.cancelled() and task.exception() is None:
            del self._tasks[line]

    async def _carry_out(self, step: Step, turn: Turn) -> None:
        async with turn:
            match step:
                case SendStep(user=user, text=text, mentions=mentions):
                    key = message_key(self._group, self._digest, step.line)
                    if key not in self._stored:
                        new = NewMessage(None, self._group, text, mentions=mentions, key=key)
                        answer = await send_message(self._app, user, new)
                        self._spreading.append(answer.message.id)
                        self.counts.messages += not answer.replayed
                case JoinStep(user=user):
                    if user not in self._members:
                        await invite_members(self._app, IMPORTER, self._group, [user])
                        self.counts.joins += 1
                case RenameStep(user=user, name=name):
                    await turn.come()
                    await self._rename(user, name)
                    self.counts.renames += 1

    async def _finish(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        await self._check()

    async def _check(self) -> None:
        if self._turns.failure is not None:
            raise self._turns.failure
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # Both drivers send by asyncio.wait_for, which in Python 3.11 may swallow a cancellation; its count stays.
            # One that was not delivered yet comes here, and not while what is under way is waited for.
            await asyncio.sleep(0)
            raise asyncio.CancelledError

    async def _settle(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_SETTLE_SECONDS)
        self._tell(self.done)
        await self._keep()

    async def _keep(self) -> None:
        done = self.done
        if done > self._saved:
            await self._save(done)
            self._saved = done

    async def _thin_out(self, most: int) -> None:
        """Waits until all but so many messages have reached everybody: those that have not take memory."""
        find = self._app.delivery.find
        while True:
            while self._spreading and find(self._spreading[0]) is None:
                self._spreading.popleft()
            if len(self._spreading) <= most:
                return
            await asyncio.sleep(0.005)


def message_key(group: ConversationId, digest: str, line: int) -> str:
    """The idempotency key of the message that a line of a log makes in a group."""
    return f"import {group} {digest} {line}"
