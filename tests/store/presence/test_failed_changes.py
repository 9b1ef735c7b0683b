"""Changes of presence that fail halfway, are repeated, or meet others: both databases end with the same."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.presence.presence_cache import READ_AGAIN_MS, ChangedPresence
from store.presence.presence_record import (
    CustomStatus,
    PresenceSetting,
    Setting,
)
from store.presence.presence_store import PresenceStore
from store.presence.shown_presence import shown_presence
from store.redis.cache import Cache, Call
from store.store import Store
from tests.clock import ManualClock
from tests.store.presence.stores import ANNA, MINUTE, a_device, evict, open_presence, put, read

ONLINE, IDLE, DND, INVISIBLE = PresenceSetting


async def test_a_setting_that_did_not_reach_redis_is_applied_soon(
    store: Store, presence: PresenceStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await presence.watch([ANNA], "s2", clock.ms + MINUTE)
    await put(presence, a_device(clock))

    async def fail(self: Cache, call: Call) -> None:
        raise Unreachable("Redis is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(Cache, "one", fail)
        with pytest.raises(Unreachable):
            await presence.set_presence(ANNA, DND, None)
    assert (await read(presence)).setting.value is ONLINE
    reloaded: list[ChangedPresence] = []
    monkeypatch.setattr(store.presence_records, "on_reloaded", reloaded.extend)
    await store.stale_caches.invalidate()
    record = await read(presence)
    assert record.setting.value is DND and len(record.devices) == 1
    assert reloaded == [ChangedPresence(None, record, ["s2"])]
    await store.stale_caches.invalidate()
    assert len(reloaded) == 1


async def test_a_client_that_repeats_a_failed_setting_has_it_applied(
    presence: PresenceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await presence.set_presence(ANNA, ONLINE, None)
    await read(presence)

    async def fail(self: Cache, call: Call) -> None:
        raise Unreachable("Redis is unavailable")

    with monkeypatch.context() as patch:
        patch.setattr(Cache, "one", fail)
        with pytest.raises(Unreachable):
            await presence.set_presence(ANNA, DND, None)
    change = await presence.set_presence(ANNA, DND, None)
    assert change.before is not None and change.before.setting.value is ONLINE
    assert change.record.setting.value is DND


async def test_a_setting_that_mongodb_refused_changes_nothing(
    store: Store, presence: PresenceStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await put(presence, a_device(clock))).record

    async def fail(*_args: object) -> None:
        raise Unreachable("MongoDB has no primary")

    with monkeypatch.context() as patch:
        patch.setattr(store.mongo, "write", fail)
        with pytest.raises(Unreachable):
            await presence.set_presence(ANNA, INVISIBLE, None)
        with pytest.raises(Unreachable):
            await presence.set_custom_status(ANNA, CustomStatus("out", None))
    for at_ms in (clock.ms, clock.ms + 15_000, clock.ms + MINUTE):
        after = shown_presence(await read(presence), presence.find_end, at_ms).shown
        assert after == shown_presence(before, presence.find_end, at_ms).shown


async def test_a_change_after_one_without_an_answer_is_always_announced(
    store: Store, presence: PresenceStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.cache.run_in_background

    async def lose_answers(calls: Sequence[Call]) -> list[Any]:
        await run(calls)
        raise Unreachable("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(store.cache, "run_in_background", lose_answers)
        with pytest.raises(Unreachable):
            await put(presence, a_device(clock))
    change = await put(presence, a_device(clock))
    assert change.before is None and len(change.record.devices) == 1
    assert (await put(presence, a_device(clock))).before == change.record


async def test_a_part_that_is_out_of_date_is_loaded_again_after_an_hour(
    store: Store, presence: PresenceStore, clock: ManualClock
) -> None:
    """The situation after a server that died between its write to MongoDB and the one to Redis."""
    await read(presence)
    phone = a_device(clock)
    await put(presence, phone)
    rows = await presence._rows.find([ANNA])
    await presence._rows.replace(ANNA, rows[ANNA], replace(rows[ANNA], setting=Setting(DND, clock.ms)))
    assert (await read(presence)).setting.value is ONLINE
    clock.ms += READ_AGAIN_MS + 1
    record = await read(presence)
    assert record.setting.value is DND and record.devices == (phone,)


async def test_an_older_row_never_replaces_a_newer_one(store: Store, presence: PresenceStore) -> None:
    await presence.set_presence(ANNA, IDLE, None)
    rows = await presence._rows.find([ANNA])
    change = await presence.set_presence(ANNA, DND, None)
    await store.cache.one(presence._records.load_call(ANNA, rows[ANNA], is_for_reader=True))
    assert await read(presence) == change.record


async def test_concurrent_settings_end_with_the_same_result_in_both(store: Store, clock: ManualClock) -> None:
    stores = [open_presence(store, clock) for _ in range(2)]
    for _ in range(5):
        clock.ms += 1_000
        calls = [each.set_presence(ANNA, value, None) for each, value in itertools.product(stores, (IDLE, DND))]
        calls += [
            each.set_custom_status(ANNA, CustomStatus(text, None)) for each, text in zip(stores, "ab", strict=True)
        ]
        await asyncio.gather(*calls)
        cached = await read(stores[0])
        await evict(store, ANNA)
        loaded = await read(stores[1])
        assert (cached.setting, cached.custom_status) == (loaded.setting, loaded.custom_status)
