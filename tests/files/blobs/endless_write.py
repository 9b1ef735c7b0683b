"""Writes a blob that never ends, for a test that kills this process. It prints a line when two chunks are stored.

Use: python -m tests.files.blobs.endless_write MONGO_URL DATABASE NAME
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from store.files.blobs.gridfs import CHUNK_BYTES, GridFSBlobs
from store.mongo.client import Mongo
from store.mongo.collections import BLOB_CHUNKS


async def _write(url: str, database: str, name: str) -> None:
    mongo = Mongo(url, database)

    async def content() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * CHUNK_BYTES
        while True:
            if len(await mongo.find(BLOB_CHUNKS, {"files_id": name}, projection={"n": 1})) >= 2:
                break
            await asyncio.sleep(0.01)
        print("stored", flush=True)
        while True:
            yield b"x" * CHUNK_BYTES

    await GridFSBlobs(mongo).write(name, content())


if __name__ == "__main__":
    asyncio.run(_write(*sys.argv[1:]))
