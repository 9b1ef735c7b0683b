"""The files that a user uploaded: their list, and their bytes."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence

from resolvers.base.times import iso_text_or_none
from resolvers.export.section import NO_CONVERSATION, Exported, Record
from store.base.ids import FileId, file_id
from store.base.snowflakes import created_at_ms
from store.files.file import File, FileState

_ROWS_AT_ONCE = 100
_MOST_UNBOUND = 1_000

_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_LONGEST_NAME_BYTES = 150


async def list_own_files(exported: Exported) -> AsyncGenerator[list[File], None]:
    """Yield the files of the user: those of messages that are not recalled, then those that no message has.

    Exports are left out.
    """
    store = exported.app.store
    for start in range(0, len(exported.files), _ROWS_AT_ONCE):
        numbers = [FileId(number) for number in exported.files[start : start + _ROWS_AT_ONCE]]
        found = await store.files.find_many(numbers)
        yield [file for file in found.values() if file.owner == exported.user]
    bound = set(exported.files)
    unbound = await store.files.list_unbound(exported.user, _MOST_UNBOUND)
    yield [file for file in unbound if file.id not in bound and file.conversation != NO_CONVERSATION]


async def list_files(exported: Exported) -> AsyncGenerator[Sequence[Record], None]:
    """Yield the files, with the names that they have in the zip."""
    async for files in list_own_files(exported):
        yield [_record_of(exported, file) for file in files]


def _record_of(exported: Exported, file: File) -> Record:
    content = file.content
    return {
        "id": file_id(file.id),
        "filename": file.filename,
        "description": file.description,
        "spoiler": file.spoiler,
        "contentType": content.content_type if content is not None else file.type_hint,
        "sizeBytes": content.size if content is not None else file.size,
        "state": file.state.name,
        "conversationId": file.conversation,
        "createdAt": iso_text_or_none(created_at_ms(file.id)),
        "path": name_in_zip(file) if has_bytes(file) and file.id not in exported.lost_files else None,
    }


def has_bytes(file: File) -> bool:
    """Return whether the bytes of a file are in the export. Those of REJECTED and recalled files are not."""
    return file.content is not None and file.state in (FileState.READY, FileState.SCANNING)


def name_in_zip(file: File) -> str:
    """Return the name of a file in the zip. It is unique, and safe on all systems."""
    name = _UNSAFE.sub("_", file.filename).strip(". ")
    while len(name.encode("utf-8", "replace")) > _LONGEST_NAME_BYTES:
        # The end of the name shows the type.
        name = name[1:]
    return f"files/{file_id(file.id)}-{name.encode('utf-8', 'replace').decode()}"
