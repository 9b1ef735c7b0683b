"""The `rev` of objects: a position on a clock from before the rest was read, so that no later event is missed.

Workspaces and channels are on the clock of the workspace, threads in private conversations and groups on the viewer's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from resolvers.base.app import Confab
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId

T = TypeVar("T")

_MARGIN_MS = 2_000
"""Larger than the differences between the clocks of servers."""


async def read_with_rev(
    app: Confab, workspace: WorkspaceId, read: Callable[[], Awaitable[T | None]]
) -> tuple[T, int] | None:
    """Return a state of a workspace, and the workspace's clock before it was read. None if `read` returns None."""
    (reading,) = await app.store.clocks.find([workspace])
    state = await read()
    if state is None:
        return None
    if reading is None:
        # A read begins the clock, so only users who see the workspace may cause one.
        (reading,) = await app.store.clocks.read([workspace])
        state = await read()
        if state is None:
            return None
    return state, reading.tick


async def find_own_rev_before(app: Confab, user: UserId, began_ms: int) -> int:
    """Return a position on the user's own clock before a time (ms). One round trip to Redis if the state is cached.

    Resuming there may repeat events of up to two seconds that a state includes which was read after that time.
    """
    snapshot = await app.store.sessions.find_many(user, ())
    return max(1, min(snapshot.clock, began_ms - _MARGIN_MS))


async def list_revs_before(app: Confab, workspaces: Sequence[WorkspaceId], began_ms: int) -> list[int]:
    """Return positions on the clocks of workspaces before a time (ms): states that were read later include all of it.

    One round trip to Redis. Resuming there may repeat events of up to two seconds that the state includes. A clock that
    began after that time may have lost events that the state does not include. Then its position cannot be resumed.
    """
    readings = await app.store.clocks.read_epochs(workspaces)
    reading_ms = app.store.clock.now_ms() - began_ms + 1
    positions = []
    for reading in readings:
        position = min(reading.tick, began_ms - _MARGIN_MS)
        if reading.age_ms > reading_ms:
            # All events before its begin are older than the state.
            position = max(reading.begin, position)
        positions.append(max(1, position))
    return positions
