"""The GraphQL types of content rules."""

from __future__ import annotations

from enum import Enum

import strawberry

from resolvers.content_rules.rule_input import NewRule
from schema.compiler import reads
from store.content_rules import content_rule


@strawberry.enum(
    name="ContentAction",
    description="BLOCK: REJECTED before the message takes a place. FLAG: a report. TIMEOUT: BLOCK and a time-out of "
    "ten minutes.",
)
class ContentActionType(Enum):
    BLOCK = content_rule.ContentAction.BLOCK
    FLAG = content_rule.ContentAction.FLAG
    TIMEOUT = content_rule.ContentAction.TIMEOUT


@strawberry.type(name="ContentRule")
class ContentRuleType:
    record: strawberry.Private[content_rule.ContentRule]
    id: strawberry.ID = reads("record.id")
    words: list[str] = reads("record.words")
    patterns: list[str] = reads("record.patterns")
    action: ContentActionType = reads("record.action")

    @strawberry.field
    def exempt_role_ids(self) -> list[strawberry.ID]:
        return [strawberry.ID(role) for role in sorted(self.record.exempt_roles)]

    @strawberry.field
    def exempt_channel_ids(self) -> list[strawberry.ID]:
        return [strawberry.ID(channel) for channel in sorted(self.record.exempt_channels)]


@strawberry.input
class ContentRuleInput:
    words: list[str] | None = strawberry.field(default_factory=list)
    patterns: list[str] | None = strawberry.field(default_factory=list)
    action: ContentActionType
    exempt_role_ids: list[strawberry.ID] | None = strawberry.field(default_factory=list)
    exempt_channel_ids: list[strawberry.ID] | None = strawberry.field(default_factory=list)

    def to_new_rule(self) -> NewRule:
        """Return the input with its defaults filled in."""
        return NewRule(
            tuple(self.words or ()),
            tuple(self.patterns or ()),
            self.action.value,
            tuple(self.exempt_role_ids or ()),
            tuple(self.exempt_channel_ids or ()),
        )
