"""Content rules find what a naive matcher finds, in a time that grows with the text only."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.base.ids import ConversationId
from store.base.workspace_ids import RoleId
from store.content_rules import content_rules
from store.content_rules.content_rule import ContentAction, ContentRule, rule_fields, rule_from
from store.content_rules.rule_matcher import BadPatternError, RuleMatcher, compile_pattern
from store.content_rules.rule_word import parse_word
from store.text.case_folding import fold_case
from store.text.tokens import TokenKind, tokens_of

CHANNEL = ConversationId("c_1.2")
BLOCK, FLAG, TIMEOUT = ContentAction.BLOCK, ContentAction.FLAG, ContentAction.TIMEOUT


def rule(words: Sequence[str] = (), patterns: Sequence[str] = (), action: ContentAction = BLOCK) -> ContentRule:
    return ContentRule(f"cr_{action}", tuple(words), tuple(patterns), action)


def finds(text: str, *words: str, patterns: Sequence[str] = ()) -> bool:
    return RuleMatcher([rule(words, patterns)]).judge([text], CHANNEL) is not None


@pytest.mark.parametrize(
    ("word", "found", "not_found"),
    [
        (
            "bad",
            [
                "BAD",
                "so bad!",
                "_bad_",
                "bad-ass",
                "b\u200bad",
                "b\x01ad",
                "b\x1c\x7fad",
                "bä\x01 b\x84ad",
                "b\ufff9ad",
                "\uff42ad",
                "これはbadです",
            ],
            ["badly", "abad", "bad1"],
        ),
        ("bad", ["\u0431bad"], ["ba", "d"]),
        ("bad*", ["bad", "badly", "bad1"], ["abad"]),
        ("*bad", ["bad", "abad", "not bad"], ["badly"]),
        ("bad word", ["a BAD\n\tword."], ["badword", "bad words"]),
        ("stra\u00dfe", ["STRASSE"], ["strassen"]),
        ("sch\u00f6n", ["SCHO\u0308N"], ["schon"]),
        ("schon", ["schon"], ["sch\u00f6n", "scho\u0308n"]),
        ("傻瓜", ["你是傻瓜吗"], ["傻 瓜"]),
        ("ばか", ["お前ばかだな"], ["はか"]),
        ("바보", ["바보야"], ["바"]),
        ("ควาย", ["ไอ้ควายนี่"], ["ควา"]),
        ("👍", ["ok👍🏽!", "👍👍"], ["👎"]),
        ("❤", ["❤\ufe0f"], ["💔"]),
        ("\U0001f1e9\U0001f1ea", ["\U0001f1e9\U0001f1ea!"], ["\U0001f1eb\U0001f1e9\U0001f1ea\U0001f1f8"]),
        ("c++", ["I like C++."], ["c+"]),
        ("#tag", ["a #tag"], ["tag", "#tags"]),
        ("don't", ["I DON'T"], ["dont"]),
    ],
)
def test_words_are_found_as_whole_words(word: str, found: list[str], not_found: list[str]) -> None:
    assert [text for text in found if not finds(text, word)] == []
    assert [text for text in not_found if finds(text, word)] == []


@pytest.mark.parametrize("word", ["", " ", "*", "**", "*a*", "a*b", "* a", "a *", "\u200b", "\u00ad*"])
def test_a_word_without_text_or_with_another_wildcard_is_none(word: str) -> None:
    assert parse_word(word) is None


LETTERS = "aAbß\u00e4a\u0308 傻瓜กา한👍\U0001f1e9\U0001f1ea.*_'1\u0431\n\u200b"
TEXT = st.text(LETTERS, max_size=12)
WORD = st.builds(
    lambda text, before, after: f"{'*' if before else ''}{text}{'*' if after and not before else ''}",
    st.text(LETTERS.replace("*", ""), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
)


def naive_finds(text: str, given_word: str) -> bool:
    """Compare a word with each part of a text, by the tokens of the text."""
    word = parse_word(given_word)
    if word is None:
        return False
    folded = fold_case(text)
    tokens = [(start, end) for kind, start, end in tokens_of(folded) if kind is not TokenKind.RUN]

    def is_inside(position: int) -> bool:
        return any(start < position < end for start, end in tokens)

    return any(
        folded[start : start + len(word.text)] == word.text
        and (word.begins_inside or not is_inside(start))
        and (word.ends_inside or not is_inside(start + len(word.text)))
        for start in range(len(folded))
    )


@given(TEXT, st.lists(WORD, min_size=1, max_size=8))
def test_words_are_found_where_a_naive_matcher_finds_them(text: str, words: list[str]) -> None:
    assert finds(text, *words) == any(naive_finds(text, word) for word in words)


RULES = st.lists(
    st.builds(
        lambda words, action, roles, channels: ContentRule(
            "cr", tuple(words), (), action, frozenset(map(RoleId, roles)), frozenset(map(ConversationId, channels))
        ),
        st.lists(WORD, min_size=1, max_size=2),
        st.sampled_from(ContentAction),
        st.sets(st.sampled_from("ab")),
        st.sets(st.sampled_from("ab")),
    ),
    max_size=5,
)


@given(TEXT, RULES, st.sampled_from("ab"), st.sets(st.sampled_from("abc").map(RoleId)))
def test_the_first_of_the_rules_with_the_highest_action_decides(
    text: str, rules: list[ContentRule], channel: str, roles: set[RoleId]
) -> None:
    applies = [
        each
        for each in rules
        if channel not in each.exempt_channels
        and not each.exempt_roles & roles
        and any(naive_finds(text, word) for word in each.words)
    ]
    found = RuleMatcher(rules).judge([text], ConversationId(channel), roles)
    ranks = [each.action.rank for each in applies]
    assert (found.action.rank if found is not None else None) == (max(ranks) if ranks else None)
    assert found is None or found in applies


@given(RULES)
def test_rules_are_read_as_they_were_stored(rules: list[ContentRule]) -> None:
    assert [rule_from(rule_fields(each)) for each in rules] == rules


def test_patterns_ignore_case_and_see_the_text_as_it_was_written() -> None:
    assert finds("Call 555-1234", patterns=[r"call \d{3}-\d{4}"])
    assert finds("STRASSE", patterns=["strasse"]) and not finds("stra\u00dfe", patterns=["strasse"])
    assert finds("a\u200bb", patterns=[r"\x{200B}"])
    assert finds("ÄÖ", patterns=["^äö$"])
    assert not finds("", patterns=["a"])


def test_all_texts_are_judged_and_words_and_patterns_together() -> None:
    matcher = RuleMatcher([rule(["spam"], action=FLAG), rule((), ["x+y"], TIMEOUT), rule(["scam"])])

    def action(*texts: str) -> ContentAction | None:
        found = matcher.judge(texts, CHANNEL)
        return found.action if found is not None else None

    assert [action("ham"), action("ham", "spam"), action("spam", "scam"), action("scam", "spam xxy"), action()] == [
        None,
        FLAG,
        BLOCK,
        TIMEOUT,
        None,
    ]


@pytest.mark.parametrize("pattern", ["a(", "(?=a)", r"(a)\1", "a{1001}", "(?P<n>", "[z-a]", r"\pL{900}"])
def test_a_pattern_that_re2_does_not_accept_has_a_reason(pattern: str) -> None:
    with pytest.raises(BadPatternError, match=r".{5}"):
        compile_pattern(pattern)


EXPLODING = [
    (r"(a+)+$", "a" * 3_999 + "b"),
    (r"(a|aa)+$", "a" * 3_999 + "b"),
    (r"(a|a?)+b", "a" * 4_000),
    (r"(.*a){25}x", "a" * 4_000),
    (r"(x+x+)+y", "x" * 4_000),
    (r"(a|b)*a(a|b){100}c", "abba" * 1_000),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 4_000 + "!"),
]


@pytest.mark.parametrize(("pattern", "text"), EXPLODING)
def test_a_pattern_that_explodes_under_backtracking_takes_linear_time(pattern: str, text: str) -> None:
    """CPU time of this thread, whatever else runs. With backtracking, most of these would take years."""
    matcher = RuleMatcher([rule((), [pattern])])
    began = time.thread_time()
    matcher.judge([text], CHANNEL)
    assert time.thread_time() - began < 1.0


def test_words_inside_each_other_take_linear_time() -> None:
    nested = RuleMatcher([rule(["a" * length for length in range(1, 61)])])
    began = time.thread_time()
    assert nested.judge(["a" * 4_000], CHANNEL) is None
    assert time.thread_time() - began < 1.0


@pytest.mark.parametrize(
    ("words", "text"), [(["a"], "a " * 2_000), (["a" * n + "*" for n in range(1, 60)], "a" * 4_000)]
)
def test_the_same_words_in_many_rules_take_no_longer_than_in_one(words: list[str], text: str) -> None:
    """The rule with the highest action is never found, so the search goes on to the end."""
    repeated = [rule(words, action=FLAG)] * (1_000 // len(words))
    matcher = RuleMatcher([*repeated, rule(["zebra"])])
    began = time.thread_time()
    assert matcher.judge([text], CHANNEL) == repeated[0]
    assert time.thread_time() - began < 0.3


def test_the_cost_grows_with_the_text_and_the_rules() -> None:
    usual = RuleMatcher([rule([f"word{n}" for n in range(1_000)], [rf"\bcall\s+\d{{3}}-{n}" for n in range(10)])])
    assert usual.cost(["a" * 200]) < content_rules._MOST_COST_ON_LOOP
    assert RuleMatcher([rule((), ["((.?){100}){9}z"])]).cost(["a" * 200]) > content_rules._MOST_COST_ON_LOOP
    assert usual.cost(["é" * 200]) > usual.cost(["a" * 200]) > usual.cost(["a"])
    assert RuleMatcher([]).cost(["a" * 4_000]) == 0
