"""Lost notes count from the beginning of the newest generation: its recovery adds all notes from before."""

from __future__ import annotations

import time

from store.deployment.lost_notes import LostNotes

NOW_MS = 1_000_000


def _lost_at(*times_ms: int) -> LostNotes:
    lost = LostNotes()
    for at_ms in times_ms:
        # The clock was read an hour ago. The time since then is added.
        lost.set_time(at_ms - 3_600_000, time.monotonic() - 3_600)
        lost.add()
    return lost


def test_no_notes_are_lost_at_first_and_after_a_recovery_began() -> None:
    lost = _lost_at()
    assert lost.find_first_ms(0) is None
    lost = _lost_at(NOW_MS)
    assert lost.find_first_ms(0) is not None
    lost.clear()
    assert lost.find_first_ms(0) is None


def test_notes_lost_before_the_newest_generation_do_not_count() -> None:
    assert _lost_at(NOW_MS - 600_000, NOW_MS).find_first_ms(NOW_MS - 60_000) == NOW_MS - 60_000
    lost = _lost_at(NOW_MS - 600_000, NOW_MS)
    begun_ms = NOW_MS + 60_000
    assert lost.find_first_ms(begun_ms) is None
    # Days later notes are lost again, in the same generation.
    later_ms = NOW_MS + 5 * 86_400_000
    lost.set_time(later_ms, time.monotonic())
    lost.add()
    assert lost.find_first_ms(begun_ms) == later_ms


def test_without_a_new_generation_all_lost_notes_count() -> None:
    lost = _lost_at(NOW_MS - 600_000, NOW_MS)
    first = lost.find_first_ms(0)
    assert first is not None and first <= NOW_MS - 600_000
