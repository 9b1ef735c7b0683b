"""The zip of an export, as a stream of bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import orjson

from resolvers.base.times import iso_text_or_none
from resolvers.export.file_section import has_bytes, list_files, list_own_files, name_in_zip
from resolvers.export.readme import readme
from resolvers.export.section import Exported, ExportSection
from resolvers.export.zip_stream import ZipStream
from store.files.blobs.base import BlobMissing
from store.files.file import File

_YIELD_BYTES = 256 * 1024
"""Bytes that are collected before they are passed on."""

FILES = ExportSection("files", "Files that you uploaded. Their bytes are in the folder files.", list_files)


async def write_archive(exported: Exported, sections: Sequence[ExportSection]) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of the zip. Only some hundred kilobytes of it are in memory.

    It reads as fast as the caller takes the bytes, and pauses as long as each step has taken. Raises StoreError.
    """
    stream = ZipStream(exported.app.store.clock.now_ms())
    try:
        async with aclosing(_write_contents(stream, exported, sections)) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        stream.finish()
    yield stream.take()


async def _write_contents(
    stream: ZipStream, exported: Exported, sections: Sequence[ExportSection]
) -> AsyncGenerator[bytes, None]:
    now_ms = exported.app.store.clock.now_ms()
    counts: Counter[str] = Counter()
    for section in sections:
        async with aclosing(_write_section(stream, exported, section, counts)) as pieces:
            async for piece in pieces:
                yield piece
    async with aclosing(_write_files(stream, exported)) as pieces:
        async for piece in pieces:
            yield piece
    async with aclosing(_write_section(stream, exported, FILES, counts)) as pieces:
        async for piece in pieces:
            yield piece
    all_sections = (*sections, FILES)
    contents = {
        "README.txt": readme(exported.user, now_ms, all_sections, counts).encode(),
        "manifest.json": orjson.dumps(
            {
                "userId": exported.user,
                "createdAt": iso_text_or_none(now_ms),
                "counts": {s.name: counts[s.name] for s in all_sections},
            },
            option=orjson.OPT_INDENT_2,
        ),
    }
    for name, content in contents.items():
        stream.begin(name, compress=True)
        stream.write(content)
        stream.end()


async def _write_section(
    stream: ZipStream, exported: Exported, section: ExportSection, counts: Counter[str]
) -> AsyncGenerator[bytes, None]:
    stream.begin(f"{section.name}.jsonl", compress=True)
    async with aclosing(section.list_records(exported)) as batches:
        async for records in batches:
            if records:
                lines = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
                # Compressing takes most of the time, and lets other threads run.
                await asyncio.to_thread(stream.write, lines)
                counts[section.name] += len(records)
            if stream.waiting_bytes >= _YIELD_BYTES:
                yield stream.take()
    stream.end()


async def _write_files(stream: ZipStream, exported: Exported) -> AsyncGenerator[bytes, None]:
    async with aclosing(list_own_files(exported)) as pages:
        async for files in pages:
            for file in files:
                if has_bytes(file):
                    async with aclosing(_write_file(stream, exported, file)) as pieces:
                        async for piece in pieces:
                            yield piece


async def _write_file(stream: ZipStream, exported: Exported, file: File) -> AsyncGenerator[bytes, None]:
    """Write the bytes of a file. One whose blob is removed meanwhile is noted as lost."""
    assert file.content is not None
    loop = asyncio.get_running_loop()
    stream.begin(name_in_zip(file), compress=False)
    began = loop.time()
    try:
        async with aclosing(exported.app.store.blobs.read(file.content.blob)) as content:
            async for piece in content:
                await asyncio.to_thread(stream.write, piece)
                if stream.waiting_bytes >= _YIELD_BYTES:
                    yield stream.take()
                    # Pause as long as reading and writing took, so that the databases can serve requests.
                    await asyncio.sleep(loop.time() - began)
                    began = loop.time()
    except BlobMissing:
        exported.lost_files.add(file.id)
    stream.end()
