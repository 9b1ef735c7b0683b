"""Jobs that recall what a banned user wrote in the last seconds before the ban (ADR 96)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from resolvers.base.app import Confab
from resolvers.jobs.job_worker import RunningJob
from resolvers.messages.recalling import need_no_right
from resolvers.recalls.recalls_at_once import recall_all
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId
from store.jobs.job import Job
from store.messages.message import Message
from store.threads.thread_lists import ThreadPosition

_THREADS_PER_READ = 200
_CONVERSATIONS_PER_READ = 500
_RECALLS_PER_STEP = 200
_CLOCK_MARGIN_MS = 60_000
"""More than the difference of servers' clocks."""


class WrittenRecalls:
    """Does the work of RECALLS jobs.

    Input of a job: `workspace` (null: everywhere), `by` (the moderator), `since` and `until` (ms): what the user writes
    after the ban was lifted stays. Progress: `conversation`, the
    last one that was begun, and `seq`, up to which it is done.
    """

    def __init__(self, app: Confab) -> None:
        self._app = app

    async def run(self, running: RunningJob) -> None:
        """Recall what the user of a job has written. Raises StoreError: it is continued then."""
        progress = running.progress
        begun = ConversationId(progress["conversation"]) if progress else None
        if begun is not None:
            await self._recall_in(running, begun, int(progress["seq"]))
        async for conversation in self._list_conversations(running.job, begun):
            await self._recall_in(running, conversation, 0)

    async def _recall_in(self, running: RunningJob, conversation: ConversationId, after_seq: int) -> None:
        job, written = running.job, self._app.store.written_messages
        until_ms = int(job.input["until"]) + _CLOCK_MARGIN_MS
        async for batch in written.list_since(conversation, job.user, int(job.input["since"]), after_seq):
            wanted = [
                message for message in batch.messages if _is_recallable(message) and message.created_at_ms <= until_ms
            ]
            for start in range(0, len(wanted), _RECALLS_PER_STEP):
                part = wanted[start : start + _RECALLS_PER_STEP]
                await recall_all(self._app, part, UserId(job.input["by"]), need_no_right, None)
                await running.save({"conversation": conversation, "seq": part[-1].seq})
            await running.save({"conversation": conversation, "seq": batch.last_seq})

    async def _list_conversations(self, job: Job, after: ConversationId | None) -> AsyncIterator[ConversationId]:
        """Yield the conversations in which the user may have written since the time, after one, in a fixed order."""
        if job.input["workspace"] is not None:
            for inside in await self._list_in_workspace(WorkspaceId(job.input["workspace"]), int(job.input["since"])):
                if after is None or inside > after:
                    yield inside
            return
        while page := await self._app.store.user_conversations.list_after(job.user, after, _CONVERSATIONS_PER_READ):
            for conversation in page:
                yield conversation
            after = page[-1]

    async def _list_in_workspace(self, workspace: WorkspaceId, since_ms: int) -> Sequence[ConversationId]:
        policy = await self._app.store.policies.find(workspace)
        if policy is None:
            return []
        found = set[ConversationId](policy.channels)
        for channel in policy.channels:
            found |= await self._list_threads(channel, since_ms - _CLOCK_MARGIN_MS)
        return sorted(found)

    async def _list_threads(self, channel: ConversationId, since_ms: int) -> set[ConversationId]:
        """Return the threads of a channel with a reply since a time."""
        found, after = set[ConversationId](), None
        while True:
            page: list[ThreadPosition] = await self._app.store.thread_lists.list_threads(
                channel, after, _THREADS_PER_READ
            )
            found |= {position.thread for position in page if position.written_at_ms >= since_ms}
            if len(page) < _THREADS_PER_READ or page[-1].written_at_ms < since_ms:
                return found
            after = page[-1]


def _is_recallable(message: Message) -> bool:
    """Return whether a message is recalled. The copy of a reply follows its reply."""
    return message.kind.countable and not message.is_recalled and message.broadcast_of is None
