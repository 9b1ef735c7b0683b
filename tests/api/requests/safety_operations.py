"""Every operation on blocks, reports, content rules and erasures, for tests that run each operation once."""

from __future__ import annotations

from resolvers.users.callers import CallerRole
from tests.api.blocks.calls import block, blocked, unblock
from tests.api.client import Api, make_caller
from tests.api.reports.calls import list_reports, make_report, resolve, root

RULES = """mutation ($id: ID!) { setContentRules(workspaceId: $id, rules: [{words: ["unwanted"], action: BLOCK}]) {
    id words } }"""
SHOW_RULES = "query ($id: ID!) { contentRules(workspaceId: $id) { id words } }"
ERASE = "mutation ($id: ID!) { eraseUser(userId: $id) { userId state } }"
ERASURE = "query ($id: ID!) { erasure(userId: $id) { state } }"


async def use_safety(api: Api, owner: str, member: str, workspace: str, channel: str) -> None:
    """Block, report, set rules, and ask about erasures."""
    await block(api, owner, member)
    assert await blocked(api, owner) == [member]
    await unblock(api, owner, member)
    message = (await api.send(member, channel, "please read"))["message"]["id"]
    made = await make_report(api, owner, message=message)
    assert [report["id"] for report in await list_reports(api, owner, workspace)] == [made["id"]]
    await resolve(api, owner, made["id"])
    await make_report(api, owner, user=member)
    assert len(await list_reports(api, root())) == 1
    await api.data(owner, RULES, id=workspace)
    assert (await api.data(owner, SHOW_RULES, id=workspace))["contentRules"]
    service = make_caller("service", CallerRole.SERVICE)
    # An erasure reads whole collections, on all shards (ADR 94), so this test begins none.
    assert (await api.expect_refusal(service, ERASE, id="nobody-at-all")).code == "NOT_FOUND"
    assert (await api.data(service, ERASURE, id=member))["erasure"] is None
