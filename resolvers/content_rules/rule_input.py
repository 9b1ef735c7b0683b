"""Checks of content rules that clients send."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from resolvers.base.checks import check_encodable
from resolvers.base.errors import InvalidInput
from store.base.ids import ConversationId
from store.base.workspace_ids import RoleId
from store.content_rules.content_rule import ContentAction, ContentRule
from store.content_rules.rule_matcher import BadPatternError, compile_pattern
from store.content_rules.rule_word import parse_word
from store.workspaces.policy import Policy

MOST_WORDS = 1_000
MOST_PATTERNS = 10
LONGEST_WORD = 60
"""Characters, with `*`. Folding may make twice as many of them."""

MOST_PATTERN_STEPS = 15_000
"""Instructions of all patterns. A pattern has about one for each letter, times its repetitions; `\\pL` has 1,200."""

LONGEST_PATTERN = 500
MOST_EXEMPTIONS = 5_000
"""Ids of roles and channels in all rules."""

_FIELD = "rules"


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule as a client gave it."""

    words: Sequence[str]
    patterns: Sequence[str]
    action: ContentAction
    exempt_roles: Sequence[str] = ()
    exempt_channels: Sequence[str] = ()


def check_rules(rules: Sequence[NewRule], ids: Sequence[str]) -> list[ContentRule]:
    """Return rules as they are stored, with these ids. Raises InvalidInput. Roles and channels are not checked.

    A few ms for 1,000 words and 10 patterns, at most some 200 ms. Another thread may run it.
    """
    if sum(len(rule.words) for rule in rules) > MOST_WORDS:
        raise InvalidInput(f"give at most {MOST_WORDS} words in all rules together", field=_FIELD)
    if sum(len(rule.patterns) for rule in rules) > MOST_PATTERNS:
        raise InvalidInput(f"give at most {MOST_PATTERNS} patterns in all rules together", field=_FIELD)
    if sum(len(rule.exempt_roles) + len(rule.exempt_channels) for rule in rules) > MOST_EXEMPTIONS:
        raise InvalidInput(
            f"give at most {MOST_EXEMPTIONS} exempt roles and channels in all rules together", field=_FIELD
        )
    checked = [_check_rule(rule, f"{_FIELD}[{i}]", id) for i, (rule, id) in enumerate(zip(rules, ids, strict=True))]
    steps = 0
    for i, rule in enumerate(rules):
        for j, pattern in enumerate(rule.patterns):
            steps += _check_pattern(pattern, f"{_FIELD}[{i}].patterns[{j}]")
            if steps > MOST_PATTERN_STEPS:
                raise InvalidInput("the patterns repeat too much in all; use fewer counted repetitions", field=_FIELD)
    return checked


def check_exemptions(rules: Sequence[ContentRule], policy: Policy) -> None:
    """Raise InvalidInput for roles and channels that the workspace does not have."""
    for i, rule in enumerate(rules):
        for field, ids, known in (
            ("exemptRoleIds", rule.exempt_roles, policy.roles.keys()),
            ("exemptChannelIds", rule.exempt_channels, policy.channels.keys()),
        ):
            _check_known(ids, known, f"{_FIELD}[{i}].{field}")


def _check_known(ids: Collection[str], known: Collection[str], path: str) -> None:
    if not set(ids) <= set(known):
        raise InvalidInput("the workspace does not have all of these; leave out the unknown ids", field=path)


def _check_rule(rule: NewRule, path: str, id: str) -> ContentRule:
    if not rule.words and not rule.patterns:
        raise InvalidInput("give words or patterns; a rule without them has no effect", field=path)
    words = tuple(_check_word(word, f"{path}.words[{i}]") for i, word in enumerate(rule.words))
    return ContentRule(
        id,
        tuple(dict.fromkeys(words)),
        tuple(dict.fromkeys(rule.patterns)),
        rule.action,
        frozenset(map(RoleId, rule.exempt_roles)),
        frozenset(map(ConversationId, rule.exempt_channels)),
    )


def _check_word(word: str, path: str) -> str:
    """Return a word as it is stored: without white space around it."""
    if not 1 <= len(word) <= LONGEST_WORD or "\0" in word:
        raise InvalidInput(f"a word must have 1 to {LONGEST_WORD} characters, without the NUL character", field=path)
    check_encodable(word, path)
    parsed = parse_word(word)
    if parsed is None:
        raise InvalidInput("a word must have visible characters, and * at one end only", field=path)
    if len(parsed.text) > 2 * LONGEST_WORD:
        raise InvalidInput("a word must have fewer characters that stand for several; write these", field=path)
    return word.strip()


def _check_pattern(pattern: str, path: str) -> int:
    """Return the number of instructions of a pattern."""
    if not 1 <= len(pattern) <= LONGEST_PATTERN or "\0" in pattern:
        raise InvalidInput(
            f"a pattern must have 1 to {LONGEST_PATTERN} characters, without the NUL character", field=path
        )
    check_encodable(pattern, path)
    try:
        compiled = compile_pattern(pattern)
    except BadPatternError as error:
        raise InvalidInput(f"RE2 does not accept the pattern: {error}", field=path) from error
    if compiled.search(b"") is not None:
        raise InvalidInput("the pattern matches the empty text; make it need a character", field=path)
    return compiled.programsize
