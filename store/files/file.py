"""Files, and their stored forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from store.base.ids import ConversationId, FileId, MessageId, UserId, file_id
from store.files.blobs.base import BlobInfo
from store.mongo.client import Document

__all__ = ["Attachment", "File", "FileContent", "FileField", "FileId", "FileState", "attachment_from", "file_from"]


class FileState(StrEnum):
    """The contract's AttachmentState, with its stored values."""

    UPLOADING = "U"
    SCANNING = "S"
    READY = "R"
    REJECTED = "J"
    REMOVED = "X"


class FileField:
    """Stored names of the fields of `files`, sharded by ID."""

    ID = "_id"
    OWNER = "o"
    CONVERSATION = "c"
    """The conversation that the owner named."""
    FILENAME = "n"
    SIZE = "s"
    """Announced length in bytes."""
    SHA256 = "h"
    """Announced checksum."""
    TYPE_HINT = "t"
    DESCRIPTION = "d"
    SPOILER = "sp"
    KEY = "ik"
    """Idempotency key."""
    DIGEST = "ih"
    """Digest of the input that the key was used with."""
    STATE = "st"
    BLOBS = "b"
    """Names of everything that may lie in the blob store for this file."""
    UPLOADED = "u"
    """[name, size, checksum] of the last whole upload."""
    CONTENT = "k"
    """`FileContent.to_stored` of the bytes that readers get, once READY."""
    THUMBNAILS = "tn"
    """Names of the blobs of the thumbnails, by width (decimal)."""
    MESSAGE = "m"
    """The message that has claimed the file."""
    CLAIMED_AT = "ma"
    """Time of the last claim (ms). Grows with each claim."""
    IS_BOUND = "mb"
    """True once the message is stored."""
    WRITING_UNTIL = "w"
    """No server writes for this file after this time (ms)."""
    REMOVE_AT = "rm"
    """Time from which the bytes may be removed (ms). Absent while a stored message has the file."""
    TIDY_AT = "ta"
    """Time from which blobs that are not needed are removed (ms). Absent if there are none."""


class FileContent(NamedTuple):
    """Result of an inspection, and the blob that readers get.

    Attributes:
        blob: Name of the blob.
        content_type: Type found in the bytes.
        size: Length in bytes, as stored.
        width: Images and videos: in pixels.
        height: Images and videos: in pixels.
        thumb_hash: ThumbHash in base64.
        is_image: It has thumbnails.
    """

    blob: str
    content_type: str
    size: int
    width: int | None = None
    height: int | None = None
    thumb_hash: str | None = None
    is_image: bool = False

    def to_stored(self) -> list[Any]:
        """Return the stored form."""
        return list(self)


class Attachment(NamedTuple):
    """A file as readers of a message see it: the copy in the message's row (ADR 75)."""

    id: FileId
    filename: str
    content: FileContent
    description: str | None = None
    spoiler: bool = False

    def to_stored(self) -> list[Any]:
        """Return the stored form: JSON values only, because Redis records have it too."""
        return [str(self.id), self.filename, self.content.to_stored(), self.description, self.spoiler]


def attachment_from(stored: list[Any]) -> Attachment:
    """Return an attachment from its stored form."""
    number, filename, content, description, spoiler = stored
    return Attachment(FileId(int(number)), filename, FileContent(*content), description, spoiler)


@dataclass(frozen=True, slots=True)
class File:
    """A row of `files`. Times are in ms since the epoch.

    Attributes:
        digest: Digest of the input of createUpload.
        blobs: Names of everything that may lie in the blob store for this file.
        uploaded: The last whole upload.
        content: Set from SCANNING or READY on.
        thumbnails: Names of the blobs of the thumbnails, by width in pixels.
        message: The message that has claimed the file.
        is_bound: The message is stored.
        writing_until_ms: No server writes for the file after this time.
        tidy_at_ms: From this time on, superfluous blobs are removed.
        remove_at_ms: None while a stored message has the file, and when its bytes are removed.
    """

    id: FileId
    owner: UserId
    conversation: ConversationId
    filename: str
    size: int
    sha256: str | None = None
    type_hint: str | None = None
    description: str | None = None
    spoiler: bool = False
    state: FileState = FileState.UPLOADING
    blobs: tuple[str, ...] = ()
    content: FileContent | None = None
    message: MessageId | None = None
    is_bound: bool = False
    remove_at_ms: int | None = None
    key: str | None = None
    digest: str | None = None
    uploaded: BlobInfo | None = None
    thumbnails: Mapping[int, str] = field(default_factory=dict)
    claimed_at_ms: int | None = None
    writing_until_ms: int = 0
    tidy_at_ms: int | None = None

    @property
    def public_id(self) -> str:
        """The file's id as the API writes it."""
        return file_id(self.id)

    @property
    def superfluous(self) -> tuple[str, ...]:
        """The blobs that nobody needs once the upload is complete."""
        needed = {*self.thumbnails.values()} | ({self.content.blob} if self.content else set())
        return tuple(name for name in self.blobs if name not in needed)

    def as_attachment(self) -> Attachment:
        """Return the copy for the row of a message. The file must have content."""
        assert self.content is not None
        return Attachment(self.id, self.filename, self.content, self.description, self.spoiler)

    def to_row(self) -> Document:
        """Return the row of a file that is new. Defaults are left out."""
        row: Document = {
            _F.ID: int(self.id),
            _F.OWNER: self.owner,
            _F.CONVERSATION: self.conversation,
            _F.FILENAME: self.filename,
            _F.SIZE: self.size,
            _F.STATE: self.state.value,
            _F.BLOBS: list(self.blobs),
            _F.WRITING_UNTIL: self.writing_until_ms,
        }
        optional = {
            _F.SHA256: self.sha256,
            _F.TYPE_HINT: self.type_hint,
            _F.DESCRIPTION: self.description,
            _F.SPOILER: self.spoiler or None,
            _F.KEY: self.key,
            _F.DIGEST: self.digest,
            _F.UPLOADED: list(self.uploaded) if self.uploaded else None,
            _F.CONTENT: self.content.to_stored() if self.content else None,
            _F.MESSAGE: self.message,
            _F.CLAIMED_AT: self.claimed_at_ms,
            _F.IS_BOUND: self.is_bound or None,
            _F.REMOVE_AT: self.remove_at_ms,
        }
        return row | {name: value for name, value in optional.items() if value is not None}


_F = FileField


def file_from(row: Document) -> File:
    """Return the file of a row."""
    content, uploaded, message = row.get(_F.CONTENT), row.get(_F.UPLOADED), row.get(_F.MESSAGE)
    return File(
        id=FileId(row[_F.ID]),
        owner=UserId(row[_F.OWNER]),
        conversation=ConversationId(row[_F.CONVERSATION]),
        filename=row[_F.FILENAME],
        size=row[_F.SIZE],
        sha256=row.get(_F.SHA256),
        type_hint=row.get(_F.TYPE_HINT),
        description=row.get(_F.DESCRIPTION),
        spoiler=row.get(_F.SPOILER, False),
        state=FileState(row[_F.STATE]),
        blobs=tuple(row.get(_F.BLOBS, ())),
        content=FileContent(*content) if content is not None else None,
        message=MessageId(message) if message is not None else None,
        is_bound=row.get(_F.IS_BOUND, False),
        remove_at_ms=row.get(_F.REMOVE_AT),
        key=row.get(_F.KEY),
        digest=row.get(_F.DIGEST),
        uploaded=BlobInfo(*uploaded) if uploaded is not None else None,
        thumbnails={int(width): name for width, name in row.get(_F.THUMBNAILS, {}).items()},
        claimed_at_ms=row.get(_F.CLAIMED_AT),
        writing_until_ms=row.get(_F.WRITING_UNTIL, 0),
        tidy_at_ms=row.get(_F.TIDY_AT),
    )
