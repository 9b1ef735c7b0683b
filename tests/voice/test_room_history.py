"""Which voice states end, and which participants are removed, for each sequence of lists of a room."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from resolvers.voice.media.livekit_api import Participant
from resolvers.voice.media.room_history import (
    ABSENT_MS,
    LOOK_MS,
    STRANGER_MS,
    UNSEEN_MS,
    Findings,
    RoomHistory,
    RoomView,
)
from resolvers.voice.media.rooms import MediaPermission
from store.voice.voice_state import VoiceState
from tests.voice.conftest import state_of

ALL = MediaPermission.of_state(state_of()).to_message()


def view(*identities: str, room: str | None = "RM_1", is_person: bool = True, permission: object = ALL) -> RoomView:
    return RoomView(room, [Participant(identity, is_person, permission) for identity in identities])  # type: ignore[arg-type]


def states(*identities: str, joined_at_ms: int = 0) -> dict[str, VoiceState]:
    return {identity: state_of(identity, joined_at_ms=joined_at_ms) for identity in identities}


def ended(findings: Findings) -> list[str]:
    return [state.user for state in findings.ended]


def test_a_state_ends_28_s_after_its_participant_was_first_missing() -> None:
    history = RoomHistory(0)
    assert not history.compare(view("ann", "bob"), states("ann", "bob"), 0).ended
    first = history.compare(view("bob"), states("ann", "bob"), 1_000)
    assert not first.ended and first.next_look_ms == 1_000 + LOOK_MS
    second = history.compare(view("bob"), states("ann", "bob"), 16_000)
    assert not second.ended and second.next_look_ms == 1_000 + ABSENT_MS
    assert not history.compare(view("bob"), states("ann", "bob"), 1_000 + ABSENT_MS - 1).ended
    assert ended(history.compare(view("bob"), states("ann", "bob"), 1_000 + ABSENT_MS)) == ["ann"]


def test_a_ghost_is_shown_for_less_than_45_s() -> None:
    assert LOOK_MS + ABSENT_MS < 45_000


def test_a_participant_that_comes_back_in_time_keeps_its_state() -> None:
    history = RoomHistory(0)
    for at in range(0, 300_000, 10_000):
        present = ("ann",) if at % 30_000 == 0 else ()
        assert not history.compare(view(*present), states("ann"), at).ended


def test_a_participant_that_never_came_ends_its_state_when_no_token_is_valid() -> None:
    history = RoomHistory(0)
    for at in range(0, UNSEEN_MS, LOOK_MS):
        assert not history.compare(view(room=None), states("ann"), at).ended
    assert ended(history.compare(view(room=None), states("ann"), UNSEEN_MS)) == ["ann"]


def test_a_device_that_joined_a_moment_ago_never_counts_as_missing() -> None:
    history = RoomHistory(0)
    history.compare(view("ann", "bob"), states("ann", "bob"), 0)
    history.compare(view("bob"), states("ann", "bob"), 10_000)
    later = states("bob") | states("ann", joined_at_ms=20_000)
    for at in (20_000, 10_000 + ABSENT_MS, 60_000, 20_000 + UNSEEN_MS - 1):
        assert not history.compare(view("bob"), later, at).ended
    assert ended(history.compare(view("bob"), later, 20_000 + UNSEEN_MS)) == ["ann"]


def test_an_error_begins_the_time_of_absence_again() -> None:
    history = RoomHistory(0)
    history.compare(view("ann"), states("ann"), 0)
    history.compare(view(), states("ann"), 10_000)
    history.note_failure()
    assert not history.compare(view(), states("ann"), 10_000 + ABSENT_MS).ended
    assert ended(history.compare(view(), states("ann"), 10_000 + 2 * ABSENT_MS)) == ["ann"]


def test_an_error_begins_the_time_of_strangers_again() -> None:
    history = RoomHistory(0)
    history.compare(view("eve"), {}, 0)
    history.note_failure()
    assert not history.compare(view("eve"), {}, STRANGER_MS).strangers
    assert history.compare(view("eve"), {}, 2 * STRANGER_MS).strangers == ["eve"]


def test_a_restart_ends_no_state_while_clients_may_still_come_back() -> None:
    for after in (view(room=None), view(room="RM_2"), view("bob", room="RM_2")):
        history, both = RoomHistory(0), states("ann", "bob")
        history.compare(view("ann", "bob"), both, 0)
        for at in range(LOOK_MS, UNSEEN_MS, LOOK_MS):
            assert not history.compare(after, both, at).ended
        missing = {"ann", "bob"} - {participant.identity for participant in after.participants}
        assert set(ended(history.compare(after, both, LOOK_MS + UNSEEN_MS))) == missing


def test_a_participant_that_came_back_after_a_restart_can_be_missed_again() -> None:
    history, both = RoomHistory(0), states("ann", "bob")
    history.compare(view("ann", "bob"), both, 0)
    history.compare(view(room=None), both, 15_000)
    history.compare(view("ann", "bob", room="RM_2"), both, 30_000)
    history.compare(view("bob", room="RM_2"), both, 45_000)
    assert ended(history.compare(view("bob", room="RM_2"), both, 45_000 + ABSENT_MS)) == ["ann"]


def test_a_room_that_closes_because_everybody_left_is_no_restart() -> None:
    history = RoomHistory(0)
    history.compare(view("ann"), states("ann"), 0)
    history.compare(view(), states("ann"), 1_000)
    assert ended(history.compare(view(room=None), states("ann"), 1_000 + ABSENT_MS)) == ["ann"]


def test_a_participant_without_a_state_is_removed_after_some_seconds() -> None:
    history = RoomHistory(0)
    first = history.compare(view("ann", "eve"), states("ann"), 0)
    assert not first.strangers and first.next_look_ms == STRANGER_MS
    assert history.compare(view("ann", "eve"), states("ann"), STRANGER_MS).strangers == ["eve"]


def test_a_participant_whose_state_appears_in_time_stays() -> None:
    history = RoomHistory(0)
    history.compare(view("ann"), {}, 0)
    assert not history.compare(view("ann"), states("ann"), 4_000).strangers
    assert not history.compare(view("ann"), {}, 6_000).strangers


def test_agents_and_recordings_need_no_state() -> None:
    history = RoomHistory(0)
    for at in range(0, 600_000, LOOK_MS):
        assert not history.compare(view("agent", is_person=False), {}, at).strangers


def test_a_participant_who_may_do_something_else_than_its_state_says_is_corrected() -> None:
    history, muted = RoomHistory(0), {"ann": state_of(muted=True)}
    wanted = MediaPermission.of_state(muted["ann"])
    assert history.compare(view("ann"), muted, 0).corrected == {"ann": wanted}
    assert not history.compare(view("ann", permission=wanted.to_message()), muted, 0).corrected
    too_much = {**wanted.to_message(), "can_publish_data": True}
    assert history.compare(view("ann", permission=too_much), muted, 0).corrected == {"ann": wanted}
    no_sources = {**ALL, "can_publish_sources": []}
    assert history.compare(view("ann", permission=no_sources), states("ann"), 0).corrected


def test_an_empty_room_without_states_is_not_looked_at_again() -> None:
    assert RoomHistory(0).compare(view(), {}, 0).next_look_ms is None
    assert RoomHistory(0).compare(view("eve"), {}, 0).next_look_ms == STRANGER_MS


@dataclass
class Observed:
    """Knowledge about one participant, from all lists of the room. Its state lasts."""

    now_ms: int = 0
    room: int = 1
    present: bool = False
    last_seen_ms: int | None = None
    """The last time at which a list of the present room had the participant; None: no list had."""
    first_absent_ms: int | None = None
    began_ms: int = 0
    history: RoomHistory = field(default_factory=lambda: RoomHistory(0))


STEPS = st.lists(
    st.tuples(st.sampled_from(["look", "look", "look", "fail", "come", "go", "restart"]), st.integers(1, 20_000)),
    max_size=60,
)


@given(STEPS)
def test_a_state_ends_only_if_its_participant_or_its_token_is_gone(steps: list[tuple[str, int]]) -> None:
    observed, state = Observed(), states("ann")
    for step, passed_ms in steps:
        observed.now_ms += passed_ms
        match step:
            case "come":
                observed.present = True
            case "go":
                observed.present = False
            case "fail":
                observed.history.note_failure()
                observed.first_absent_ms = None
            case "restart":
                observed.room += 1
                observed.present = False
            case "look" if observed.present:
                assert not observed.history.compare(in_room(observed, "ann"), state, observed.now_ms).ended
                observed.last_seen_ms, observed.first_absent_ms = observed.now_ms, None
            case "look":
                lost_room = observed.history.was_occupied and observed.history.room_id != f"RM_{observed.room}"
                if lost_room:
                    observed.last_seen_ms, observed.began_ms = None, observed.now_ms
                if observed.first_absent_ms is None:
                    observed.first_absent_ms = observed.now_ms
                is_over = observed.history.compare(in_room(observed), state, observed.now_ms).ended
                if observed.last_seen_ms is not None:
                    assert bool(is_over) == (observed.now_ms - observed.first_absent_ms >= ABSENT_MS)
                else:
                    assert bool(is_over) == (observed.now_ms - observed.began_ms >= UNSEEN_MS)


def in_room(observed: Observed, *identities: str) -> RoomView:
    return view(*identities, room=f"RM_{observed.room}")
