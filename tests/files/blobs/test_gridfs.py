"""Blobs in MongoDB: chunks of incomplete blobs, commands, memory, failures."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any, cast

import pytest
from gridfs import GridFS
from pymongo import MongoClient

from store.base.errors import NotAttempted, Unreachable
from store.files.blobs import gridfs as module
from store.files.blobs.base import BlobMissing
from store.files.blobs.gridfs import CHUNK_BYTES, GridFSBlobs
from store.mongo.client import Mongo
from store.mongo.collections import BLOB_CHUNKS, BLOB_FILES
from tests.architecture.sources import ROOT
from tests.files.blobs.contents import all_names, in_parts, read_all, some_bytes


async def add_chunk(mongo: Mongo, name: str, number: int) -> None:
    await mongo.insert_one(BLOB_CHUNKS, {"files_id": name, "n": number, "data": b"x"})


async def chunks_of(mongo: Mongo, *names: str) -> list[str]:
    """Return the name of each chunk of blobs."""
    rows = await mongo.find(BLOB_CHUNKS, {"files_id": {"$in": names}}, projection={"files_id": 1})
    return [row["files_id"] for row in rows]


async def test_chunks_of_a_lost_attempt_are_listed_and_deleted(mongo: Mongo, gridfs: GridFSBlobs) -> None:
    await gridfs.write("2/a-x", in_parts(b"whole"))
    await add_chunk(mongo, "1/a-lost", 3)
    await add_chunk(mongo, "3/a-lost", 0)
    assert await gridfs.find("1/a-lost") is None
    with pytest.raises(BlobMissing):
        await read_all(gridfs, "1/a-lost")
    assert await all_names(gridfs) == ["1/a-lost", "2/a-x", "3/a-lost"]
    await gridfs.delete(["1/a-lost", "3/a-lost"])
    assert await chunks_of(mongo, "1/a-lost", "2/a-x", "3/a-lost") == ["2/a-x"]
    assert await all_names(gridfs) == ["2/a-x"]


async def test_names_of_many_pages_are_listed_once(
    mongo: Mongo, gridfs: GridFSBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NAMES_PER_PAGE", 2)
    monkeypatch.setattr(module, "_CHUNKS_PER_PAGE", 5)
    blobs = GridFSBlobs(mongo, chunk_bytes=4)
    names = [f"{number:02}/a" for number in range(12)]
    for number, name in enumerate(names):
        if number % 4 == 3:
            await add_chunk(mongo, name, 0)
        else:
            await blobs.write(name, in_parts(b"x" * (5 * number)))
    pages = [page async for page in blobs.list_names()]
    assert [name for page in pages for name in page] == names
    assert len(pages) > 3


async def test_a_listing_reads_only_indexes(mongo: Mongo, gridfs: GridFSBlobs) -> None:
    await gridfs.write("1/a", in_parts(some_bytes(600_000)))
    for collection, field in ((BLOB_FILES, "_id"), (BLOB_CHUNKS, "files_id")):
        order = [("_id", 1)] if field == "_id" else [("files_id", 1), ("n", 1)]
        projection = {"_id": 1} if field == "_id" else {"files_id": 1, "_id": 0}
        plan = await mongo._database.command(
            {
                "explain": {"find": collection, "filter": {field: {"$gt": ""}}, "sort": dict(order)}
                | {"projection": projection, "limit": 10},
                "verbosity": "executionStats",
            }
        )
        assert plan["executionStats"]["totalDocsExamined"] == 0


async def test_a_range_reads_only_its_chunks(gridfs: GridFSBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    content = some_bytes(5 * CHUNK_BYTES)
    await gridfs.write("1/a", in_parts(content))
    read = list[int]()
    find_one = Mongo.find_one

    async def counted(self: Mongo, collection: str, query: Any, **options: Any) -> Any:
        if collection == BLOB_CHUNKS:
            read.append(query["n"])
        return await find_one(self, collection, query, **options)

    monkeypatch.setattr(Mongo, "find_one", counted)
    assert (
        await read_all(gridfs, "1/a", 2 * CHUNK_BYTES - 1, 3 * CHUNK_BYTES)
        == content[2 * CHUNK_BYTES - 1 :][: CHUNK_BYTES + 1]
    )
    assert read == [1, 2]


async def test_a_chunk_that_is_missing_ends_the_read(mongo: Mongo, gridfs: GridFSBlobs) -> None:
    await gridfs.write("1/a", in_parts(some_bytes(600_000)))
    await mongo.delete_one(BLOB_CHUNKS, {"files_id": "1/a", "n": 1})
    parts = gridfs.read("1/a")
    assert len(await anext(parts)) == CHUNK_BYTES
    with pytest.raises(BlobMissing):
        await anext(parts)


async def test_a_chunk_whose_first_write_was_not_confirmed_is_stored_once(
    mongo: Mongo, gridfs: GridFSBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    insert_each, lost = Mongo.insert_each, list[str]()

    async def lose_answers(self: Mongo, collection: str, rows: Any) -> Any:
        outcome = await insert_each(self, collection, rows)
        if lost.count(collection) < 2:
            lost.append(collection)
            raise Unreachable("the answer was lost")
        return outcome

    monkeypatch.setattr(Mongo, "insert_each", lose_answers)
    content = some_bytes(600_000)
    await gridfs.write("1/a", in_parts(content))
    assert sorted(lost) == [BLOB_CHUNKS] * 2 + [BLOB_FILES] * 2
    assert await read_all(gridfs, "1/a") == content
    assert await chunks_of(mongo, "1/a") == ["1/a"] * 3


@pytest.mark.parametrize("failing", [{2}, {2, 3}])
async def test_chunks_that_cannot_be_written_fail_the_blob(
    gridfs: GridFSBlobs, monkeypatch: pytest.MonkeyPatch, failing: set[int]
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    insert_each, both_fail = Mongo.insert_each, asyncio.Barrier(len(failing))
    unhandled = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))

    async def fail(self: Mongo, collection: str, rows: Any) -> Any:
        if rows[0].get("n") in failing:
            await both_fail.wait()
            raise Unreachable("the connection was lost")
        return await insert_each(self, collection, rows)

    monkeypatch.setattr(Mongo, "insert_each", fail)
    try:
        with pytest.raises(Unreachable):
            await gridfs.write("1/a", in_parts(some_bytes(10 * CHUNK_BYTES)))
        gc.collect()
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    assert await all_names(gridfs) == []
    assert unhandled == []


async def test_an_absent_mongodb_is_unreachable() -> None:
    mongo = Mongo("mongodb://127.0.0.1:1/", "nothing", timeout_ms=100)
    blobs = GridFSBlobs(mongo)
    async with asyncio.timeout(60):
        for call in (
            blobs.write("1/a", in_parts(b"x")),
            read_all(blobs, "1/a"),
            blobs.find("1/a"),
            blobs.delete(["1/a"]),
            all_names(blobs),
        ):
            with pytest.raises(Unreachable):
                await cast(Any, call)
        with pytest.raises(NotAttempted):
            await blobs.find("1/a")
    await mongo.close()


async def test_tools_for_gridfs_can_read_blobs(mongo_url: str, mongo: Mongo, gridfs: GridFSBlobs) -> None:
    content = some_bytes(600_000)
    await gridfs.write("1/a", in_parts(content))
    with MongoClient[Any](mongo_url) as client:
        file = GridFS(client[mongo._database.name], "blobs").get_last_version("1/a")
        assert file.read() == content and file.upload_date is not None


async def test_a_killed_server_leaves_chunks_that_can_be_deleted_by_name(
    mongo_url: str, mongo_database_name: str
) -> None:
    mongo = Mongo(mongo_url, mongo_database_name)
    blobs = GridFSBlobs(mongo)
    await blobs.write("2/other", in_parts(b"x"))
    command = [sys.executable, "-m", "tests.files.blobs.endless_write", mongo_url, mongo_database_name, "1/killed"]
    writer = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"stored\n"
    writer.kill()
    await writer.wait()
    assert len(await chunks_of(mongo, "1/killed")) >= 2
    assert await blobs.find("1/killed") is None
    assert await all_names(blobs) == ["1/killed", "2/other"]
    # MongoDB may execute the last insert of the killed process after the first deletion.
    while await all_names(blobs) != ["2/other"]:
        await blobs.delete(["1/killed"])
    assert await chunks_of(mongo, "1/killed", "2/other") == ["2/other"]
    await mongo.close()
