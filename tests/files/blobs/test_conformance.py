"""All blob stores behave the same."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from store.files.blobs.base import BlobInfo, BlobMissing, BlobStore
from tests.files.blobs.contents import all_names, in_parts, read_all, some_bytes

MIB = 1024 * 1024


@pytest.mark.parametrize("size", [0, 1, 255 * 1024, 255 * 1024 + 1, 700_000])
async def test_a_blob_is_read_as_it_was_written(blobs: BlobStore, size: int) -> None:
    content = some_bytes(size)
    written = await blobs.write("1/a-x", in_parts(content))
    assert written == BlobInfo("1/a-x", size, hashlib.sha256(content).hexdigest())
    assert await blobs.find("1/a-x") == written
    assert await read_all(blobs, "1/a-x") == content


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 1), (0, 0), (5, 5), (261_119, 261_121), (261_120, 522_240), (100_000, 600_000), (599_999, None), (0, 10**9)],
)
async def test_a_range_has_exactly_its_bytes(blobs: BlobStore, start: int, end: int | None) -> None:
    content = some_bytes(600_000)
    await blobs.write("1/a-x", in_parts(content))
    assert await read_all(blobs, "1/a-x", start, end) == content[start:end]


async def test_a_range_behind_the_end_is_empty(blobs: BlobStore) -> None:
    await blobs.write("1/a-x", in_parts(b"abc"))
    assert await read_all(blobs, "1/a-x", 3) == await read_all(blobs, "1/a-x", 7, 9) == b""


async def test_content_may_arrive_in_any_parts(blobs: BlobStore) -> None:
    content = some_bytes(600_000)
    for number, size in enumerate((7_919, 261_120, 10**6)):
        await blobs.write(f"1/a-{number}", in_parts(content, size))
        assert await read_all(blobs, f"1/a-{number}") == content

    async def with_empty_parts() -> AsyncIterator[bytes]:
        for part in (b"", b"a", b"", b"b", b""):
            yield part

    assert (await blobs.write("1/a-x", with_empty_parts())).size == 2


async def test_an_unknown_blob_is_missing(blobs: BlobStore) -> None:
    assert await blobs.find("1/a-x") is None
    with pytest.raises(BlobMissing):
        await read_all(blobs, "1/a-x")
    with pytest.raises(BlobMissing):
        await read_all(blobs, "1/a-x", 3, 4)
    await blobs.delete(["1/a-x", "1/a-y"])
    await blobs.delete([])


async def test_deleted_blobs_are_gone_and_others_stay(blobs: BlobStore) -> None:
    for name in ("1/a-x", "1/a-y", "1/a-z", "1/a-xx"):
        await blobs.write(name, in_parts(some_bytes(300_000)))
    await blobs.delete(["1/a-x", "never", "1/a-z"])
    assert await all_names(blobs) == ["1/a-xx", "1/a-y"]
    assert await blobs.find("1/a-x") is None
    with pytest.raises(BlobMissing):
        await read_all(blobs, "1/a-x")
    assert await read_all(blobs, "1/a-y") == await read_all(blobs, "1/a-xx") == some_bytes(300_000)


async def test_a_failed_write_leaves_nothing(blobs: BlobStore) -> None:
    class Broken(Exception):
        pass

    async def ends_early() -> AsyncIterator[bytes]:
        yield some_bytes(600_000)
        raise Broken

    with pytest.raises(Broken):
        await blobs.write("1/a-x", ends_early())
    assert await all_names(blobs) == [] and await blobs.find("1/a-x") is None


async def test_a_cancelled_write_leaves_nothing(blobs: BlobStore) -> None:
    waits = asyncio.Event()

    async def stops() -> AsyncIterator[bytes]:
        yield some_bytes(600_000)
        waits.set()
        await asyncio.Event().wait()

    writing = asyncio.create_task(blobs.write("1/a-x", stops()))
    await waits.wait()
    assert await blobs.find("1/a-x") is None
    with pytest.raises(BlobMissing):
        await read_all(blobs, "1/a-x")
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await all_names(blobs) == []


async def test_blobs_are_written_at_the_same_time(blobs: BlobStore) -> None:
    sizes = [600_000 + number for number in range(4)]
    await asyncio.gather(*(blobs.write(f"1/a-{size}", in_parts(some_bytes(size))) for size in sizes))
    assert [await read_all(blobs, f"1/a-{size}") for size in sizes] == [some_bytes(size) for size in sizes]


async def test_names_are_listed_in_order_after_a_name(blobs: BlobStore) -> None:
    names = ["10/a-x", "11/a-x", "11/b-x", "9/a-x"]
    for name in reversed(names):
        await blobs.write(name, in_parts(b"x"))
    assert await all_names(blobs) == names
    assert await all_names(blobs, "11/a-x") == ["11/b-x", "9/a-x"]
    assert await all_names(blobs, "9/a-x") == []


async def test_a_file_is_never_in_memory_as_a_whole(blobs: BlobStore) -> None:
    part = some_bytes(64 * 1024)

    async def content() -> AsyncIterator[bytes]:
        for _ in range(16 * 16):
            yield part

    await blobs.write("1/warm", in_parts(part))
    tracemalloc.start()
    try:
        await blobs.write("1/a", content())
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        size = 0
        async for read in blobs.read("1/a"):
            size += len(read)
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 16 * MIB
    assert writing < 6 * MIB and reading < 4 * MIB


async def test_a_blob_of_any_length_is_written_and_deleted(blobs: BlobStore) -> None:
    for size in (0, 1, 600_000):
        name = f"{size}/long-x"
        written = await blobs.write_long(name, in_parts(some_bytes(size)))
        assert written.size == size
        found = await blobs.find(name)
        assert found is not None and found.size == size
        assert await read_all(blobs, name) == some_bytes(size)
        await blobs.delete([name])
        assert await all_names(blobs) == []


async def test_a_failed_write_of_any_length_leaves_nothing(blobs: BlobStore) -> None:
    async def ends_early() -> AsyncIterator[bytes]:
        yield some_bytes(600_000)
        raise ValueError

    with pytest.raises(ValueError):
        await blobs.write_long("1/long-x", ends_early())
    assert await all_names(blobs) == []
