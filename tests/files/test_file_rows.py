"""Rows of files: idempotent creation, conditional changes of state, claims by messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from store.base.ids import FileId, file_id, parse_file_id
from store.files.blobs.base import BlobInfo
from store.files.file import FileContent, FileState
from store.files.file_claims import CLAIM_MS, TAKEOVER_MS
from store.files.file_removals import LEASE_MS
from store.files.file_store import UNUSED_MS, WRITE_MARGIN_MS
from store.mongo.collections import CLAIMS
from store.store import Store
from tests.clock import ManualClock
from tests.files.sample_files import ANNA, BEN, ELSEWHERE, FIRST, HERE, SECOND, add_ready, claim, create, find, new_file


@pytest.mark.parametrize("text", ["", "f_", "f_01", "f_-1", "m_1", "f_1 ", f"f_{1 << 63}", "f_1\n"])
def test_other_texts_are_no_file_ids(text: str) -> None:
    assert parse_file_id(text) is None


def test_a_file_id_names_its_number() -> None:
    assert parse_file_id(file_id(FileId(0))) == 0
    assert parse_file_id(file_id(FileId((1 << 63) - 1))) == (1 << 63) - 1


async def test_a_file_is_read_as_it_was_stored(store: Store) -> None:
    file = new_file(store, sha256="aa", type_hint="a/b", description="d", spoiler=True, digest="x")
    await store.files.create(file)
    assert await store.files.find(file.id) == file
    assert await store.files.find_many([file.id, FileId(1)]) == {file.id: file}


async def test_concurrent_calls_with_one_key_create_one_file(store: Store) -> None:
    created = await asyncio.gather(*(create(store, key="k") for _ in range(8)))
    assert len({file.id for file in created}) == 1
    assert await store.files.count_unused(ANNA, store.clock.now_ms(), 10) == 1


async def test_a_key_with_other_input_returns_the_digest_of_the_first(store: Store) -> None:
    first = await create(store, key="k", digest="first")
    again = await create(store, key="k", digest="second")
    assert again == first


async def test_a_claim_without_file_is_completed(store: Store) -> None:
    first = new_file(store, key="k")
    await store.files._claim_key({"_id": f"file {ANNA} k"}, first.id)
    assert (await create(store, key="k")).id == first.id


async def test_the_key_of_a_cancelled_file_is_free_again(store: Store) -> None:
    first = await create(store, key="k")
    assert await store.files.cancel(first.id, ANNA, store.clock.now_ms())
    second = await create(store, key="k")
    assert second.id != first.id
    assert await store.mongo.find(CLAIMS, {"_id": f"file {ANNA} k"}, projection={"v": 1}) == [
        {"_id": f"file {ANNA} k", "v": int(second.id)}
    ]


async def test_the_key_of_a_file_that_was_removed_is_free_again(store: Store, clock: ManualClock) -> None:
    first = await create(store, key="k")
    await store.files.discard(first)
    assert (await create(store, key="k")).id == first.id
    await store.files.discard(first)
    clock.ms += 120_000
    assert (await create(store, key="k")).id != first.id


async def test_only_the_last_whole_upload_can_become_the_content(store: Store) -> None:
    file = await create(store)
    until = store.clock.now_ms() + 5
    for name in ("one", "two"):
        assert await store.files.begin_write(file.id, name, until)
    assert not await store.files.finish_upload(file.id, BlobInfo("three", 3, "aa"))
    for name in ("one", "two"):
        assert await store.files.finish_upload(file.id, BlobInfo(name, 3, "aa"))
    assert await store.files.store_content(file.id, "one", FileState.READY, FileContent("one", "a/b", 3)) is None
    stored = await asyncio.gather(
        *(store.files.store_content(file.id, "two", FileState.READY, FileContent("two", "a/b", n)) for n in range(4))
    )
    assert len([one for one in stored if one is not None]) == 1
    assert not await store.files.begin_write(file.id, "four", until)
    assert not await store.files.finish_upload(file.id, BlobInfo("one", 3, "aa"))


async def test_superfluous_blobs_are_listed_once_nobody_writes(store: Store, clock: ManualClock) -> None:
    file = await create(store)
    for name in ("lost", "used"):
        await store.files.begin_write(file.id, name, clock.ms + 1_000)
    await store.files.finish_upload(file.id, BlobInfo("used", 3, "aa"))
    await store.files.store_content(file.id, "used", FileState.READY, FileContent("used", "a/b", 3))
    clock.ms += 1_000 + WRITE_MARGIN_MS - 1
    assert await store.file_removals.list_untidy(clock.ms, 10) == []
    clock.ms += 1
    (untidy,) = await store.file_removals.list_untidy(clock.ms, 10)
    assert untidy.superfluous == ("lost",)
    await store.files.begin_write(file.id, "thumbnail", clock.ms + 1_000, FileState.READY)
    await store.file_removals.end_tidying(untidy)
    assert (await find(store, file)).blobs == ("lost", "used", "thumbnail")
    assert await store.files.add_thumbnail(file.id, 160, "thumbnail", clock.ms)
    assert not await store.files.add_thumbnail(file.id, 160, "thumbnail", clock.ms)
    clock.ms += 1_000 + WRITE_MARGIN_MS
    (untidy,) = await store.file_removals.list_untidy(clock.ms, 10)
    await store.file_removals.end_tidying(untidy)
    assert (await find(store, file)).blobs == ("used", "thumbnail")
    assert await store.file_removals.list_untidy(clock.ms, 10) == []


async def test_a_file_goes_into_one_message(store: Store) -> None:
    file = await add_ready(store)
    claimed = await asyncio.gather(*(claim(store, file, message) for message in (FIRST, SECOND)))
    assert sorted(claimed) == [False, True]
    winner = (await find(store, file)).message
    assert winner is not None and await claim(store, file, winner)


@pytest.mark.parametrize("changes", [{"owner": BEN}, {"conversations": [ELSEWHERE]}])
async def test_a_file_is_claimed_by_its_owner_for_its_conversation(store: Store, changes: dict[str, object]) -> None:
    file = await add_ready(store)
    assert not await claim(store, file, FIRST, **changes)
    assert await find(store, file) == file


async def test_a_file_that_is_not_ready_is_not_claimed(store: Store) -> None:
    file = await create(store)
    assert not await claim(store, file, FIRST)


async def test_a_released_file_can_be_claimed_again(store: Store) -> None:
    file = await add_ready(store)
    assert await claim(store, file, FIRST)
    await store.file_claims.release([file.id], SECOND, store.clock.now_ms())
    assert not await claim(store, file, SECOND)
    await store.file_claims.release([file.id], FIRST, store.clock.now_ms())
    assert await claim(store, file, SECOND)


async def test_a_release_does_not_undo_a_later_claim_of_the_same_message(store: Store) -> None:
    file, now_ms = await add_ready(store), store.clock.now_ms()
    assert await claim(store, file, FIRST)
    assert await claim(store, file, FIRST)
    await store.file_claims.release([file.id], FIRST, now_ms)
    assert not await claim(store, file, SECOND)


async def test_a_claim_keeps_a_file_for_an_hour_but_not_beyond_its_day(store: Store, clock: ManualClock) -> None:
    file = await add_ready(store)
    clock.ms += UNUSED_MS - 2
    assert await claim(store, file, FIRST)
    assert await store.file_removals.list_due(clock.ms + CLAIM_MS - 1, 10) == []
    await store.file_claims.release([file.id], FIRST, store.clock.now_ms())
    clock.ms += 2
    assert not await claim(store, file, FIRST)


async def test_an_old_claim_can_be_taken_over_until_it_is_bound(store: Store, clock: ManualClock) -> None:
    file = await add_ready(store)
    assert await claim(store, file, FIRST)

    async def take_over() -> bool:
        taken = await store.file_claims.take_over([file.id], ANNA, [HERE], FIRST, SECOND, clock.ms)
        return file.id in taken

    clock.ms += TAKEOVER_MS - 1
    assert not await take_over()
    clock.ms += 1
    assert await take_over()
    await store.file_claims.bind([file.id], FIRST)
    assert (await find(store, file)).remove_at_ms is not None
    await store.file_claims.bind([file.id], SECOND)
    assert (await find(store, file)).remove_at_ms is None
    clock.ms += 2 * TAKEOVER_MS
    assert not await take_over()


async def test_a_bound_file_is_removed_by_its_message_only(store: Store, clock: ManualClock) -> None:
    file = await add_ready(store)
    await claim(store, file, FIRST)
    await store.file_claims.bind([file.id], FIRST)
    await store.file_claims.remove([file.id], SECOND, clock.ms)
    assert await store.file_removals.list_due(clock.ms + 10 * UNUSED_MS, 10) == []
    await store.file_claims.remove([file.id], FIRST, clock.ms)
    await store.file_claims.bind([file.id], FIRST)
    clock.ms += 1_000 + WRITE_MARGIN_MS
    (due,) = await store.file_removals.list_due(clock.ms, 10)
    begun = await store.file_removals.begin_removal(due, clock.ms)
    assert begun is not None and begun.state is FileState.REMOVED
    assert await store.file_removals.begin_removal(due, clock.ms) is None
    assert await store.file_removals.list_due(clock.ms + LEASE_MS - 1, 10) == []
    assert await store.file_removals.list_due(clock.ms + LEASE_MS, 10) == [begun]
    await store.file_removals.end_removal(begun)
    gone = await find(store, file)
    assert gone == replace(due, blobs=(), uploaded=None, remove_at_ms=None)
    assert await store.file_removals.list_due(clock.ms, 10) == []


async def test_a_file_claimed_since_it_was_listed_is_not_removed(store: Store, clock: ManualClock) -> None:
    file = await add_ready(store)
    clock.ms += UNUSED_MS - 1
    (due,) = await store.file_removals.list_due(clock.ms + 1, 10)
    assert await claim(store, file, FIRST)
    assert await store.file_removals.begin_removal(due, clock.ms) is None
    assert not await store.file_removals.postpone_removal(due, clock.ms)


async def test_a_claimed_file_cannot_be_cancelled(store: Store) -> None:
    file = await add_ready(store)
    assert not await store.files.cancel(file.id, BEN, store.clock.now_ms())
    await claim(store, file, FIRST)
    assert not await store.files.cancel(file.id, ANNA, store.clock.now_ms())
    await store.file_claims.release([file.id], FIRST, store.clock.now_ms())
    assert await store.files.cancel(file.id, ANNA, store.clock.now_ms())
    assert not await store.files.cancel(file.id, ANNA, store.clock.now_ms())


async def test_the_scanner_decides_once(store: Store) -> None:
    file = await create(store)
    await store.files.begin_write(file.id, "one", store.clock.now_ms())
    await store.files.finish_upload(file.id, BlobInfo("one", 3, "aa"))
    await store.files.store_content(file.id, "one", FileState.SCANNING, FileContent("one", "a/b", 3))
    assert [waiting.id for waiting in await store.files.list_scanning(10)] == [file.id]
    assert await store.files.settle_scan(file.id, accepted=False)
    assert not await store.files.settle_scan(file.id, accepted=True)
    rejected = await find(store, file)
    assert (rejected.state, rejected.content, rejected.superfluous) == (FileState.REJECTED, None, ("one",))
