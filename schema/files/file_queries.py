"""The query for one file."""

from __future__ import annotations

import strawberry

from schema.base.context import Info
from schema.files.file_types import AttachmentType


@strawberry.type
class FileQueries:
    @strawberry.field
    async def attachment(self, info: Info, id: strawberry.ID) -> AttachmentType | None:
        return await AttachmentType.find(info.context, id)
