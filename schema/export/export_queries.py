"""The query for one export."""

from __future__ import annotations

import strawberry

from resolvers.export.exports import find_export
from schema.base.context import Info
from schema.export.export_types import ExportType


@strawberry.type
class ExportQueries:
    @strawberry.field
    async def export(self, info: Info, id: strawberry.ID) -> ExportType | None:
        found = await find_export(info.context.app, info.context.viewer, str(id))
        return ExportType.of(found) if found is not None else None
