"""Flags of messages: a content rule, or the external hook, wants a report about the message (ADR 98)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from store.base.ids import UserId

HOOK = "hook"
"""`ContentFlag.rule` of messages that the external hook has flagged."""


class ContentFlag(NamedTuple):
    """A flag of a message, as long as the report is not stored. The report is stored together with the message.

    Attributes:
        reporter: The user in whose name the report is made.
        rule: The id of the rule, or HOOK.
        order: A snowflake: the place of the report in lists.
    """

    reporter: UserId
    rule: str
    order: int

    def to_stored(self) -> list[str]:
        """Return the stored form. Lua's JSON has no whole numbers of this size."""
        return [self.reporter, self.rule, str(self.order)]


def flag_from(stored: Sequence[str]) -> ContentFlag:
    """Return a flag from its stored form."""
    reporter, rule, order = stored
    return ContentFlag(UserId(reporter), rule, int(order))
