"""The users of this process who are shown online, in the sets of their workspaces (ADR 80).

A user counts from the moment on when a device here is shown, until nothing of the user here is shown any more: the same
function decides as for viewers, so an INVISIBLE user leaves the sets as one who departs.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice

from store.base.clock import Clock
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId
from store.presence.online_members import KEPT_MS, OnlineMembers
from store.presence.presence_record import PresenceRecord
from store.presence.shown_presence import PresenceStatus, shown_presence

WRITE_SECONDS = 1.0
"""Interval at which changes are written."""

EXTEND_SECONDS = KEPT_MS / 4 / 1000
"""Interval at which the time of the sets is extended."""

MOST_LISTED = 1_000
"""Largest number of members that are listed as online."""

_USERS_AT_ONCE = 500
_SPARE_CHANGES = 1_000
"""Scheduled changes that may be out of date, in addition to one for each user."""
_KNOWN_MS = 10_000
"""Time for which a number is used again."""

FindRecord = Callable[[UserId], PresenceRecord | None]
"""Returns a user's devices on this process, with the user's setting; None if there are none or it is not known yet."""

ListWorkspaces = Callable[[Sequence[UserId]], Awaitable[Mapping[UserId, Collection[WorkspaceId]]]]
"""Returns the workspaces of users."""

ListServers = Callable[[], Collection[str]]
"""Returns the servers whose devices are shown."""


class OnlineUsers:
    """Writes the sets of this process, and reads those of all servers.

    What is written follows from the present devices. So a write that fails is repeated, and nothing is queued.
    """

    def __init__(
        self,
        server: str,
        sets: OnlineMembers,
        clock: Clock,
        find_record: FindRecord,
        list_workspaces: ListWorkspaces,
        list_servers: ListServers,
    ) -> None:
        """Begin with no users."""
        self._server = server
        self._sets = sets
        self._clock = clock
        self._find_record = find_record
        self._list_workspaces = list_workspaces
        self._list_servers = list_servers
        self._written: dict[UserId, frozenset[WorkspaceId]] = {}
        """The sets that each user is in."""
        self._changed: dict[UserId, None] = {}
        self._moved: set[UserId] = set()
        """Users whose workspaces have changed."""
        self._being_written: set[UserId] = set()
        self._lock = asyncio.Lock()
        """Held while sets are written, so that an earlier state never replaces a later one."""
        self._due: list[tuple[int, UserId]] = []
        """A heap of the times at which users change by themselves. Entries that differ from `_due_at` are ignored."""
        self._due_at: dict[UserId, int] = {}
        """When something about a user changes by itself (ms)."""
        self._numbers: dict[WorkspaceId, tuple[int, asyncio.Future[int]]] = {}

    def note(self, users: Iterable[UserId]) -> None:
        """Note that devices or the settings of users have changed. It does not block."""
        self._changed.update(dict.fromkeys(users))

    def note_workspaces(self, users: Iterable[UserId]) -> None:
        """Note that users have joined or left workspaces. Users without devices here are ignored."""
        moved = [user for user in users if user in self._written or user in self._being_written]
        self._moved.update(moved)
        self.note(moved)

    def resync(self) -> None:
        """Write all users again: Redis has lost them."""
        users, self._written = list(self._written), {}
        self.note(users)

    async def write(self) -> None:
        """Write what has changed. Called every second. Raises StoreError: the next call repeats it."""
        async with self._lock:
            await self._write_changed()

    async def _write_changed(self) -> None:
        now = self._clock.now_ms()
        while self._due and self._due[0][0] <= now:
            at_ms, user = heappop(self._due)
            if self._due_at.get(user) == at_ms:
                del self._due_at[user]
                self._changed[user] = None
        while self._changed:
            users = list(islice(self._changed, _USERS_AT_ONCE))
            moved = self._moved.intersection(users)
            for user in users:
                del self._changed[user]
            self._moved -= moved
            self._being_written.update(users)
            try:
                await self._write(users, moved, now)
            except BaseException:
                self._changed.update(dict.fromkeys(users))
                self._moved |= moved
                raise
            finally:
                self._being_written.clear()

    async def extend(self) -> None:
        """Extend the time of all sets of this process, and write those again that are lost. Raises StoreError."""
        async with self._lock:
            workspaces = list({workspace for joined in self._written.values() for workspace in joined})
            lost = frozenset(await self._sets.extend(self._server, workspaces) if workspaces else ())
            for user, joined in self._written.items():
                if joined & lost:
                    self._written[user] = joined - lost
                    self._moved.add(user)
                    self._changed[user] = None

    async def count(self, workspace: WorkspaceId) -> int:
        """Return how many members of a workspace are shown online. At most 11 s old. Raises StoreError.

        One round trip in 10 s for all callers of this process.
        """
        now = self._clock.now_ms()
        known = self._numbers.get(workspace)
        if known is None or now - known[0] >= _KNOWN_MS:
            if len(self._numbers) > 10_000:
                self._numbers.clear()
            reading = asyncio.ensure_future(self._sets.count(workspace, self._list_servers()))
            known = self._numbers[workspace] = now, reading
        try:
            return await asyncio.shield(known[1])
        except Exception:
            if self._numbers.get(workspace) is known:
                del self._numbers[workspace]
            raise

    async def list_first(self, workspace: WorkspaceId) -> list[UserId]:
        """Return up to MOST_LISTED members of a workspace who are shown online. One round trip. Raises StoreError."""
        return await self._sets.list_first(workspace, self._list_servers(), MOST_LISTED)

    async def _write(self, users: Sequence[UserId], moved: Collection[UserId], now_ms: int) -> None:
        shown = [user for user in users if self._is_shown(user, now_ms)]
        unknown = [user for user in shown if user in moved or user not in self._written]
        wanted = {user: self._written[user] for user in shown if user in self._written}
        if unknown:
            joined = await self._list_workspaces(unknown)
            wanted |= {user: frozenset(joined.get(user, ())) for user in unknown}
        added, removed = defaultdict[WorkspaceId, list[UserId]](list), defaultdict[WorkspaceId, list[UserId]](list)
        for user in users:
            former, present = self._written.get(user, frozenset()), wanted.get(user, frozenset())
            for workspace in present - former:
                added[workspace].append(user)
            for workspace in former - present:
                removed[workspace].append(user)
        if added or removed:
            await self._sets.change(self._server, added, removed)
        for user in users:
            self._written.pop(user, None)
        self._written |= wanted

    def _is_shown(self, user: UserId, now_ms: int) -> bool:
        """Return whether a device of a user here is shown, and note when that changes by itself."""
        record = self._find_record(user)
        if record is None:
            self._due_at.pop(user, None)
            return False
        shown, changes_at_ms = shown_presence(record, _never_ended, now_ms)
        self._schedule(user, changes_at_ms)
        return shown.status is not PresenceStatus.OFFLINE

    def _schedule(self, user: UserId, at_ms: int | None) -> None:
        """Look at a user again at a time, and not at the time that was scheduled before."""
        if at_ms is None:
            self._due_at.pop(user, None)
            return
        if self._due_at.get(user) == at_ms:
            return
        self._due_at[user] = at_ms
        if len(self._due) > 2 * len(self._due_at) + _SPARE_CHANGES:
            self._due = [(at, name) for name, at in self._due_at.items()]
            heapify(self._due)
        else:
            heappush(self._due, (at_ms, user))


def _never_ended(server: str) -> None:
    """Return None: the record has devices of this process alone, which is alive."""
