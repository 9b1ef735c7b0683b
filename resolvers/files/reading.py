"""Files whose bytes may be read (ADR 76)."""

from __future__ import annotations

from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.files.variants import is_variant, reduced_width
from store.base.ids import FileId
from store.files.file import File, FileContent, FileState


class ReadableFile(NamedTuple):
    """A file whose bytes may be read now, and the width of the thumbnail that is asked for; None: the file itself."""

    file: File
    content: FileContent
    width: int | None


async def find_readable(app: Confab, number: FileId, variant: int | None) -> ReadableFile | None:
    """Return the file of an address that was verified. One round trip. Raises Unreachable.

    Args:
        app: The application.
        number: The file.
        variant: Width of a thumbnail; None: the file itself.

    Returns:
        None if the file is not READY, has no such thumbnail, or is being removed, for example after a recall.
    """
    file = await app.store.files.find(number)
    if file is None or file.content is None or not is_readable(file, app.store.clock.now_ms()):
        return None
    if variant is None:
        return ReadableFile(file, file.content, None)
    if not file.content.is_image or not is_variant(variant):
        return None
    return ReadableFile(file, file.content, reduced_width(file.content.width, variant))


def is_readable(file: File, now_ms: int) -> bool:
    """Return whether a file has content that is not about to be removed.

    A file that a message has claimed is removed only once it is known that the message is not stored.
    """
    is_kept = file.message is not None or file.remove_at_ms is None or file.remove_at_ms > now_ms
    return file.state is FileState.READY and is_kept
