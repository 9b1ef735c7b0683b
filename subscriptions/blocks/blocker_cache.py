"""The users who have blocked a user of this process, in memory, because typing and events need them (ADR 95)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping

from store.base.ids import UserId
from store.blocks.block_rows import Block, BlockRows
from store.blocks.block_store import ChangedBlock
from subscriptions.blocks.block_changes import BlockChanges
from subscriptions.realtime.bus import Bus

_MOST_KEPT = 1_000
"""Blockers of one user. Of a user with more, only this is kept, and the blockers are read each time."""

_MOST_USERS = 5_000

Listener = Callable[[ChangedBlock | None], None]
"""Takes a change; None: changes may have been missed. It must not block."""


class BlockerCache:
    """Keeps the blockers of up to 5,000 users, the last used ones. A change removes the blockers of its user."""

    def __init__(self, rows: BlockRows, changes: BlockChanges, bus: Bus) -> None:
        """Begin without users."""
        self._rows = rows
        self._known: OrderedDict[UserId, Mapping[UserId, Block] | None] = OrderedDict()
        self._forgotten = 0
        """Number of removals. A read that began before the last one may be out of date."""
        self._listeners: dict[UserId, set[Listener]] = {}
        changes.listen(self._change)
        bus.on_subscribed(self._forget_all)

    async def find(self, user: UserId, among: Collection[UserId]) -> Mapping[UserId, Block]:
        """Return those of up to 5,000 users who have blocked a user, with the blocks.

        No round trip for a user who was asked for before, else one to MongoDB, and always one for a user with more than
        1,000 blockers. Raises Unreachable.
        """
        known = await self._find_all(user)
        if known is None:
            return await self._rows.find_blockers(user, among)
        return {other: known[other] for other in among if other in known} if known else {}

    async def has_any(self, user: UserId) -> bool:
        """Return whether anybody has blocked a user. Round trips as for `find`."""
        known = await self._find_all(user)
        return known is None or bool(known)

    def listen(self, user: UserId, call: Listener) -> None:
        """Call `call` when somebody has blocked or unblocked a user."""
        self._listeners.setdefault(user, set()).add(call)

    def unlisten(self, user: UserId, call: Listener) -> None:
        """Stop these calls. Idempotent."""
        calls = self._listeners.get(user, set())
        calls.discard(call)
        if not calls:
            self._listeners.pop(user, None)

    async def _find_all(self, user: UserId) -> Mapping[UserId, Block] | None:
        """Return all blockers of a user; None if there are too many."""
        if user in self._known:
            self._known.move_to_end(user)
            return self._known[user]
        before = self._forgotten
        listed = await self._rows.list_blockers(user, _MOST_KEPT + 1)
        found = listed if len(listed) <= _MOST_KEPT else None
        if self._forgotten == before:
            self._known[user] = found
            if len(self._known) > _MOST_USERS:
                self._known.popitem(last=False)
        return found

    def _change(self, change: ChangedBlock) -> None:
        self._forgotten += 1
        self._known.pop(change.user, None)
        for call in list(self._listeners.get(change.user, ())):
            call(change)

    def _forget_all(self) -> None:
        self._forgotten += 1
        self._known.clear()
        for calls in list(self._listeners.values()):
            for call in list(calls):
                call(None)
