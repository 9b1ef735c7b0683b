"""The job that erases a user: steps that may be repeated, run in passes until nothing is found (ADR 94)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from resolvers.base.app import Confab
from resolvers.erasure.departures import (
    end_blocks,
    leave_group_as_erased,
    leave_workspaces,
    remove_devices,
    unfollow_thread,
)
from resolvers.erasure.refusal import refuse_user
from resolvers.jobs.job_worker import STOP_SECONDS, RunningJob
from store.base.errors import Unreachable
from store.base.ids import ConversationId, ConversationKind, UserId, kind_of
from store.erasure.inventory import COLLECTIONS, Treatment
from store.erasure.renaming import Renaming
from store.erasure.row_changes import is_open_membership
from store.jobs.job_store import is_running
from store.mongo.client import Document
from store.mongo.collections import CONVERSATIONS, FILES, JOBS, MEMBERS, MESSAGES, REACTIONS, REPORTS, WORKSPACES_OF

_log = structlog.get_logger()

_MOST_PASSES = 10
_PAUSE_SECONDS = 1.0
"""Pause before a further pass: operations that began before the user was refused have ended then."""

_INDEXING_SECONDS = 30.0
"""Longest time that a pass waits for the index of messages."""

_SAVE_SECONDS = 1.0
_REFUSE_SECONDS = 600.0
"""Interval at which the refusal of the user is renewed. It ends after an hour."""

TREATED = tuple(name for name, rule in COLLECTIONS.items() if rule.treatment is not Treatment.NO_USERS)
STEPS: tuple[str, ...] = ("awaited", "threads", "departures", "reactions", "private", *TREATED, "redis")
"""The steps of a pass, in order."""

LEAST_PASSES = 2
"""Passes of each erasure, at least: the last one has to find nothing."""


@dataclass(frozen=True, slots=True)
class ErasureInput:
    """Input of the job. It is removed at the end of the erasure.

    Attributes:
        user: The user.
        pseudonym: The id that takes the place of theirs.
        removes_messages: Remove the content of the user's messages too.
    """

    user: UserId
    pseudonym: UserId
    removes_messages: bool

    def to_stored(self) -> dict[str, Any]:
        """Return the stored form."""
        return {"user": self.user, "pseudonym": self.pseudonym, "messages": self.removes_messages}


def steps_left(progress: Any) -> int:
    """Return the number of steps that remain at a progress, if the next pass finds nothing."""
    pass_number, step = int(progress.get("pass", 0)), int(progress.get("step", 0))
    return len(STEPS) - step + len(STEPS) * max(0, LEAST_PASSES - 1 - pass_number)


class ErasureJob:
    """Runs erasures."""

    def __init__(self, app: Confab) -> None:
        self._app = app

    async def run(self, running: RunningJob) -> None:
        """Do the work of a job. Raises StoreError."""
        stored = running.job.input
        if stored:
            given = ErasureInput(stored["user"], stored["pseudonym"], stored["messages"])
            await _Erasure(self._app, running, given).run()
            # The input is the last place with the id.
            await running.forget_input()


class _Erasure:
    """One run of a job."""

    def __init__(self, app: Confab, running: RunningJob, given: ErasureInput) -> None:
        self._app = app
        self._erasure = app.store.user_erasure
        self._running = running
        self._given = given
        self._renaming = Renaming(given.user, given.pseudonym)
        self._progress: dict[str, Any] = {"pass": 0, "step": 0, "found": 0, "after": None} | dict(running.progress)
        self._saved_at = self._refused_at = 0.0

    async def run(self) -> None:
        """Make passes until one finds nothing."""
        progress = self._progress
        while progress["pass"] < _MOST_PASSES:
            await self._refuse()
            while progress["step"] < len(STEPS):
                await self._run_step(STEPS[progress["step"]])
                progress |= {"step": progress["step"] + 1, "after": None}
                await self._running.save(dict(progress))
            is_last = progress["pass"] >= LEAST_PASSES - 1 and not progress.get("waited")
            if progress["found"] == 0 and is_last:
                await self._running.save({})
                return
            # This pass waited for rows. They are written by now, perhaps into a collection that it had read before.
            waited = progress.get("waits", 0)
            progress |= {"pass": progress["pass"] + 1, "step": 0, "found": 0, "after": None, "waited": waited}
            await self._running.save(dict(progress))
            await asyncio.sleep(_PAUSE_SECONDS)
        # No progress: an erasure that never ends has failed after some attempts.
        await self._running.save({}, counts=False)
        raise Unreachable("every pass has found the id again; the erasure is tried again")

    async def _refuse(self) -> None:
        self._refused_at = asyncio.get_running_loop().time()
        await refuse_user(self._app, self._given.user)

    async def _run_step(self, step: str) -> None:
        match step:
            case "awaited":
                await self._await_writes()
            case "threads":
                await self._each_row(MEMBERS, self._unfollow_threads)
            case "departures":
                await self._depart()
            case "reactions":
                await self._each_row(REACTIONS, self._remove_reactions)
            case "private":
                await self._each_row(CONVERSATIONS, self._move_private)
            case "redis":
                waits = await self._erasure.clearing.clear(self._renaming, self._save_sometimes)
                self._progress |= {"found": self._progress["found"] + waits, "waits": waits}
            case _:
                await self._each_row(step, lambda rows: self._rewrite(step, rows))

    async def _await_writes(self) -> None:
        """Wait for rows that servers still write about what happened before, perhaps behind a step that has passed."""
        loop, notes = asyncio.get_running_loop(), self._app.store.unindexed_messages
        self._progress["found"] += await self._erasure.clearing.count_awaited(self._renaming)
        # A message gets its note for the index before it leaves the outbox, and loses it after its row is written.
        began = loop.time()
        while True:
            number, oldest_ms = await notes.measure()
            waited = loop.time() - began
            if not number or oldest_ms < waited * 1000:
                return
            if waited > _INDEXING_SECONDS:
                self._progress["found"] += 1
                return
            await asyncio.sleep(0.1)

    async def _depart(self) -> None:
        await remove_devices(self._app, self._given.user)
        await end_blocks(self._app, self._given.user, self._save_sometimes)
        await leave_workspaces(self._app, self._renaming)
        await self._each_row(MEMBERS, self._leave_groups)

    async def _each_row(self, collection: str, work: Callable[[Sequence[Document]], Awaitable[None]]) -> None:
        """Call a function with the rows of a collection that may contain the id, in small steps with pauses."""
        rewriting, after = self._erasure.rewriting, self._progress["after"]
        async for end in rewriting.list_windows(collection, after):
            rows = await rewriting.find_rows(collection, self._renaming, after, end)
            if rows:
                await work(rows)
            after = self._progress["after"] = end
            if end is not None:
                await self._save_sometimes()

    async def _save_sometimes(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._saved_at >= _SAVE_SECONDS:
            self._saved_at = now
            if now - self._refused_at >= _REFUSE_SECONDS:
                await self._refuse()
            await self._running.save(dict(self._progress))

    async def _unfollow_threads(self, rows: Sequence[Document]) -> None:
        for row in rows:
            thread, _, user = row["_id"].partition(" ")
            if user == self._given.user and kind_of(thread) is ConversationKind.THREAD and is_open_membership(row):
                await unfollow_thread(self._app, user, ConversationId(thread))

    async def _leave_groups(self, rows: Sequence[Document]) -> None:
        for row in rows:
            conversation, _, user = row["_id"].partition(" ")
            if user == self._given.user and kind_of(conversation) is ConversationKind.GROUP and is_open_membership(row):
                await leave_group_as_erased(self._app, user, ConversationId(conversation))

    async def _remove_reactions(self, rows: Sequence[Document]) -> None:
        for row in rows:
            is_own = row["_id"].rpartition(" ")[2] == self._given.user
            if is_own and await self._erasure.contents.remove_reaction(row):
                self._progress["found"] += 1
            await self._save_sometimes()

    async def _move_private(self, rows: Sequence[Document]) -> None:
        for row in rows:
            conversation = ConversationId(row["_id"])
            if self._renaming.rename_conversation(conversation) != conversation:
                self._progress["found"] += 1
                await self._erasure.moves.move(
                    conversation, self._renaming, self._recall_messages, self._save_sometimes
                )

    async def _recall_messages(self, rows: Sequence[Document]) -> Sequence[Document]:
        return await self._erasure.contents.recall_messages(
            rows, self._renaming, removes_messages=self._given.removes_messages
        )

    async def _leave_again(self, collection: str, rows: Sequence[Document]) -> None:
        """End what began after the departures: the user was refused while somebody added them."""
        if collection == MEMBERS:
            await self._unfollow_threads(rows)
            await self._leave_groups(rows)
        elif collection == WORKSPACES_OF and any(row["_id"].startswith(f"{self._given.user} ") for row in rows):
            await leave_workspaces(self._app, self._renaming)

    async def _rewrite(self, collection: str, rows: Sequence[Document]) -> None:
        if collection == JOBS:
            rows = [row for row in rows if row["_id"] != self._running.job.id]
            await self._take_jobs(rows)
            return
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part: Sequence[Document] = rows[start : start + _ROWS_AT_ONCE]
            if collection == MESSAGES:
                part = await self._recall_messages(part)
            elif collection == REPORTS:
                part = await self._erasure.contents.withhold_reports(
                    part, self._renaming, removes_messages=self._given.removes_messages
                )
            elif collection == FILES:
                await self._erasure.contents.remove_files(part, self._renaming)
            else:
                await self._leave_again(collection, part)
            self._progress["found"] += await self._erasure.rewriting.rewrite(collection, self._renaming, part)
            if collection == MESSAGES:
                await self._erasure.contents.drop_heads(part)
            await self._save_sometimes()

    async def _take_jobs(self, rows: Sequence[Document]) -> None:
        """Remove or rename jobs about the user. Those that run have stopped when this returns."""
        rewriting = self._erasure.rewriting
        self._progress["found"] += await rewriting.rewrite(JOBS, self._renaming, rows)
        if any(is_running(row) and rewriting.changes(JOBS, self._renaming, row) for row in rows):
            await asyncio.sleep(STOP_SECONDS)


_ROWS_AT_ONCE = 500
