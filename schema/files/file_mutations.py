"""Mutations that create, complete and cancel uploads."""

from __future__ import annotations

import strawberry

from resolvers.files.completing import complete_upload
from resolvers.files.uploading import cancel_upload, create_upload
from schema.base.context import Info
from schema.files.file_types import AttachmentType, CreateUploadInput, UploadType


@strawberry.type
class FileMutations:
    @strawberry.mutation(
        description="Reserves space for one file. The client sends the bytes to url with method and headers, "
        "unchanged, before expiresAt (one hour), then calls completeUpload. filename: 1 to 255 characters without a "
        "path. sizeBytes: 1 to the limit (25 MiB by default; TOO_LARGE). sha256: 64 lower-case hexadecimal digits. "
        "contentType is a hint. conversationId: where it will be sent (a p_… that does not exist yet is allowed; for a "
        "thread, the thread or its parent's conversation); in any other conversation it is INVALID_INPUT. A file that "
        "no message used within 24 h is deleted."
    )
    async def create_upload(self, info: Info, input: CreateUploadInput) -> UploadType:
        context = info.context
        return UploadType(record=await create_upload(context.app, context.viewer, input.to_new_file()))

    @strawberry.mutation(
        description="The bytes have been sent. Size and checksum are compared (INVALID_INPUT); the type is determined "
        "from the bytes, not from the name. Repeating gives the same answer."
    )
    async def complete_upload(self, info: Info, upload_id: strawberry.ID) -> AttachmentType:
        context = info.context
        return await AttachmentType.of_owner(context, await complete_upload(context.app, context.viewer, upload_id))

    @strawberry.mutation
    async def cancel_upload(self, info: Info, upload_id: strawberry.ID) -> bool:
        return await cancel_upload(info.context.app, info.context.viewer, upload_id)
