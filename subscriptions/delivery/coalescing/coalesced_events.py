"""Publishes the state of subjects that change often: at most once in an interval over all servers, the last one always.

A change is announced in the outbox before it is written. Its entry is deleted when a publication that began after the
write is complete. So if a server dies at any moment, another one finds the entry and publishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from store.base.errors import StoreError
from store.base.ids import ConversationId
from store.base.request_user import SharedWork
from store.base.tasks import end_tasks
from store.conversations.event_windows import EventWindows
from store.redis.request_scope import RequestScope

_log = structlog.get_logger()

_CLOSING_SECONDS = 5.0
_PAUSE_SECONDS = 0.2
_ATTEMPTS = 10
"""Attempts to publish, over some seconds. Then other servers find the entries in the outbox."""

T = TypeVar("T")

Publish = Callable[[T, Sequence[str]], Awaitable[None]]
"""Publishes the present state of a subject, which it reads, and then deletes outbox entries. May raise StoreError."""


@dataclass(slots=True)
class _Changed(Generic[T]):
    """A subject that has changed, with the outbox entries of changes that no publication covers yet."""

    conversation: ConversationId
    name: str
    subject: T
    entries: list[str] = field(default_factory=list)


class CoalescedEvents(Generic[T]):
    """The subjects that change on this process. `close` waits for running publications."""

    def __init__(self, windows: EventWindows, publish: Publish[T], give_up: Callable[[ConversationId], None]) -> None:
        """Create it.

        Args:
            windows: Bound the publications.
            publish: Publishes a subject.
            give_up: Called with the conversation of a subject that could not be published.
        """
        self._windows = windows
        self._publish = publish
        self._give_up = give_up
        self._changed: dict[str, _Changed[T]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """The number of subjects that are not published yet."""
        return len(self._changed)

    def notify(self, conversation: ConversationId, name: str, subject: T, entry: str) -> None:
        """Publish a subject that has changed, now or soon. Returns at once.

        Args:
            conversation: Its conversation.
            name: Its name, unique among the subjects.
            subject: The subject, as `publish` takes it.
            entry: The outbox entry that announced the change. The change is written.
        """
        changed = self._changed.get(name)
        if changed is not None:
            changed.subject = subject
            changed.entries.append(entry)
            return
        self._changed[name] = _Changed(conversation, name, subject, [entry])
        # Everyone who sees the subject waits for it.
        with SharedWork():
            task = asyncio.create_task(self._run(self._changed[name]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait up to five seconds. Other servers finish the rest from the outbox."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSING_SECONDS)
        await end_tasks(self._tasks)

    async def _run(self, changed: _Changed[T]) -> None:
        """Publish a subject until it has not changed since."""
        failures = 0
        try:
            while changed.entries:
                try:
                    with RequestScope():
                        await self._publish_once(changed)
                    failures = 0
                except StoreError as error:
                    failures += 1
                    if failures == _ATTEMPTS:
                        self._give_up(changed.conversation)
                        _log.warning("event_not_published_yet", subject=changed.name, reason=str(error))
                        return
                    await asyncio.sleep(_PAUSE_SECONDS)
        except Exception:
            _log.exception("event_not_published", subject=changed.name)
        finally:
            del self._changed[changed.name]

    async def _publish_once(self, changed: _Changed[T]) -> None:
        claimed = tuple(changed.entries)
        wait_ms = await self._windows.claim(changed.conversation, changed.name, claimed)
        taken = list[str]()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
            taken = await self._windows.take(changed.conversation, changed.name)
        if wait_ms < 0 or (wait_ms > 0 and not taken):
            # Another server publishes, and begins after the claim.
            changed.entries = [entry for entry in changed.entries if entry not in claimed]
            return
        # The event shows all changes up to this moment, also those of this process that were not claimed.
        covered = list(dict.fromkeys((*changed.entries, *taken)))
        changed.entries = []
        try:
            await self._publish(changed.subject, covered)
        except BaseException:
            changed.entries = [*covered, *changed.entries]
            raise
