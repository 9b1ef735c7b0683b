"""The generations of slots: begun for any slots, stored as ranges, read again. Compared with a plain list."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from store.base.ids import UserId
from store.deployment.slot_generations import MOST_RANGES, SlotGenerations
from store.redis.keys import SLOTS, Keys, is_present, slot_of_tag, user_tag

_EDGES = st.sampled_from([0, 1, 5460, 5461, 10922, SLOTS - 2, SLOTS - 1])
_SLOT = st.one_of(_EDGES, st.integers(0, SLOTS - 1))
_RANGES = st.lists(st.tuples(_SLOT, _SLOT).map(sorted), max_size=4)


@given(st.lists(_RANGES, max_size=8), st.lists(_SLOT, max_size=20))
@settings(max_examples=60, deadline=None)
def test_slots_have_the_generation_that_began_last_for_them(begun: list[list[list[int]]], probed: list[int]) -> None:
    naive = [1] * SLOTS
    row: dict[str, Any] = {"gen": 1}
    for generation, ranges in enumerate(begun, start=2):
        slots = {slot for first, last in ranges for slot in range(first, last + 1)}
        for slot in slots:
            naive[slot] = generation
        field = SlotGenerations.from_row(row).begin(slots, generation).to_field(generation)
        assert field is not None
        row = {"gen": generation, "slots": field}
        starts = [first for first, _ in field["starts"]]
        assert starts == [0, *(slot for slot in range(1, SLOTS) if naive[slot] != naive[slot - 1])]
    newest = row["gen"]
    found = SlotGenerations.from_row(row)
    by_slot = found.by_slot(newest)
    assert list(by_slot or [newest] * SLOTS) == naive
    assert (by_slot is None) == (set(naive) == {newest})
    assert [found.of(slot) for slot in probed] == [naive[slot] for slot in probed]
    keys = Keys("p:")
    keys.enter(newest, by_slot)
    for number in range(20):
        user = UserId(f"user{number}")
        (name,) = keys.user(user)
        assert name == f"p:/{naive[key_slot(name.encode())]}{{{user_tag(user)}}}:meta"
        assert is_present(keys, name)
        assert not is_present(keys, name.replace("/", "/9"))
    assert is_present(keys, keys.epoch)
    assert keys.epoch == f"p:/{newest}epoch"


def test_too_many_ranges_are_not_stored() -> None:
    generations = SlotGenerations.uniform(1).begin(range(0, 2 * MOST_RANGES, 2), 2)
    assert generations.to_field(2) is None
    assert SlotGenerations.uniform(1).begin(range(0, MOST_RANGES - 1, 2), 2).to_field(2) is not None


def test_a_generation_begun_by_an_earlier_version_is_one_for_all_slots() -> None:
    field = SlotGenerations.uniform(4).begin([7], 5).to_field(5)
    assert SlotGenerations.from_row({"gen": 5, "slots": field}).of(8) == 4
    assert SlotGenerations.from_row({"gen": 6, "slots": field}).by_slot(6) is None


def test_the_slot_of_a_tag_is_the_slot_of_its_keys() -> None:
    for tag in ("u:anna", "p:1023", "w:x", "", "u:%C3%A9"):
        assert slot_of_tag(tag) == key_slot(f"any/3{{{tag}}}:meta".encode()) or not tag
