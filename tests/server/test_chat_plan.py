"""Nicks become user ids, and lines become steps of these users."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resolvers.base.names import accept_name
from server.chat_import.log_file import ChatFile, ChatLine, JoinLine, MessageLine, RenameLine
from server.chat_import.plan import (
    IMPORTER,
    ImportPlan,
    JoinStep,
    RenameStep,
    SendStep,
    clean_text,
    cut_text,
    display_name_for,
    make_plan,
    user_id_for,
)
from server.errors import CommandError
from store.base.ids import is_user_id

# Nicks of real logs, extreme ones, and ones that look like ids of other nicks.
NICKS = st.one_of(
    st.text(alphabet="aAbB1_-|`[]{}^\\.@ ", min_size=1, max_size=12),
    st.text(min_size=1, max_size=200),
    st.text(alphabet="aAbB1_|.", min_size=1, max_size=8).map(lambda nick: str(user_id_for(nick))),
)


@given(NICKS, st.integers(1, 9))
@example("importer", 1)
@example("_" * 64, 1)
@example("a" * 64, 1)
@example("a" * 65, 1)
@example("\ud800", 1)
def test_every_nick_has_a_stable_legal_user_id(nick: str, bearer: int) -> None:
    user = user_id_for(nick, bearer)
    assert is_user_id(user)
    assert user == user_id_for(nick, bearer)
    assert user != IMPORTER


@given(st.sets(st.tuples(NICKS, st.integers(1, 3))))
def test_user_ids_of_different_people_differ(people: set[tuple[str, int]]) -> None:
    people |= {(str(user_id_for(nick, bearer)), 1) for nick, bearer in people}
    assert len({user_id_for(nick, bearer) for nick, bearer in people}) == len(people)


def test_a_simple_nick_is_used_unchanged_as_a_user_id() -> None:
    assert [user_id_for(nick) for nick in ("crimsun", "Rattboi", "rattboi", "CN-fermi", "late.comer", "123")] == [
        "crimsun", "Rattboi", "rattboi", "CN-fermi", "late.comer", "123",
    ]  # fmt: skip


def test_ids_of_unusual_nicks_never_change() -> None:
    """Ids must never change, because repeated imports depend on them."""
    assert [user_id_for(nick) for nick in ("sid77_", "|QuaD-", "zcat[1] ", "_-_")] == [
        "sid77.252639080ce065cd", "QuaD.71d254466bcbe933", "zcat-1.bfe84319ff515f3a", "user.c1840e5f93518b02",
    ]  # fmt: skip
    assert user_id_for("sid77", 2) == "sid77.25a2f8af363b82d7"


@given(st.text(max_size=200))
@example("\ud800")
@example(" \x07 ")
@example("\u202e\u3164")
def test_every_nick_has_a_legal_display_name(nick: str) -> None:
    name = display_name_for(nick)
    assert accept_name(name, "displayName") == name
    assert not any(ord(character) < 32 or ord(character) == 127 for character in name)
    name.encode()


@pytest.mark.parametrize("nick", ["crimsun", "|QuaD-", "zcat[1] ", "L|nu}{", "zoé", "`anthony", "\\x6e"])
def test_ordinary_nick_is_the_display_name(nick: str) -> None:
    assert display_name_for(nick) == nick


@given(st.text())
@example("a\0b\ud83d")
def test_cleaned_texts_can_be_sent_and_lose_nothing_else(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert "\0" not in cleaned
    if "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text):
        assert cleaned == text


def test_lone_surrogates_are_replaced_and_nuls_removed() -> None:
    assert clean_text("a\0b \ud83d c") == "ab \ufffd c"


def test_too_long_text_is_cut_and_ends_with_an_ellipsis() -> None:
    assert cut_text("x" * 4_000) == "x" * 4_000
    assert cut_text("x" * 4_001) == "x" * 3_999 + "…"


def test_person_without_a_join_is_a_member_from_the_start() -> None:
    plan = _plan(
        JoinLine(1, "late"),
        MessageLine(2, "early", "hi", None),
        RenameLine(3, "silent", "quiet"),
        MessageLine(4, "late", "hi", None),
    )
    assert plan.starters == ("early", "silent")
    assert plan.steps[0] == JoinStep(1, user_id_for("late"))


def test_join_of_a_member_is_ignored() -> None:
    plan = _plan(
        MessageLine(1, "a", "hi", None),
        MessageLine(2, "b", "hi", None),
        JoinLine(3, "a"),
        JoinLine(4, "c"),
        JoinLine(5, "c"),
    )
    assert [step for step in plan.steps if isinstance(step, JoinStep)] == [JoinStep(4, user_id_for("c"))]


def test_first_joiners_fill_up_a_group_that_is_too_small() -> None:
    plan = _plan(JoinLine(1, "a"), JoinLine(2, "b"), JoinLine(3, "c"), MessageLine(4, "a", "hi", None))
    assert plan.starters == ("a", "b")
    assert [step for step in plan.steps if isinstance(step, JoinStep)] == [JoinStep(3, user_id_for("c"))]


def test_chat_of_one_person_is_refused() -> None:
    with pytest.raises(CommandError, match=r"^The chat has only 1 person: a group needs 3 members"):
        _plan(MessageLine(1, "a", "hi", None), RenameLine(2, "a", "b"), MessageLine(3, "b", "hi", None))


def test_renamed_person_keeps_their_user_id() -> None:
    plan = _plan(
        MessageLine(1, "a", "1", None),
        MessageLine(2, "x", "2", None),
        RenameLine(3, "a", "b"),
        RenameLine(4, "b", "c_"),
        MessageLine(5, "c_", "3", None),
        RenameLine(6, "c_", "a"),
        MessageLine(7, "a", "4", None),
    )
    assert _senders(plan) == ["a", "x", "a", "a"]
    assert [step for step in plan.steps if isinstance(step, RenameStep)] == [
        RenameStep(3, user_id_for("a"), "b"),
        RenameStep(4, user_id_for("a"), "c_"),
        RenameStep(6, user_id_for("a"), "a"),
    ]
    assert plan.names_after(2)[user_id_for("a")] == "a"
    assert plan.names_after(4)[user_id_for("a")] == "c_"
    assert plan.names_after(7) == {"a": "a", "x": "x"}


def test_rename_takes_the_nick_from_its_previous_owner() -> None:
    plan = _plan(
        MessageLine(1, "a", "1", None),
        MessageLine(2, "b", "2", None),
        RenameLine(3, "a", "b"),
        MessageLine(4, "b", "3", None),
        MessageLine(5, "a", "4", "b"),
    )
    assert _senders(plan) == ["a", "b", "a", user_id_for("a", 2)]
    assert plan.names == {"a": "a", "b": "b", user_id_for("a", 2): "a"}
    last = plan.steps[-1]
    assert isinstance(last, SendStep)
    assert last.mentions == ("a",)


def test_reused_nick_belongs_to_a_new_person() -> None:
    plan = _plan(
        MessageLine(1, "a", "1", None),
        MessageLine(2, "x", "2", None),
        RenameLine(3, "a", "b"),
        JoinLine(4, "a"),
        MessageLine(5, "a", "3", None),
    )
    again = user_id_for("a", 2)
    assert _senders(plan) == ["a", "x", again]
    assert plan.starters == ("a", "x")
    assert JoinStep(4, again) in plan.steps


def test_nicks_can_be_swapped() -> None:
    plan = _plan(
        MessageLine(1, "a", "1", None),
        MessageLine(2, "b", "2", None),
        RenameLine(3, "a", "t"),
        RenameLine(4, "b", "a"),
        RenameLine(5, "t", "b"),
        MessageLine(6, "a", "3", None),
        MessageLine(7, "b", "4", None),
    )
    assert _senders(plan) == ["a", "b", "b", "a"]


def test_addressed_person_is_mentioned_if_a_member() -> None:
    plan = _plan(
        MessageLine(1, "a", "you, who speak only later", "quiet"),
        MessageLine(2, "a", "you, who are not here yet", "late"),
        JoinLine(3, "late"),
        MessageLine(4, "a", "you, who came", "late"),
        MessageLine(5, "a", "you, whom nobody knows", "nobody"),
        MessageLine(6, "quiet", "1", None),
        RenameLine(7, "quiet", "loud"),
        MessageLine(8, "a", "you, by your new name", "loud"),
        MessageLine(9, "a", "you, by your old name", "quiet"),
    )
    mentions = {step.line: step.mentions for step in plan.steps if isinstance(step, SendStep)}
    assert mentions == {1: ("quiet",), 2: (), 4: ("late",), 5: (), 6: (), 8: ("quiet",), 9: ("quiet",)}


def test_skipped_and_cut_messages_are_counted() -> None:
    plan = _plan(
        MessageLine(1, "a", "", None),
        MessageLine(2, "b", " \u2003 ", None),
        MessageLine(3, "a", "\0", None),
        MessageLine(4, "b", "x" * 5_000, None),
    )
    assert [step.line for step in plan.steps] == [4]
    assert (plan.skipped, plan.cut) == (3, 1)
    assert plan.starters == ("a", "b")


def _plan(*lines: ChatLine) -> ImportPlan:
    return make_plan(ChatFile("digest", len(lines), lines))


def _senders(plan: ImportPlan) -> list[str]:
    return [step.user for step in plan.steps if isinstance(step, SendStep)]
