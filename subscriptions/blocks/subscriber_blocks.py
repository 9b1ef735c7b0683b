"""The users that subscribers of this process have blocked, in memory, because every event needs them (ADR 95)."""

from __future__ import annotations

import asyncio

import structlog

from store.base.errors import StoreError
from store.base.ids import UserId
from store.base.tasks import end_tasks
from store.blocks.block_rows import BlockRow
from store.blocks.block_store import BlockStore, ChangedBlock
from subscriptions.blocks.block_changes import BlockChanges
from subscriptions.realtime.bus import Bus

_log = structlog.get_logger()

_USERS_AT_ONCE = 200
_PAUSE_SECONDS = 1.0


class _BlockList:
    """The list of one user: the row that was read, and later changes, which may arrive in any order."""

    __slots__ = ("_changes", "_read", "users", "uses")

    def __init__(self) -> None:
        self.uses = 0
        self.users: frozenset[UserId] = frozenset()
        self._read = BlockRow(frozenset(), -1)
        self._changes: dict[UserId, ChangedBlock] = {}
        """The newest change of each blocked user, later than what was read."""

    @property
    def is_read(self) -> bool:
        return self._read.revision >= 0

    def take(self, row: BlockRow) -> None:
        """Use a row from now on, unless a later one is used."""
        if row.revision < self._read.revision:
            return
        self._read = row
        self._changes = {user: each for user, each in self._changes.items() if each.revision > row.revision}
        self._derive()

    def change(self, change: ChangedBlock) -> None:
        """Apply a change, unless a later one of the same user is known."""
        known = self._changes.get(change.user)
        if change.revision > max(self._read.revision, known.revision if known is not None else -1):
            self._changes[change.user] = change
            self._derive()

    def _derive(self) -> None:
        added = {user for user, change in self._changes.items() if change.block is not None}
        self.users = frozenset((self._read.users - self._changes.keys()) | added)


class SubscriberBlocks:
    """The block lists of users who have subscriptions here. The frame of a change arrives before later events."""

    def __init__(self, blocks: BlockStore, changes: BlockChanges, bus: Bus) -> None:
        """Begin without lists."""
        self._blocks = blocks
        self._lists: dict[UserId, _BlockList] = {}
        self._resyncing: asyncio.Task[None] | None = None
        self._must_resync = False
        """Frames may have been lost since the last resync began."""
        changes.listen(self._change)
        bus.on_subscribed(self.resync)

    async def close(self) -> None:
        """Stop reading."""
        if self._resyncing is not None:
            await end_tasks([self._resyncing])

    def has_blocked(self, user: UserId, other: UserId) -> bool:
        """Return whether a user has blocked another one. False if the list of the user is not kept here."""
        kept = self._lists.get(user)
        return kept is not None and other in kept.users

    def keep(self, user: UserId) -> None:
        """Keep the list of a user until `release` is called. Call `read` next."""
        kept = self._lists.get(user)
        if kept is None:
            kept = self._lists[user] = _BlockList()
        kept.uses += 1

    async def read(self, user: UserId) -> None:
        """Read the list of a user, if it is kept: one round trip to Redis, unless it was read. Raises StoreError."""
        kept = self._lists.get(user)
        if kept is not None and not kept.is_read:
            kept.take(await self._blocks.read(user))

    def release(self, user: UserId) -> None:
        """Stop keeping the list of a user. Call it once for each `keep`."""
        kept = self._lists[user]
        kept.uses -= 1
        if not kept.uses:
            del self._lists[user]

    def resync(self) -> None:
        """Read all lists again: frames may have been lost."""
        self._must_resync = True
        if self._resyncing is None:
            self._resyncing = asyncio.create_task(self._resync())

    async def _resync(self) -> None:
        try:
            waiting = list[UserId]()
            while waiting or self._must_resync:
                if self._must_resync:
                    self._must_resync, waiting = False, list(self._lists)
                part, later = waiting[:_USERS_AT_ONCE], waiting[_USERS_AT_ONCE:]
                try:
                    for user, row in (await self._blocks.rows.find(part)).items() if part else ():
                        kept = self._lists.get(user)
                        if kept is not None:
                            kept.take(row)
                    waiting = later
                except StoreError as error:
                    _log.warning("blocks_not_read_yet", reason=str(error))
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._resyncing = None

    def _change(self, change: ChangedBlock) -> None:
        kept = self._lists.get(change.blocker)
        if kept is not None:
            kept.change(change)
