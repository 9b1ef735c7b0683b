"""The content rules of workspaces in MongoDB, and compiled in the memory of this process.

`content_rules` {_id: workspace, …}: one document per workspace with rules, written in the transaction of the change of
the policy. The policy has the version that set them, so a process knows without a round trip whether the rules that it
keeps are the ones in force.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from pymongo import DeleteOne, UpdateOne

from store.base.ids import ConversationId
from store.base.workspace_ids import WorkspaceId
from store.content_rules.content_rule import ContentRule, RulesField, rule_fields, rule_from
from store.content_rules.rule_matcher import RuleMatcher
from store.mongo.client import Document, Mongo
from store.mongo.collections import CONTENT_RULES
from store.redis.single_flight import SingleFlight
from store.workspaces.policy import MemberFacts, Policy

_MAX_CHARACTERS = 1_000_000
"""Characters of all words and patterns that a process keeps compiled: about 60 MB at most."""

_MOST_COST_ON_LOOP = 300_000
"""`RuleMatcher.cost` up to which texts are judged on the event loop: about 2 ms at most."""


class _Kept(NamedTuple):
    """Compiled rules. version: the policy version that set them."""

    version: int
    matcher: RuleMatcher


_NO_RULES = _Kept(0, RuleMatcher(()))


class ContentRules:
    """Reads rules, and keeps those compiled that were used last."""

    def __init__(self, mongo: Mongo) -> None:
        """Keep nothing yet."""
        self._mongo = mongo
        self._kept: OrderedDict[WorkspaceId, _Kept] = OrderedDict()
        self._characters = 0
        self._flights = SingleFlight()

    async def find(self, workspace: WorkspaceId, version: int) -> RuleMatcher | None:
        """Return the rules of a workspace, at least as new as a version; None if there are none.

        No round trip if the process keeps them. version: `Policy.rules_version`.
        """
        if not version:
            return None
        kept = self._kept.get(workspace)
        if kept is not None and kept.version >= version:
            self._kept.move_to_end(workspace)
            return kept.matcher
        found = await self._read_once(workspace)
        if found.version < version:
            # That read may have begun before the version existed.
            found = await self._read_once(workspace)
        return found.matcher if found.matcher.rules else None

    async def judge(
        self, policy: Policy, facts: MemberFacts | None, channel: ConversationId, texts: Iterable[str]
    ) -> ContentRule | None:
        """Return the rule that decides about a message in a channel or its threads; None if no rule matches.

        facts: of the sender; None if it has no roles. No round trip if the process keeps the rules.
        """
        if not policy.rules_version:
            return None
        matcher = await self.find(policy.workspace, policy.rules_version)
        if matcher is None:
            return None
        roles = {*facts.roles, policy.everyone.id} if facts is not None else ()
        judged = tuple(texts)
        if matcher.cost(judged) <= _MOST_COST_ON_LOOP:
            return matcher.judge(judged, channel, roles)
        # Other requests go on meanwhile, whatever the rules are.
        return await asyncio.to_thread(matcher.judge, judged, channel, roles)

    async def read(self, workspace: WorkspaceId) -> list[ContentRule]:
        """Return the rules of a workspace as they are now. One round trip."""
        row = await self._mongo.find_one(CONTENT_RULES, {"_id": workspace})
        return _rules_of(row)

    def writes(
        self, workspace: WorkspaceId, version: int, rules: Sequence[ContentRule]
    ) -> tuple[str, list[UpdateOne | DeleteOne]]:
        """Return the writes that replace the rules, for the transaction of the change. version: of the new policy."""
        query = {"_id": workspace}
        if not rules:
            return CONTENT_RULES, [DeleteOne(query)]
        fields = {RulesField.VERSION: version, RulesField.RULES: list(map(rule_fields, rules))}
        return CONTENT_RULES, [UpdateOne(query, {"$set": fields}, upsert=True)]

    async def remove(self, workspace: WorkspaceId) -> None:
        """Remove the rules of a workspace that was deleted."""
        await self._mongo.delete_one(CONTENT_RULES, {"_id": workspace})

    async def _read_once(self, workspace: WorkspaceId) -> _Kept:
        found: _Kept = await self._flights.run(workspace, partial(self._read, workspace))
        return found

    async def _read(self, workspace: WorkspaceId) -> _Kept:
        row = await self._mongo.find_one(CONTENT_RULES, {"_id": workspace})
        if row is None:
            self._forget(workspace)
            return _NO_RULES
        # Compiling takes up to 50 ms.
        matcher = await asyncio.to_thread(RuleMatcher, _rules_of(row))
        kept = _Kept(int(row[RulesField.VERSION]), matcher)
        self._keep(workspace, kept)
        return kept

    def _keep(self, workspace: WorkspaceId, kept: _Kept) -> None:
        before = self._kept.get(workspace)
        if before is not None and before.version > kept.version:
            return
        self._forget(workspace)
        self._kept[workspace] = kept
        self._characters += kept.matcher.size
        while self._characters > _MAX_CHARACTERS and len(self._kept) > 1:
            self._forget(next(iter(self._kept)))

    def _forget(self, workspace: WorkspaceId) -> None:
        kept = self._kept.pop(workspace, None)
        if kept is not None:
            self._characters -= kept.matcher.size


def _rules_of(row: Document | None) -> list[ContentRule]:
    """Return the rules of a row, without those whose action only later versions know."""
    stored = row[RulesField.RULES] if row is not None else ()
    return [rule for fields in stored if (rule := rule_from(fields)) is not None]
