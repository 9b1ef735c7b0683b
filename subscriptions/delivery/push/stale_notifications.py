"""Shown notifications that have to be removed, because users have read, muted or left conversations (ADR 87)."""

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
"""Reasons of changed sessions after which a notification may have to be removed."""


class StaleNotifications:
    """Collects users and conversations, and makes their intents due four times a second, if a notification is shown.

    A request does not wait for this. If the process dies first, a notification stays until the next one in its
    conversation, or until the user opens it.
    """

    def __init__(self, intents: PushIntents, *, is_enabled: bool) -> None:
        self._intents = intents
        self._is_enabled = is_enabled
        self._waiting: dict[tuple[UserId, ConversationId], None] = {}
        self._task: asyncio.Task[None] | None = None
        self.on_due: Callable[[], None] = lambda: None
        """Called when intents have become due."""

    def add(self, user: UserId, conversations: Iterable[ConversationId]) -> None:
        """Add conversations whose notifications a user does not need any more. Returns at once."""
        if not self._is_enabled:
            return
        for conversation in conversations:
            if len(self._waiting) < _MOST_KEPT:
                self._waiting[user, conversation] = None
        if self._waiting and self._task is None:
            self._task = asyncio.create_task(self._write_soon())

    def add_changed(self, user: UserId, reason: SyncReason, conversations: Iterable[ConversationId]) -> None:
        """Add conversations whose sessions have changed, if the reason ends their notifications. Returns at once."""
        if self._is_enabled and reason in _REMOVING:
            self.add(user, conversations)

    async def write(self) -> None:
        """Make the intents due. If Redis does not answer, the notifications stay."""
        waiting, self._waiting = list(self._waiting), {}
        try:
            for start in range(0, len(waiting), _AT_ONCE):
                if await self._intents.touch(waiting[start : start + _AT_ONCE]):
                    self.on_due()
        except StoreError as error:
            _log.warning("stale_notifications_dropped", reason=str(error))

    async def close(self) -> None:
        """Write everything that was added, then stop."""
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
