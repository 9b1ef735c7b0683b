"""Jobs: work in the background that may take long, and that any server continues if another one dies (ADR 93)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NewType

from store.base.ids import UserId

JobId = NewType("JobId", str)
"""A snowflake, in decimal."""


class JobKind(StrEnum):
    """Kind of a job, with stored values."""

    EXPORT = "E"
    """Collects what a user wrote, uploaded and set."""
    ERASURE = "R"
    """Removes a user from everything that is stored."""
    RECALLS = "M"
    """Recalls what a banned user wrote in the last seconds."""


class JobState(StrEnum):
    """State of a job, with stored values."""

    WAITING = "W"
    RUNNING = "R"
    DONE = "D"
    FAILED = "F"


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are in ms.

    Attributes:
        user: The user that the job is about.
        input: What its kind needs to run. It never changes.
        progress: What its kind has noted so far. A server that continues begins there.
        attempts: How often a server has begun or continued it.
        lease: The lease of the server that works on it; "": nobody has.
    """

    id: JobId
    kind: JobKind
    user: UserId
    created_at_ms: int
    state: JobState = JobState.WAITING
    input: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    finished_at_ms: int | None = None
    lease: str = ""
