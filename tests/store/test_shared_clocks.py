"""Shared clocks: ticks only grow, the log shows its gaps, and a lost clock never looks like the one before."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.clocks import clock_constants
from store.clocks.shared_clocks import Appended, ChangeList, ClockEntry
from store.redis.cache import Call
from store.store import Store

WORKSPACE = "w_7"

_entries = itertools.count()


def entry(member: str = "", kind: ChangeList | None = None, text: str | None = None) -> ClockEntry:
    return ClockEntry(text or f"entry {next(_entries)}", "3", [(kind, member)] if kind is not None else [])


async def append(store: Store, *entries: ClockEntry) -> list[Appended]:
    return [await store.clocks.append(WORKSPACE, one) for one in entries]


async def now(store: Store) -> int:
    (reading,) = await store.clocks.read([WORKSPACE])
    return reading.tick


async def forget(store: Store, *names: str) -> None:
    """Evict keys of the clock."""
    await store.cache.run([Call("DEL", (store.keys.of_clock(WORKSPACE, name),)) for name in names])


async def test_events_form_a_chain_and_are_read_back_in_order(store: Store) -> None:
    start = await now(store)
    first, second = await append(store, entry(text="a"), entry(text="b"))
    assert start == first.previous < first.tick == second.previous < second.tick == await now(store)
    read = await store.clocks.read_log(WORKSPACE, start, 10)
    assert read is not None
    epoch, events = read
    assert epoch == first.epoch
    assert [(e.tick, e.entry, e.version) for e in events] == [(first.tick, b"a", "3"), (second.tick, b"b", "3")]
    read = await store.clocks.read_log(WORKSPACE, first.tick, 10, epoch=epoch)
    assert read is not None and [event.entry for event in read[1]] == [b"b"]
    assert await store.clocks.read_log(WORKSPACE, second.tick, 10) == (epoch, [])


async def test_positions_of_the_future_or_of_another_epoch_cannot_be_resumed(store: Store) -> None:
    start = await now(store)
    assert await store.clocks.read_log(WORKSPACE, start + 1, 10) is None
    assert await store.clocks.read_log(WORKSPACE, start, 10, epoch="another") is None
    assert await store.clocks.read_log(WORKSPACE, start - 1, 10) is None
    changes = await store.clocks.read_changes({WORKSPACE: start + 1})
    assert not changes[WORKSPACE].is_complete


async def test_the_answer_names_the_servers_with_routes_until_they_are_removed(store: Store) -> None:
    until = store.clock.now_ms() + 60_000
    epoch, clock = await store.clocks.attach(WORKSPACE, "one", until)
    await store.clocks.attach(WORKSPACE, "two", until)
    await store.clocks.attach(WORKSPACE, "gone", store.clock.now_ms() - 1)
    (appended,) = await append(store, entry())
    assert (appended.epoch, appended.previous, sorted(appended.servers)) == (epoch, clock, ["one", "two"])
    assert sorted(await store.clocks.list_servers(WORKSPACE)) == ["one", "two"]
    (position,) = await store.clocks.read_positions([WORKSPACE], "one")
    assert position == (epoch, appended.tick, until)
    await store.clocks.detach([WORKSPACE], "one")
    (appended,) = await append(store, entry())
    assert list(appended.servers) == ["two"]
    assert (await store.clocks.read_positions([WORKSPACE, "w_8"], "one")) == [(epoch, appended.tick, 0), None]


async def test_a_repeated_entry_is_appended_once_and_names_the_present_clock(store: Store) -> None:
    at = store.clock.now_ms()
    once, other, again = await append(
        store,
        entry(text="same"),
        entry(),
        ClockEntry("same", "3", may_repeat_from_ms=at),
    )
    assert (again.tick, again.previous) == (0, other.tick)
    read = await store.clocks.read_log(WORKSPACE, once.previous, 10)
    assert read is not None and len(read[1]) == 2


async def test_lists_have_each_object_once_with_its_newest_tick(store: Store) -> None:
    start = await now(store)
    made = await append(
        store,
        entry("c_7.1", ChangeList.RECENT),
        entry("c_7.2", ChangeList.RECENT),
        entry("c_7.1", ChangeList.CHANGED),
        entry("c_7.1", ChangeList.RECENT),
        entry("w", ChangeList.CHANGED),
    )
    changes = (await store.clocks.read_changes({WORKSPACE: start}))[WORKSPACE]
    assert changes.is_complete and changes.reading.tick == made[-1].tick
    assert changes.recent == {"c_7.2": made[1].tick, "c_7.1": made[3].tick}
    assert changes.changed == {"c_7.1": made[2].tick, "w": made[4].tick}
    later = (await store.clocks.read_changes({WORKSPACE: made[2].tick}))[WORKSPACE]
    assert (later.is_complete, later.recent, later.changed) == (
        True,
        {"c_7.1": made[3].tick},
        {"w": made[4].tick},
    )
    margin = made[2].tick - made[1].tick + 1
    earlier = await store.clocks.read_changes({WORKSPACE: made[2].tick}, recent_margin=margin)
    assert earlier[WORKSPACE].recent == changes.recent and earlier[WORKSPACE].changed == later.changed


async def test_lists_are_bounded_and_say_from_when_on_they_are_complete(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clock_constants.clock_literals()["CLOCK_LOG_LENGTH"] == "10000"
    start = await now(store)
    floor = (await append(store, entry("c_7.1", ChangeList.CHANGED)))[0]
    keys = (store.keys.of_clock(WORKSPACE, "changed"),)
    filler = [part for number in range(9_999) for part in (start + 1, f"m{number}")]
    await store.cache.one(Call("ZADD", keys, tuple(filler)))
    await store.cache.one(Call("HINCRBY", store.keys.clock(WORKSPACE), ("listed", 9_999)))
    assert (await store.clocks.read_changes({WORKSPACE: start}))[WORKSPACE].is_complete
    await append(store, entry("c_7.2", ChangeList.CHANGED))
    found = await store.clocks.read_changes({WORKSPACE: start})
    assert not found[WORKSPACE].is_complete
    found = await store.clocks.read_changes({WORKSPACE: floor.tick})
    assert found[WORKSPACE].is_complete and set(found[WORKSPACE].changed) == {"c_7.2"}


@pytest.mark.parametrize("lost", [("log",), ("recent",), ("changed",), ("meta",), ("meta", "log")])
async def test_an_evicted_key_makes_positions_before_it_unusable(store: Store, lost: tuple[str, ...]) -> None:
    start = await now(store)
    made = await append(store, entry("c_7.1", ChangeList.RECENT), entry("c_7.1", ChangeList.CHANGED))
    store.clock.advance_to(made[1].tick + 1)
    await forget(store, *lost)
    if lost in (("recent",), ("changed",)):
        assert not (await store.clocks.read_changes({WORKSPACE: start}))[WORKSPACE].is_complete
        assert (await store.clocks.read_changes({WORKSPACE: made[1].tick}))[WORKSPACE].is_complete
        return
    assert await store.clocks.read_log(WORKSPACE, start, 10) is None
    if "meta" in lost:
        assert await store.clocks.read_log(WORKSPACE, made[1].tick, 10, epoch=made[1].epoch) is None
        assert await now(store) >= made[1].tick
        (later,) = await append(store, entry())
        assert later.epoch != made[1].epoch and later.tick > made[1].tick
        for tick in (start, made[0].tick):
            assert not (await store.clocks.read_changes({WORKSPACE: tick}))[WORKSPACE].is_complete


async def test_a_known_policy_version_survives_the_begin_of_an_epoch(store: Store) -> None:
    await store.cache.one(Call("HSET", store.keys.clock(WORKSPACE), ("pv", "12")))
    (reading,) = await store.clocks.read([WORKSPACE])
    assert reading.policy_version == 12
    (appended,) = await append(store, entry())
    assert appended.version == "12"
    assert (await store.clocks.append(WORKSPACE, ClockEntry("newer", "13"))).version == "13"
    assert (await store.clocks.read(["w_8"]))[0].policy_version is None


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["append", "evict meta", "evict log", "lose everything", "read"]), max_size=20))
async def test_ticks_only_grow_and_a_resumed_position_misses_nothing(store: Store, steps: list[str]) -> None:
    """After each step, each tick that was given out is refused, or resumed with all that came after it."""
    await forget(store, "meta", "log", "recent", "changed", "routes")
    given_out: list[int] = [await now(store)]
    texts: dict[int, bytes] = {}
    for step in steps:
        if step == "append":
            text = f"entry {next(_entries)}"
            (made,) = await append(store, entry(text=text))
            assert made.tick > given_out[-1]
            given_out.append(made.tick)
            texts[made.tick] = text.encode()
        elif step == "read":
            tick = await now(store)
            assert tick >= given_out[-1]
            given_out.append(tick)
        else:
            # Losses are further apart than the lead of a new epoch.
            store.clock.advance_to(max(given_out) + 1)
            await forget(store, *(("meta", "log") if step == "lose everything" else (step.removeprefix("evict "),)))
        for tick in given_out:
            read = await store.clocks.read_log(WORKSPACE, tick, 100)
            expected = [(at, text) for at, text in texts.items() if at > tick]
            assert read is None or [(e.tick, e.entry) for e in read[1]] == expected
