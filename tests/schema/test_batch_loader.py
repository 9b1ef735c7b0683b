"""Loaders read the keys of one turn together, keep values, and forget failures."""

from __future__ import annotations

import asyncio

import pytest

from schema.base.batch_loader import BatchLoader


class Reader:
    """Doubles numbers, and records the batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failure: Exception | None = None

    async def read(self, keys: list[int]) -> list[int]:
        self.batches.append(list(keys))
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return [2 * key for key in keys]


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def loader(reader: Reader) -> BatchLoader[int, int]:
    return BatchLoader(reader.read)


async def test_keys_of_one_turn_are_read_together_and_once(loader: BatchLoader[int, int], reader: Reader) -> None:
    assert await asyncio.gather(loader.load(1), loader.load(2), loader.load(1)) == [2, 4, 2]
    assert await loader.load(2) == loader.find(2) == 4
    assert reader.batches == [[1, 2]]


async def test_a_prefetched_value_needs_no_waiting(loader: BatchLoader[int, int], reader: Reader) -> None:
    first, second = loader.prefetch([1, 2]), loader.prefetch([2, 3])
    assert first is second is not None
    await first
    assert [loader.find(key) for key in (1, 2, 3)] == [2, 4, 6]
    assert loader.prefetch([3, 1]) is None
    assert reader.batches == [[1, 2, 3]]


async def test_a_key_that_is_being_read_is_not_read_again(loader: BatchLoader[int, int], reader: Reader) -> None:
    prefetch = loader.prefetch([1])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reader.batches == [[1]]
    assert loader.prefetch([1]) is None
    assert await loader.load(1) == 2
    assert prefetch is not None and prefetch.done()
    assert reader.batches == [[1]]


async def test_a_failed_read_reaches_all_its_callers_and_is_repeated(
    loader: BatchLoader[int, int], reader: Reader
) -> None:
    reader.failure = RuntimeError("no answer")
    first, second = loader.load(1), loader.load(2)
    for future in (first, second):
        with pytest.raises(RuntimeError, match="no answer"):
            await future
    reader.failure = None
    assert await loader.load(1) == 2
    assert reader.batches == [[1, 2], [1]]


async def test_a_failed_prefetch_raises_nothing(loader: BatchLoader[int, int], reader: Reader) -> None:
    reader.failure = RuntimeError("no answer")
    prefetch = loader.prefetch([1])
    assert prefetch is not None
    await prefetch
    reader.failure = None
    assert await loader.load(1) == 2
