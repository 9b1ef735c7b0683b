"""The query of content rules."""

from __future__ import annotations

import strawberry

from resolvers.content_rules import rules as content_rules
from schema.base.context import Info
from schema.base.list_sizes import holds
from schema.content_rules.rule_types import ContentRuleType

_USUAL_RULES = 20


@strawberry.type
class ContentRuleQueries:
    @strawberry.field(description="MANAGE_WORKSPACE.", metadata=holds(_USUAL_RULES))
    async def content_rules(self, info: Info, workspace_id: strawberry.ID) -> list[ContentRuleType]:
        context = info.context
        found = await content_rules.list_content_rules(context.app, context.viewer, workspace_id)
        return [ContentRuleType(record=rule) for rule in found]
