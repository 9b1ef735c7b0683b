"""State of the index of messages: a part of the deployment's row, known to every server (ADR 85)."""

from __future__ import annotations

from typing import NamedTuple


class IndexState(NamedTuple):
    """State of the index.

    Attributes:
        rebuild: Number of the last rebuild that began. New rows belong to it.
        position: Id up to which a rebuild has indexed all messages; None: all messages of the past are indexed.
        last_id: Id at which that rebuild ends.
    """

    rebuild: int
    position: int | None
    last_id: int
