"""The mutation that begins an export."""

from __future__ import annotations

import strawberry

from resolvers.export.exports import export_my_data
from schema.base.context import Info
from schema.export.export_types import ExportType


@strawberry.type
class ExportMutations:
    @strawberry.mutation(
        description="A file with everything the caller wrote, uploaded and set, as JSON lines; ready within a day, "
        "kept for seven. One at a time."
    )
    async def export_my_data(self, info: Info) -> ExportType:
        return ExportType.of(await export_my_data(info.context.app, info.context.viewer))
