"""Shared clocks: ticks only grow, the log shows its gaps, and a lost clock never looks like the one before."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.base.clock import DeploymentClock, SystemClock
from store.base.ids import UserId
from store.clocks import clock_constants
from store.clocks.shared_clocks import (
    Appended,
    ChangeList,
    ChangesSince,
    ClockEntry,
    LoggedEvent,
    SharedClocks,
)
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


async def resume(store: Store, tick: int, epoch: str = "") -> list[LoggedEvent] | None:
    """Return the events after a position; None if it cannot be resumed."""
    page = await store.clocks.read_log(WORKSPACE, tick, 100)
    can_resume = page.earliest <= tick <= page.clock and epoch in ("", page.epoch)
    return list(page.events) if can_resume else None


async def changes_since(store: Store, tick: int, user: str = "ada", *, margin: int = 0) -> ChangesSince:
    return (await store.clocks.read_changes({WORKSPACE: tick}, UserId(user), recent_margin=margin))[WORKSPACE]


async def forget(store: Store, *names: str) -> None:
    """Evict keys of the clock."""
    await store.cache.run([Call("DEL", (store.keys.of_clock(WORKSPACE, name),)) for name in names])


async def test_events_form_a_chain_and_are_read_back_in_order(store: Store) -> None:
    start = await now(store)
    first, second = await append(store, entry(text="a"), entry(text="b"))
    assert start == first.previous < first.tick == second.previous < second.tick == await now(store)
    events = [LoggedEvent(first.tick, b"a", "3", ""), LoggedEvent(second.tick, b"b", "3", "")]
    assert await resume(store, start, first.epoch) == events
    assert await resume(store, first.tick, first.epoch) == events[1:]
    assert await resume(store, second.tick) == []
    page = await store.clocks.read_log(WORKSPACE, 0, 1)
    assert page == (first.epoch, second.tick, start, events[:1])


async def test_positions_of_the_future_or_of_another_epoch_cannot_be_resumed(store: Store) -> None:
    start = await now(store)
    assert await resume(store, start + 1) is None
    assert await resume(store, start, "another") is None
    assert await resume(store, start - 1) is None
    assert not (await changes_since(store, start + 1)).is_complete


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
    once, other, again = await append(
        store,
        entry(text="same"),
        entry(),
        ClockEntry("same", "3", may_repeat=True),
    )
    assert (again.tick, again.previous) == (0, other.tick)
    assert len(await resume(store, once.previous) or ()) == 2
    (new,) = await append(store, ClockEntry("new", "3", may_repeat=True))
    (after,) = await append(store, entry(text="after"))
    repeated = await append(store, *(ClockEntry(text, "3", may_repeat=True) for text in ("new", "after")))
    assert [each.tick for each in repeated] == [0, 0] and after.previous == new.tick == other.tick + 1


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
    changes = await changes_since(store, start)
    assert changes.is_complete and changes.reading.tick == made[-1].tick
    assert changes.recent == {"c_7.2": made[1].tick, "c_7.1": made[3].tick}
    assert changes.changed == {"c_7.1": made[2].tick, "w": made[4].tick}
    later = await changes_since(store, made[2].tick)
    assert (later.is_complete, later.recent, later.changed) == (
        True,
        {"c_7.1": made[3].tick},
        {"w": made[4].tick},
    )
    margin = made[2].tick - made[1].tick + 1
    earlier = await changes_since(store, made[2].tick, margin=margin)
    assert earlier.recent == changes.recent and earlier.changed == later.changed


async def fill(store: Store, name: str, tick: int) -> None:
    """Put as many elements into a list that the next one is too many."""
    filler = [part for number in range(9_999) for part in (tick, f"m{number}")]
    await store.cache.one(Call("ZADD", (store.keys.of_clock(WORKSPACE, name),), tuple(filler)))
    await store.cache.one(Call("HINCRBY", store.keys.clock(WORKSPACE), ("listed", 9_999)))


async def test_lists_are_bounded_and_say_since_when_they_are_complete(store: Store) -> None:
    assert clock_constants.clock_literals()["CLOCK_LOG_LENGTH"] == "10000"
    start = await now(store)
    floor = (await append(store, entry("c_7.1", ChangeList.CHANGED)))[0]
    await fill(store, "changed", start + 1)
    assert (await changes_since(store, start)).is_complete
    await append(store, entry("c_7.2", ChangeList.CHANGED))
    assert not (await changes_since(store, start)).is_complete
    found = await changes_since(store, floor.tick)
    assert found.is_complete and set(found.changed) == {"c_7.2"}


async def test_changes_of_members_are_named_to_the_member_only(store: Store) -> None:
    start = await now(store)
    channel, ada, bob = await append(
        store,
        entry("c_7.1", ChangeList.CHANGED),
        entry("ada", ChangeList.MEMBERS),
        entry("bob", ChangeList.MEMBERS),
    )
    for user, own in (("ada", ada.tick), ("bob", bob.tick), ("carol", 0)):
        found = await changes_since(store, start, user)
        assert (found.is_complete, found.own, found.changed) == (True, own, {"c_7.1": channel.tick})
    assert (await changes_since(store, ada.tick, "ada")).own == 0


async def test_changes_of_many_members_are_bounded_and_drop_no_channel(store: Store) -> None:
    start = await now(store)
    channel, floor = await append(store, entry("c_7.1", ChangeList.CHANGED), entry("ada", ChangeList.MEMBERS))
    await fill(store, "members", floor.tick)
    assert (await changes_since(store, start)).is_complete
    await append(store, entry("bob", ChangeList.MEMBERS))
    size = await store.cache.one(Call("ZCARD", (store.keys.of_clock(WORKSPACE, "members"),)))
    assert size == clock_constants.LOG_LENGTH
    dropped = await changes_since(store, start)
    assert not dropped.is_complete and dropped.changed == {"c_7.1": channel.tick}
    assert (await changes_since(store, floor.tick, "bob")).is_complete


async def test_a_search_for_a_repeated_entry_goes_through_the_log_once(store: Store) -> None:
    """A server that recovers many messages must not read the log for each of them."""
    made = await append(store, *(entry(text=f"old {number}") for number in range(3)))
    log, entries = (store.keys.of_clock(WORKSPACE, name) for name in ("log", "entries"))
    assert (await append(store, ClockEntry("old 0", may_repeat=True)))[0].tick == 0
    # Only a search in the log would miss it.
    await store.cache.one(Call("XDEL", (log,), (f"{made[1].tick}-0",)))
    assert (await append(store, ClockEntry("old 1", may_repeat=True)))[0].tick == 0
    assert 0 < await store.cache.one(Call("PTTL", (entries,))) <= clock_constants.ENTRIES_MS
    await store.cache.one(Call("DEL", (entries,)))
    assert (await append(store, ClockEntry("old 2", may_repeat=True)))[0].tick == 0
    assert (await append(store, ClockEntry("old 1", may_repeat=True)))[0].tick > made[2].tick


@pytest.mark.parametrize("lost", [("log",), ("recent",), ("changed",), ("members",), ("meta",), ("meta", "log")])
async def test_an_evicted_key_makes_positions_before_it_unusable(store: Store, lost: tuple[str, ...]) -> None:
    start = await now(store)
    both = [(kind, "c_7.1") for kind in (ChangeList.RECENT, ChangeList.CHANGED)]
    made = await append(store, entry("ada", ChangeList.MEMBERS), ClockEntry("both", "3", both))
    store.clock.advance_to(made[1].tick + 1)
    await forget(store, *lost)
    if lost in (("recent",), ("changed",), ("members",)):
        assert not (await changes_since(store, start)).is_complete
        assert (await changes_since(store, made[1].tick)).is_complete
        return
    assert await resume(store, start) is None
    if "meta" in lost:
        assert await resume(store, made[1].tick, made[1].epoch) is None
        assert await now(store) >= made[1].tick
        (later,) = await append(store, entry())
        assert later.epoch != made[1].epoch and later.tick > made[1].tick
        for tick in (start, made[0].tick):
            assert not (await changes_since(store, tick)).is_complete


async def test_a_server_with_a_slow_clock_reuses_no_tick_of_a_lost_epoch(store: Store) -> None:
    slow = DeploymentClock(SystemClock())
    await now(store)
    for clock in (store.clock, slow):
        clock.advance_to(clock.now_ms() + clock_constants.LEAD_MS)
    store.clock.advance_to(store.clock.now_ms() + 14_000)
    (lost,) = await append(store, entry())
    assert lost.tick > slow.now_ms() + 13_000
    await forget(store, "meta", "log")
    new = await SharedClocks(store.cache, store.keys, slow).append(WORKSPACE, entry())
    assert new.tick > lost.tick and await resume(store, lost.tick) is None


async def test_a_known_policy_version_survives_the_begin_of_an_epoch(store: Store) -> None:
    await store.cache.one(Call("HSET", store.keys.clock(WORKSPACE), ("pv", "12")))
    (reading,) = await store.clocks.read([WORKSPACE])
    assert reading.policy_version == 12
    (appended,) = await append(store, entry())
    assert appended.version == "12"
    assert (await store.clocks.append(WORKSPACE, ClockEntry("newer", "13"))).version == "13"
    assert (await store.clocks.read(["w_8"]))[0].policy_version is None


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["append", "evict meta", "evict log", "lose everything", "read"]), max_size=20))
async def test_ticks_only_grow_and_a_resumed_position_misses_nothing(store: Store, steps: list[str]) -> None:
    """After each step, each tick that was given out is refused, or resumed with all that came after it."""
    await forget(store, "meta", "log", "recent", "changed", "members", "routes")
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
            read = await resume(store, tick)
            expected = [(at, text) for at, text in texts.items() if at > tick]
            assert read is None or [(e.tick, e.entry) for e in read] == expected
