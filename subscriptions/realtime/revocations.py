"""Revoked tokens, kept in memory, because every request checks them.

The bus notifies servers of revocations at once. It may lose frames, so revocations are also read from MongoDB: at the
start, each time that this process begins to listen, and every CHECK_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import structlog

from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.redis.cache import Cache, Call
from store.users.revocation_store import RevocationStore, Revoked
from subscriptions.realtime.bus import Bus

_log = structlog.get_logger()

CHECK_SECONDS = 30.0
"""Longest time until a server that missed the frame applies a revocation."""

_FRAME = "revoked"
_PAUSE_SECONDS = (0.1, 2.0)
_MARGIN_MS = 24 * 3600 * 1000
"""More than the difference of servers' clocks. Revocations up to this much older than the newest are read again."""


class Revocations:
    """The revocations that this process has read. Empty until `is_known`."""

    def __init__(self, rows: RevocationStore, bus: Bus) -> None:
        self._rows = rows
        self._since: dict[UserId, int] = {}
        self._known = asyncio.Event()
        self._stale = asyncio.Event()
        self._on_change: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        bus.on_frame(_FRAME, self._receive)
        bus.on_subscribed(self._stale.set)

    @property
    def is_known(self) -> bool:
        """True once they were read from MongoDB."""
        return self._known.is_set()

    def is_revoked(self, user: UserId, issued_at: float | None) -> bool:
        """Return whether a user's token is revoked. issued_at: seconds since the epoch; None if the token has none."""
        since = self._since.get(user)
        return since is not None and (issued_at is None or issued_at * 1000 < since)

    def on_change(self, call: Callable[[], None]) -> None:
        """Make `call` each time that more tokens were revoked. It must not block."""
        self._on_change.append(call)

    async def open(self) -> None:
        """Begin to read revocations. Return after the first read, which is repeated until MongoDB answers."""
        self._task = asyncio.create_task(self._follow())
        await self._known.wait()

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            await end_tasks([self._task])

    async def _follow(self) -> None:
        pause, longest = _PAUSE_SECONDS
        while True:
            self._stale.clear()
            try:
                self._add(await self._rows.list_since(max(self._since.values(), default=0) - _MARGIN_MS))
                self._known.set()
                wait, pause = CHECK_SECONDS, _PAUSE_SECONDS[0]
            except StoreError as error:
                _log.warning("revocations_not_read_yet", reason=str(error))
                wait, pause = pause, min(2 * pause, longest)
            except Exception:
                _log.exception("revocations_not_read")
                wait = CHECK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stale.wait()

    def _receive(self, frame: Any) -> None:
        self._add({UserId(user): at for user, at in frame})

    def _add(self, revoked: Revoked) -> None:
        news = {user: at for user, at in revoked.items() if at > self._since.get(user, -1)}
        if not news:
            return
        self._since |= news
        for call in self._on_change:
            call()


async def announce_revocations(cache: Cache, revoked: Revoked) -> None:
    """Notify all servers of stored revocations. Raises Unreachable."""
    frame = orjson.dumps({_FRAME: list(revoked.items())})
    await cache.one(Call("PUBLISH", (), (cache.keys.broadcast(), frame)))
