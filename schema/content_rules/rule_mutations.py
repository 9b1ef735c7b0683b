"""The mutation of content rules."""

from __future__ import annotations

import strawberry

from resolvers.content_rules import rules as content_rules
from schema.base.context import Info
from schema.base.list_sizes import one_for_each
from schema.content_rules.rule_types import ContentRuleInput, ContentRuleType


@strawberry.type
class ContentRuleMutations:
    @strawberry.mutation(
        description="MANAGE_WORKSPACE. Words as whole words, or with * at one end, at most 1,000 in all; patterns in "
        "RE2 syntax, at most 10 in all. Case is ignored; edits are checked too. A FLAG report is made in the name of "
        "the owner.",
        metadata=one_for_each("rules"),
    )
    async def set_content_rules(
        self, info: Info, workspace_id: strawberry.ID, rules: list[ContentRuleInput]
    ) -> list[ContentRuleType]:
        context, new = info.context, [rule.to_new_rule() for rule in rules]
        stored = await content_rules.set_content_rules(context.app, context.viewer, workspace_id, new)
        return [ContentRuleType(record=rule) for rule in stored]
