"""Compiled content rules: all words in one automaton (Aho-Corasick), each pattern as an automaton of RE2.

Both read a text once, whatever the rules are: no pattern needs exponential time, as it would with backtracking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import ahocorasick
import re2

from store.base.ids import ConversationId
from store.base.workspace_ids import RoleId
from store.content_rules.content_rule import ContentRule
from store.content_rules.rule_word import RuleWord, parse_word, positions_inside_words
from store.text.case_folding import fold_case

_PATTERN_BYTES = 1 << 19
"""Memory of one compiled pattern. RE2 refuses patterns that need more, and works more slowly when it is used up."""

_PATTERN_CHARACTERS = 10_000
"""Characters of words that need as much memory as a pattern, at most."""

_EXEMPT = -1
"""Rank of a rule that does not apply. No action has it."""

_WORD_COST = 20
"""Steps that take as long as the look at one word."""

_LONGEST_ENCODED = 3
"""Bytes of most characters in UTF-8, at most."""


class BadPatternError(ValueError):
    """Raised for a pattern that RE2 refuses. Its text is the reason."""


class Pattern(Protocol):
    """A compiled pattern. The library has no types."""

    @property
    def programsize(self) -> int:
        """Its number of instructions. A search takes this times the bytes of the text at most."""
        ...

    def search(self, text: bytes) -> object | None:
        """Return a match anywhere in a text in UTF-8; None if there is none."""


class _Word(NamedTuple):
    """A word in the automaton.

    Attributes:
        at: Its number.
        word: The word.
        rules: Indexes of the rules that have it.
    """

    at: int
    word: RuleWord
    rules: Sequence[int]


class RuleMatcher:
    """The rules of one workspace, ready to judge texts."""

    def __init__(self, rules: Sequence[ContentRule]) -> None:
        """Compile rules: 1,000 words and 10 patterns take some ms, 60 at most. Raises BadPatternError."""
        self.rules = rules
        self._ranks = [rule.action.rank for rule in rules]
        self._patterns = [(at, compile_pattern(pattern)) for at, rule in enumerate(rules) for pattern in rule.patterns]
        by_word: dict[RuleWord, list[int]] = {}
        for at, rule in enumerate(rules):
            for word in filter(None, map(parse_word, rule.words)):
                by_word.setdefault(word, []).append(at)
        by_text: dict[str, list[_Word]] = {}
        for at, (word, of_word) in enumerate(by_word.items()):
            by_text.setdefault(word.text, []).append(_Word(at, word, of_word))
        self._automaton = ahocorasick.Automaton()
        for text, words in by_text.items():
            self._automaton.add_word(text, words)
        if by_text:
            self._automaton.make_automaton()
        self._has_words = bool(by_text)
        # At each position, one word of each length may end.
        nested = min(len(by_text), max(map(len, by_text), default=0))
        self._cost = _WORD_COST * nested + sum(pattern.programsize for _, pattern in self._patterns)
        self.size = 1 + sum(map(len, by_text)) + len(self._patterns) * _PATTERN_CHARACTERS
        """Memory in characters of words."""

    def cost(self, texts: Iterable[str]) -> int:
        """Return an upper limit of the work that texts cause: steps of some ns. Most texts cause much less."""
        return self._cost * sum(len(text) if text.isascii() else _LONGEST_ENCODED * len(text) for text in texts)

    def judge(
        self, texts: Iterable[str], channel: ConversationId, roles: Collection[RoleId] = ()
    ) -> ContentRule | None:
        """Return the rule whose action is taken for a message; None if no rule matches.

        Args:
            texts: The texts of the message.
            channel: The channel that it is written in, itself or in a thread.
            roles: The roles of its sender, that of everyone included.
        """
        ranks = [
            rank if channel not in rule.exempt_channels and rule.exempt_roles.isdisjoint(roles) else _EXEMPT
            for rule, rank in zip(self.rules, self._ranks, strict=True)
        ]
        highest = max(ranks, default=_EXEMPT)
        found: int | None = None
        for text in texts if highest > _EXEMPT else ():
            found = self._judge_patterns(text, ranks, self._judge_words(text, ranks, found))
            if found is not None and ranks[found] == highest:
                break
        return self.rules[found] if found is not None else None

    def _judge_words(self, text: str, ranks: Sequence[int], found: int | None) -> int | None:
        """Return the rule that decides, by the words of a text and the rule that was found before.

        ranks: of the actions; _EXEMPT: the rule does not apply. A word is looked at only if one of its rules has a
        higher rank than what was found. So a word in many rules costs no more than one in a few.
        """
        if not self._has_words:
            return found
        folded = fold_case(text)
        inside: frozenset[int] | None = None
        rank = ranks[found] if found is not None else _EXEMPT
        best: dict[int, int] = {}
        for last, words in self._automaton.iter(folded):
            for at, word, rules in words:
                first = best.get(at)
                if first is None:
                    first = best[at] = max(rules, key=ranks.__getitem__)
                if ranks[first] <= rank:
                    continue
                if inside is None:
                    inside = positions_inside_words(folded)
                end = last + 1
                if (word.ends_inside or end not in inside) and (
                    word.begins_inside or end - len(word.text) not in inside
                ):
                    found, rank = first, ranks[first]
        return found

    def _judge_patterns(self, text: str, ranks: Sequence[int], found: int | None) -> int | None:
        """Like `_judge_words`, by the patterns."""
        if not self._patterns:
            return found
        encoded = text.encode("utf-8", "replace")
        for at, pattern in self._patterns:
            if ranks[at] > (ranks[found] if found is not None else _EXEMPT) and pattern.search(encoded) is not None:
                found = at
        return found


def compile_pattern(pattern: str) -> Pattern:
    """Return a pattern that ignores case. Raises BadPatternError."""
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        raise BadPatternError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
    return compiled
