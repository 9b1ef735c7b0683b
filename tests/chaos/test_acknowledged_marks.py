"""The judge of reactions and pins knows which of them are certain at the end."""

from __future__ import annotations

import pytest

from tests.chaos.judges.acknowledged_marks import Mark, certain_marks
from tests.chaos.judges.record import Try

MINE = Mark("m_1", "a", "👍")


class Story:
    """Requests, each a second after the one before."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tries: list[Try] = []

    def ask(self, operation: str, code: str = "ok", user: str = "a", id: str = "m_1") -> None:
        self.now += 1
        variables = {"id": id} | ({"emoji": "👍"} if "Reaction" in operation else {})
        tried = Try(len(self.tries), user, user, operation, variables, self.now, code=code)
        if code != "lost":
            tried.answered = self.now + 0.5
        self.tries.append(tried)

    @property
    def marks(self) -> dict[Mark, bool]:
        return certain_marks(self.tries, {"m_2": "m_1"})


def test_the_last_acknowledged_change_counts() -> None:
    story = Story()
    story.ask("addReaction")
    assert story.marks == {MINE: True}
    story.ask("removeReaction")
    assert story.marks == {MINE: False}
    story.ask("addReaction")
    assert story.marks == {MINE: True}


@pytest.mark.parametrize("code", ["lost", "UNAVAILABLE"])
def test_a_change_without_an_answer_may_take_effect_later(code: str) -> None:
    story = Story()
    story.ask("removeReaction", code)
    story.ask("addReaction")
    assert story.marks == {}
    story.now += 40
    story.ask("addReaction")
    assert story.marks == {MINE: True}


def test_a_refused_change_has_no_effect() -> None:
    story = Story()
    story.ask("addReaction")
    story.ask("removeReaction", "FORBIDDEN")
    assert story.marks == {MINE: True}


def test_a_reaction_to_a_copy_is_one_to_its_reply() -> None:
    story = Story()
    story.ask("addReaction")
    story.ask("removeReaction", id="m_2")
    assert story.marks == {MINE: False}


def test_a_pin_belongs_to_nobody_and_ends_with_the_recall() -> None:
    story = Story()
    story.ask("pinMessage")
    assert story.marks == {Mark("m_1"): True}
    story.ask("unpinMessage", user="b")
    assert story.marks == {Mark("m_1"): False}
    story.ask("pinMessage", id="m_2")
    assert story.marks == {Mark("m_1"): False, Mark("m_2"): True}
    story.ask("recallMessage", "lost")
    assert story.marks == {}
