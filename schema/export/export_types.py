"""The GraphQL types of exports."""

from __future__ import annotations

from typing import Self

import strawberry

from resolvers.export.exports import ShownExport
from schema.base.context import Info
from schema.base.scalars import DateTime
from schema.compiler import reads
from store.jobs.job import JobState

strawberry.enum(JobState)


@strawberry.type(name="Export")
class ExportType:
    record: strawberry.Private[ShownExport]
    id: strawberry.ID
    state: JobState = reads("record.job.state")

    @strawberry.field
    def url(self, info: Info) -> str | None:
        return self.record.address(info.context.app)

    expires_at: DateTime | None = reads("record.expires_at_ms")

    @classmethod
    def of(cls, export: ShownExport) -> Self:
        """Return an export of the viewer."""
        return cls(record=export, id=strawberry.ID(export.job.id))
