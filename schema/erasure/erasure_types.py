"""The GraphQL type of erasures."""

from __future__ import annotations

import strawberry

from resolvers.erasure.erasing import Erasure
from schema.base.scalars import DateTime
from schema.compiler import reads
from store.jobs.job import JobState

strawberry.enum(JobState)


@strawberry.type(name="Erasure")
class ErasureType:
    record: strawberry.Private[Erasure]
    user_id: strawberry.ID = reads("record.user")
    state: JobState = reads("record.state")
    remaining: int = reads("record.remaining", description="Steps that are left.")
    finished_at: DateTime | None = reads("record.finished_at_ms")


def erasure_from(erasure: Erasure) -> ErasureType:
    """Return the GraphQL object of an erasure."""
    return ErasureType(record=erasure)
