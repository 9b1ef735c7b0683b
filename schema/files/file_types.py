"""The GraphQL types of files and uploads."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Self

import strawberry

from resolvers.base.errors import InvalidInput
from resolvers.files.attachments import ShownFile, find_file, show_own, shown_attachment
from resolvers.files.new_files import NewFile
from resolvers.files.uploading import Upload
from resolvers.files.variants import variant_for
from schema.base.context import Context, Info
from schema.base.list_sizes import holds
from schema.base.nodes import Node
from schema.base.scalars import DateTime
from schema.compiler import reads
from store.base.ids import file_id
from store.files.file import Attachment, File, FileState


@strawberry.enum(
    description="SCANNING: an external scanner is configured and has not answered. REJECTED: by the scanner, or an "
    "image that cannot be decoded safely."
)
class AttachmentState(Enum):
    UPLOADING = FileState.UPLOADING
    SCANNING = FileState.SCANNING
    READY = FileState.READY
    REJECTED = FileState.REJECTED
    REMOVED = FileState.REMOVED


@strawberry.type(
    name="Attachment",
    description="url: valid for one hour for whoever has it; issued only to people who may read the message at that "
    "moment. Served with nosniff, and as a download unless browsers display the type safely (images except SVG, audio, "
    "video, PDF, plain text). Range and If-None-Match are supported. Null until READY, and once the message is "
    "recalled. Images: orientation is applied and all metadata removed; sizeBytes is the size as stored.",
)
class AttachmentType(Node):
    record: strawberry.Private[ShownFile]
    id: strawberry.ID
    filename: str = reads("record.filename")
    content_type: str = reads("record.content_type")
    size_bytes: int = reads("record.size")
    description: str | None = reads("record.description")
    state: AttachmentState = reads("record.state")
    width: int | None = reads(
        "record.width",
        description="Images and videos, in pixels. thumbHash: a preview of about 25 bytes (ThumbHash, base64) to show "
        "meanwhile.",
    )
    height: int | None = reads("record.height")
    thumb_hash: str | None = reads("record.thumb_hash")
    spoiler: bool = reads("record.spoiler")

    @strawberry.field
    def url(self, info: Info) -> str | None:
        return self._address(info.context, None)

    @strawberry.field(
        description="Images: scaled to the smallest of 160, 320, 640 and 1280 pixels that is not below width (else "
        "1280); never larger than the original."
    )
    def thumbnail_url(self, info: Info, width: int | None = 320) -> str | None:
        wanted = 320 if width is None else width
        if wanted < 1:
            raise InvalidInput("width must be at least 1", field="width")
        return self._address(info.context, variant_for(self.record.width, wanted)) if self.record.is_image else None

    def _address(self, context: Context, width: int | None) -> str | None:
        if not self.record.has_bytes:
            return None
        return context.app.addresses.file(self.record.id, self.record.filename, width)

    @classmethod
    async def find(cls, context: Context, attachment: str) -> Self | None:
        """Return a file, or None if the viewer can't see it."""
        shown = await find_file(context.app, context.viewer, attachment)
        return cls._from(shown) if shown is not None else None

    @classmethod
    def of_message(cls, attachment: Attachment) -> Self:
        """Return a file of a message that the viewer may read."""
        return cls._from(shown_attachment(attachment))

    @classmethod
    def without_bytes(cls, attachment: Attachment) -> Self:
        """Return a file of a message that the viewer may not read: it has no address."""
        return cls._from(replace(shown_attachment(attachment), has_bytes=False))

    @classmethod
    async def of_owner(cls, context: Context, file: File) -> Self:
        """Return a file that belongs to the viewer."""
        return cls._from(await show_own(context.app, file))

    @classmethod
    def _from(cls, shown: ShownFile) -> Self:
        return cls(record=shown, id=strawberry.ID(file_id(shown.id)))


@strawberry.type(name="Header")
class HeaderType:
    name: str
    value: str


@strawberry.type(name="Upload", description="id: also that of the Attachment.")
class UploadType:
    record: strawberry.Private[Upload]
    id: strawberry.ID = reads("record.file.public_id")
    url: str = reads("record.url")
    method: str = reads("record.method")
    expires_at: DateTime = reads("record.expires_at_ms")

    @strawberry.field(metadata=holds(5))
    def headers(self) -> list[HeaderType]:
        return [HeaderType(name=name, value=value) for name, value in self.record.headers.items()]


@strawberry.input
class CreateUploadInput:
    filename: str
    size_bytes: int
    content_type: str | None = None
    sha256: str | None = None
    description: str | None = None
    conversation_id: strawberry.ID
    spoiler: bool | None = False
    idempotency_key: str | None = None

    def to_new_file(self) -> NewFile:
        """Return the input with its defaults filled in."""
        return NewFile(
            filename=self.filename,
            size=self.size_bytes,
            conversation=self.conversation_id,
            type_hint=self.content_type,
            sha256=self.sha256,
            description=self.description,
            spoiler=self.spoiler or False,
            key=self.idempotency_key,
        )
