"""Results of inspections, and the types that browsers display."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from store.files.file import FileContent

DEFAULT_TYPE = "application/octet-stream"
"""Type of files that are not recognised."""

THUMBNAIL_WIDTHS = (160, 320, 640, 1280)
"""Widths of thumbnails in pixels."""

_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/avif"})
_DOCUMENT_TYPES = frozenset({"application/pdf", "text/plain"})


@dataclass(frozen=True, slots=True)
class Inspected:
    """An accepted file.

    Attributes:
        content_type: Type found in the bytes.
        size: Length in bytes of what readers get.
        path: New file that readers get instead of the inspected one; None if readers get the inspected one.
        width: Images and videos: width in pixels, as displayed.
        height: Images and videos: height in pixels, as displayed.
        thumb_hash: Images: ThumbHash in base64.
        is_image: It can be scaled.
    """

    content_type: str
    size: int
    path: Path | None = None
    width: int | None = None
    height: int | None = None
    thumb_hash: str | None = None
    is_image: bool = False

    def as_content(self, blob: str) -> FileContent:
        """Return the stored form of the result. blob: name of the blob that readers get."""
        return FileContent(blob, self.content_type, self.size, self.width, self.height, self.thumb_hash, self.is_image)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A thumbnail: a new file, its type and its length in bytes."""

    path: Path
    content_type: str
    size: int


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A file that cannot be decoded within the limits. The reason is for logs."""

    reason: str


def is_displayed(content_type: str) -> bool:
    """Return whether browsers display the type safely. Files of all other types are served as downloads only."""
    return content_type in _IMAGE_TYPES | _DOCUMENT_TYPES or content_type.startswith(("audio/", "video/"))


def thumbnail_width(width: int) -> int:
    """Return the smallest width of thumbnails that is not below `width`, else the largest one."""
    return next((known for known in THUMBNAIL_WIDTHS if known >= width), THUMBNAIL_WIDTHS[-1])
