"""Revocations as a process knows them: asked for at each request, so without a read.

They are told over the bus at once. As that may lose what it is told, they are also read from MongoDB: at the start, whenever
this process begins to listen anew, and every LOOK_SECONDS.
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

LOOK_SECONDS = 30.0
"""How late a server is at most that was not told."""

_KIND = "revoked"
_PAUSES = (0.1, 2.0)
_MARGIN_MS = 24 * 3600 * 1000
"""Clocks of those who revoke differ by less: what is newer than the newest that is known, less this, is read again."""


class Revocations:
    """Which tokens of whom are not good any more. Until `is_known`, nothing is known of any."""

    def __init__(self, rows: RevocationStore, bus: Bus) -> None:
        self._rows = rows
        self._since: dict[UserId, int] = {}
        self._known = asyncio.Event()
        self._stale = asyncio.Event()
        self._told: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        bus.on(_KIND, self._heard)
        bus.on_fresh(self._stale.set)

    @property
    def is_known(self) -> bool:
        """Whether they were read."""
        return self._known.is_set()

    def is_revoked(self, user: UserId, issued_at: float | None) -> bool:
        """Whether a user's token, issued at a time (seconds since the epoch; None: it doesn't say), was revoked."""
        since = self._since.get(user)
        return since is not None and (issued_at is None or issued_at * 1000 < since)

    def on_news(self, call: Callable[[], None]) -> None:
        """`call` is made after each time that more tokens were revoked. It must not wait for anything."""
        self._told.append(call)

    async def open(self) -> None:
        """Begins to keep up with them. Returns once they are known: it tries until MongoDB answers."""
        self._task = asyncio.create_task(self._keep_up())
        await self._known.wait()

    async def close(self) -> None:
        """Stops."""
        if self._task is not None:
            await end_tasks([self._task])

    async def _keep_up(self) -> None:
        pause, longest = _PAUSES
        while True:
            self._stale.clear()
            try:
                self._note(await self._rows.list_since(max(self._since.values(), default=0) - _MARGIN_MS))
                self._known.set()
                wait, pause = LOOK_SECONDS, _PAUSES[0]
            except StoreError as error:
                _log.warning("revocations are not known yet, will try again", reason=str(error))
                wait, pause = pause, min(2 * pause, longest)
            except Exception:
                _log.exception("revocations could not be read")
                wait = LOOK_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._stale.wait()

    def _heard(self, frame: Any) -> None:
        self._note({UserId(user): at for user, at in frame})

    def _note(self, revoked: Revoked) -> None:
        news = {user: at for user, at in revoked.items() if at > self._since.get(user, -1)}
        if not news:
            return
        self._since |= news
        for call in self._told:
            call()


async def tell_servers(cache: Cache, revoked: Revoked) -> None:
    """Tells all servers of revocations that are stored. Raises Unreachable."""
    frame = orjson.dumps({_KIND: list(revoked.items())})
    await cache.one(Call("PUBLISH", (), (cache.keys.broadcast(), frame)))
