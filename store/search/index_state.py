"""State of the index of messages, stored in the row of the deployment (ADR 85)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from store.base.snowflakes import created_at_ms

FRESH_SECONDS = 5.0
"""Time for which a state is used after it was read."""


class StateField:
    """Stored names of the fields of `search` in the row `deployment` {_id 1}.

    The row has no `search` until a version with search has opened a deployment of an earlier version.
    """

    REBUILD = "n"
    """Number of the last rebuild; 0: there was none."""
    BEGUN = "begun"
    """When that rebuild began (ms by MongoDB's clock)."""
    IS_FULL = "full"
    """True while that rebuild runs."""
    POSITION = "p"
    """Id up to which the past is indexed; absent: all of it is indexed."""
    LAST_ID = "l"
    """Id at which the past ends."""
    EDITED_SINCE = "e"
    """Messages that were edited since then (ms) have to be indexed again; absent: none."""
    UNNOTED_UNTIL = "o"
    """Time (ms) until which servers may store messages without notes."""
    WATCHED_UNTIL = "h"
    """Time (ms) until which all messages were noted, or belong to the past."""
    OWNER = "owner"
    """The process that indexes the past."""
    OWNED_UNTIL = "until"
    """When the lease of that process ends (ms by MongoDB's clock)."""


_F = StateField


class IndexState(NamedTuple):
    """State of the index.

    Attributes:
        rebuild: Number of the last rebuild that began. New rows belong to it.
        position: Id up to which all messages of the past are indexed; None: the whole past is indexed.
        last_id: Id at which the past ends.
        edited_since_ms: Messages that were edited since then have to be indexed too; None: none.
        unnoted_until_ms: Time until which servers may store messages without notes.
        is_full: A rebuild runs: the past has all messages, and its end removes rows of earlier rebuilds.
        begun_ms: When that rebuild began, by MongoDB's clock.
        watched_until_ms: Time until which all messages were noted, or belong to the past.
        is_owned: A process indexes the past.
        now_ms: Time by MongoDB's clock when this was read.
    """

    rebuild: int
    position: int | None = None
    last_id: int = 0
    edited_since_ms: int | None = None
    unnoted_until_ms: int = 0
    is_full: bool = False
    begun_ms: int = 0
    watched_until_ms: int = 0
    is_owned: bool = False
    now_ms: int = 0

    @property
    def is_complete(self) -> bool:
        """True if all messages of the past are indexed."""
        return self.position is None

    @property
    def indexed_up_to_ms(self) -> int | None:
        """Time up to which the past is indexed; None: all of it is indexed."""
        if self.position is None:
            return None
        indexed = created_at_ms(self.position)
        return indexed if self.edited_since_ms is None else min(indexed, self.edited_since_ms)


class KnownState(NamedTuple):
    """A state that a process has read.

    Attributes:
        state: The state.
        epoch: The epoch of Redis that the process knew before it read the state.
        is_recovering: Redis was lost, and the messages since the loss are not part of the past yet.
        read_at: `time.monotonic` when it was read.
    """

    state: IndexState
    epoch: str
    is_recovering: bool
    read_at: float

    @property
    def is_fresh(self) -> bool:
        """True if it was read less than FRESH_SECONDS ago."""
        return time.monotonic() - self.read_at < FRESH_SECONDS


def new_state(now_ms: int) -> dict[str, Any]:
    """Return the fields for a new deployment: it has no past."""
    return {_F.REBUILD: 0, _F.WATCHED_UNTIL: now_ms}


def state_from(fields: Mapping[str, Any] | None, now_ms: int) -> IndexState:
    """Return the state in stored fields; None: nothing is indexed."""
    if fields is None:
        return IndexState(0, 0)
    return IndexState(
        fields[_F.REBUILD],
        fields.get(_F.POSITION),
        fields.get(_F.LAST_ID, 0),
        fields.get(_F.EDITED_SINCE),
        fields.get(_F.UNNOTED_UNTIL, 0),
        fields.get(_F.IS_FULL, False),
        fields.get(_F.BEGUN, 0),
        fields.get(_F.WATCHED_UNTIL, 0),
        fields.get(_F.OWNED_UNTIL, 0) > now_ms,
        now_ms,
    )
