"""Summaries of reactions against a naive model: after any changes they equal the rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from store.base.ids import UserId
from store.reactions import reaction_draft
from store.reactions.reaction_draft import Reaction, ReactionChange, ReactionChangeKind, ReactionDraft, ReactionRefusal
from store.reactions.reaction_summary import KEY_LENGTH, ReactionSummary, summaries_from, user_key

USERS = [UserId(f"u{number}") for number in range(9)]
EMOJI = ["a", "b", "c", "d"]
LIMITS = {"MOST_KEYS": 4, "MOST_EMOJI": 3, "MOST_EMOJI_OF_USER": 2}

ADD, REMOVE, CLEAR = ReactionChangeKind

changes = st.builds(
    ReactionChange,
    st.sampled_from((ADD, ADD, ADD, REMOVE)),
    st.sampled_from(USERS),
    st.sampled_from(EMOJI),
    st.sampled_from((True, True, False)),
)


class Model:
    """Rows in the order of the reactions."""

    def __init__(self) -> None:
        self.rows: list[Reaction] = []
        self.emoji: list[str] = []
        """In the order in which they were first used."""

    def apply(self, change: ReactionChange) -> ReactionRefusal | None:
        assert change.emoji is not None
        row = (change.emoji, change.user)
        if change.kind is REMOVE:
            if row in self.rows:
                self.rows.remove(row)
                if not self.users_of(change.emoji):
                    self.emoji.remove(change.emoji)
            return None
        if row in self.rows:
            return None
        if change.emoji not in self.emoji:
            if not change.may_introduce:
                return ReactionRefusal.NEEDS_PERMISSION
            if len(self.emoji) == LIMITS["MOST_EMOJI"]:
                return ReactionRefusal.TOO_MANY_EMOJI
        if sum(user == change.user for _, user in self.rows) == LIMITS["MOST_EMOJI_OF_USER"]:
            return ReactionRefusal.TOO_MANY_OF_USER
        if change.emoji not in self.emoji:
            self.emoji.append(change.emoji)
        self.rows.append(row)
        return None

    def users_of(self, emoji: str) -> list[UserId]:
        return [user for each, user in self.rows if each == emoji]

    def check(self, summaries: Sequence[ReactionSummary]) -> None:
        assert [summary.emoji for summary in summaries] == self.emoji
        for summary in summaries:
            users = self.users_of(summary.emoji)
            assert (summary.user_count, list(summary.users)) == (len(users), users[:5])
            assert summary.keys in ("", "".join(map(user_key, users[5:])))
            for user in USERS:
                assert summary.has(user) in ((user in users), None)
            assert summary.knows_all or len(users) > 5
        assert sum(len(summary.keys) for summary in summaries) <= LIMITS["MOST_KEYS"] * KEY_LENGTH


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in LIMITS.items():
        monkeypatch.setattr(reaction_draft, name, limit)


def store(summaries: Sequence[ReactionSummary], rows: list[Reaction], batch: Sequence[ReactionChange]) -> ReactionDraft:
    """Apply changes as a transaction does. `rows` becomes what MongoDB has after it."""
    draft = ReactionDraft(summaries)
    draft.note_rows({reaction: reaction in rows for reaction in draft.list_unknown(batch)})
    draft.refusals = [draft.apply(change, 1) for change in batch]  # type: ignore[attr-defined]
    for reaction in draft.removed:
        rows.remove(reaction)
    for reaction in draft.added:
        assert reaction not in rows
        rows.append(reaction)
    for emoji in draft.list_unnamed():
        draft.name(emoji, [user for each, user in rows if each == emoji][:5])
    draft.limit_keys()
    return draft


@given(st.lists(st.lists(changes, min_size=1, max_size=12), max_size=12))
@example([[ReactionChange(ADD, user, "a") for user in USERS], [ReactionChange(REMOVE, USERS[0], "a")]])
@example([[ReactionChange(ADD, user, "a"), ReactionChange(REMOVE, user, "a")] for user in USERS])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_summaries_equal_the_rows_after_any_changes(batches: list[list[ReactionChange]]) -> None:
    model, rows, summaries = Model(), list[Reaction](), tuple[ReactionSummary, ...]()
    for batch in batches:
        expected = [model.apply(change) for change in batch]
        draft = store(summaries, rows, batch)
        assert draft.refusals == expected  # type: ignore[attr-defined]
        assert rows == model.rows
        model.check(draft.summaries)
        summaries = summaries_from(summary.to_stored() for summary in draft.summaries)
        assert summaries == draft.summaries


@given(st.integers(min_value=1, max_value=9), st.integers(min_value=0, max_value=9))
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_the_last_users_are_cut(count: int, cut: int) -> None:
    users = USERS[:count]
    draft = store((), [], [ReactionChange(ADD, user, "a") for user in users])
    draft.cut("a", min(cut, count))
    model = Model()
    model.rows = [("a", user) for user in users[: max(0, count - cut)]]
    model.emoji = ["a"] if model.rows else []
    model.check(draft.summaries)
