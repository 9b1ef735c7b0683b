"""Tells the workers of pushes that users have read, muted or left conversations: notifications there have to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from store.base.background import mark_as_background
from store.base.errors import StoreError
from store.base.ids import ConversationId, UserId
from store.base.tasks import end_tasks
from store.push.push_intents import PushIntents
from store.sessions.fields import SyncReason

_log = structlog.get_logger()

_INTERVAL_SECONDS = 0.25
_MOST_KEPT = 20_000
_AT_ONCE = 1_000

_REMOVING = (SyncReason.READ, SyncReason.MUTE, SyncReason.DELETE, SyncReason.MEMBERSHIP)
"""Reasons of changed sessions after which a notification may have to go."""


class ReadNotices:
    """Collects notices of this process, and makes the intents due whose notification is shown.

    A notice costs its request nothing. If the process dies before it is written, a notification stays until the next
    one in its conversation, or until the device opens it.
    """

    def __init__(self, intents: PushIntents, *, is_enabled: bool) -> None:
        self._intents = intents
        self._is_enabled = is_enabled
        self._waiting: dict[tuple[UserId, ConversationId], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.on_due: Callable[[], None] = lambda: None
        """Called when intents have become due."""

    def note(self, user: UserId, conversations: Iterable[ConversationId]) -> None:
        """Note that a user needs no notifications of conversations any more. Returns at once."""
        if not self._is_enabled:
            return
        for conversation in conversations:
            if len(self._waiting) < _MOST_KEPT:
                self._waiting[user, conversation] = None
        if self._waiting and self._task is None:
            self._task = asyncio.create_task(self._write_soon())

    def note_change(self, user: UserId, reason: SyncReason, conversations: Iterable[ConversationId]) -> None:
        """Note that sessions of a user have changed for a reason. Returns at once."""
        if self._is_enabled and reason in _REMOVING:
            self.note(user, conversations)

    async def write(self) -> None:
        """Write what was noted. If it fails, the notices are dropped."""
        waiting, self._waiting = list(self._waiting), {}
        try:
            for start in range(0, len(waiting), _AT_ONCE):
                if await self._intents.touch(waiting[start : start + _AT_ONCE]):
                    self.on_due()
        except StoreError as error:
            _log.warning("read_notices_dropped", reason=str(error))

    async def close(self) -> None:
        """Write what was noted, then stop."""
        if self._task is not None:
            await end_tasks([self._task])
            self._task = None
        await self.write()

    async def _write_soon(self) -> None:
        mark_as_background()
        while self._waiting:
            await asyncio.sleep(_INTERVAL_SECONDS)
            await self.write()
        self._task = None
