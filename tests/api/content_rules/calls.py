"""GraphQL documents about content rules, and a workspace with rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from store.mongo.collections import REPORTS
from store.reports.report import Report, report_from
from tests.api.client import Api, Json, Refusal
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import add_channel, create_role, set_roles

RULE = "id words patterns action exemptRoleIds exemptChannelIds"
SET = f"""mutation ($id: ID!, $rules: [ContentRuleInput!]!) {{
    setContentRules(workspaceId: $id, rules: $rules) {{ {RULE} }} }}"""
RULES = f"query ($id: ID!) {{ contentRules(workspaceId: $id) {{ {RULE} }} }}"

REJECTED = Refusal("REJECTED", "content")


def rule(action: str = "BLOCK", **fields: Any) -> Json:
    """Return the input of a rule; one with the word "spam" unless words or patterns are given."""
    return {"action": action} | (fields or {"words": ["spam"]})


@dataclass(frozen=True)
class Space:
    """A workspace of Alice with two channels. Bob (role `guide`) and Carol are members, and Dave is not."""

    api: Api
    id: str
    general: str
    random: str
    guide: str
    alice: str
    bob: str
    carol: str
    dave: str

    async def set(self, *rules: Json, user: str | None = None) -> list[Json]:
        """Set the rules as Alice, or as another user."""
        stored: list[Json] = (await self.api.data(user or self.alice, SET, id=self.id, rules=list(rules)))[
            "setContentRules"
        ]
        return stored

    async def refuse_set(self, *rules: Json, user: str | None = None) -> Refusal:
        return await self.api.expect_refusal(user or self.alice, SET, id=self.id, rules=list(rules))

    async def rules(self) -> list[Json]:
        found: list[Json] = (await self.api.data(self.alice, RULES, id=self.id))["contentRules"]
        return found

    async def reports(self) -> list[Report]:
        """Return the reports of the workspace, the oldest first."""
        rows = await self.api.services.app.store.mongo.find(REPORTS, {"w": self.id}, sort=(("o", 1),))
        return [report_from(row) for row in rows]

    async def texts(self, conversation: str | None = None) -> list[str]:
        """Return the texts of a channel or thread, the oldest first; of `general` without one."""
        found = await self.api.history(self.alice, conversation or self.general)
        return [message["content"] for message in found if message["contentType"] != "SYSTEM"]


async def create_space(api: Api) -> Space:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob, carol)
    guide = await create_role(api, alice, workspace, "guide")
    await set_roles(api, alice, workspace, bob, guide)
    general, random = await add_channel(api, workspace), await add_channel(api, workspace, "random")
    return Space(api, workspace, general, random, guide, alice, bob, carol, dave)
