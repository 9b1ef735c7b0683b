"""Content rules, and their stored form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from store.base.ids import ConversationId
from store.base.known_values import known_value
from store.base.workspace_ids import RoleId


class ContentAction(StrEnum):
    """The contract's ContentAction, with its stored values."""

    BLOCK = "B"
    """The message is refused."""
    FLAG = "F"
    """The message is sent and reported."""
    TIMEOUT = "T"
    """The message is refused, and its sender gets a time-out."""

    @property
    def rank(self) -> int:
        """The action with the highest rank is taken if a message matches several rules."""
        return (ContentAction.FLAG, ContentAction.BLOCK, ContentAction.TIMEOUT).index(self)


@dataclass(frozen=True, slots=True)
class ContentRule:
    """A rule: words and patterns, and what is done with messages that contain one of them.

    Attributes:
        id: Unique in the deployment.
        words: Words and phrases as they were given, some with `*` at one end.
        patterns: In the syntax of RE2.
        action: What is done.
        exempt_roles: The rule does not apply to members with one of these roles.
        exempt_channels: The rule does not apply in these channels and their threads.
    """

    id: str
    words: tuple[str, ...]
    patterns: tuple[str, ...]
    action: ContentAction
    exempt_roles: frozenset[RoleId] = frozenset()
    exempt_channels: frozenset[ConversationId] = frozenset()


class RulesField:
    """Stored names of the fields of a document in `content_rules` (`_id`: the workspace)."""

    VERSION = "v"
    """The policy version that set the rules."""
    RULES = "r"
    """List of documents with the fields of `RuleField`."""


class RuleField:
    """Stored names of the fields of a rule in `RulesField.RULES`. Empty lists are left out."""

    ID = "i"
    WORDS = "w"
    PATTERNS = "p"
    ACTION = "a"
    """A `ContentAction`."""
    EXEMPT_ROLES = "er"
    EXEMPT_CHANNELS = "ec"


_F = RuleField


def rule_fields(rule: ContentRule) -> dict[str, Any]:
    """Return the stored form of a rule."""
    fields: dict[str, Any] = {
        _F.ID: rule.id,
        _F.WORDS: list(rule.words),
        _F.PATTERNS: list(rule.patterns),
        _F.ACTION: rule.action.value,
        _F.EXEMPT_ROLES: sorted(rule.exempt_roles),
        _F.EXEMPT_CHANNELS: sorted(rule.exempt_channels),
    }
    return {name: value for name, value in fields.items() if value}


def rule_from(fields: Mapping[str, Any]) -> ContentRule | None:
    """Return a rule from its stored form; None if only later versions know its action."""
    action = known_value(ContentAction, fields[_F.ACTION], None)
    if action is None:
        return None
    return ContentRule(
        fields[_F.ID],
        tuple(fields.get(_F.WORDS, ())),
        tuple(fields.get(_F.PATTERNS, ())),
        action,
        frozenset(map(RoleId, fields.get(_F.EXEMPT_ROLES, ()))),
        frozenset(map(ConversationId, fields.get(_F.EXEMPT_CHANNELS, ()))),
    )
