"""The limits of workspaces as they are, and a code that is revoked while many join. Only in the long form."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pymongo import InsertOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, channel_id, role_id
from store.mongo.collections import CONVERSATIONS
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import Channel, ChannelKind, Overwrite, Overwrites, Policy, Role
from tests.api.channels.calls import CREATE as CREATE_CHANNEL
from tests.api.channels.test_workspace_events import live
from tests.api.client import Api, Json, gather_all
from tests.api.workspaces.calls import (
    JOIN,
    REVOKE_INVITE,
    create_invite,
    create_workspace,
    expect_right_counts,
    my_workspaces,
    own_workspace,
)
from tests.api.workspaces.role_calls import CREATE_ROLE, SET_OVERWRITE, add_channel

pytestmark = pytest.mark.long

MOST_CHANNELS, MOST_ROLES, MOST_OVERWRITES = 1_000, 250, 200
_MISSING = 2
_ROUNDS = 60


async def expect_limit(api: Api, other_api: Api, owner: str, workspace: str, document: str, *each: Json) -> None:
    """Fail unless two of these calls succeed on two servers at once, and everything after them changes nothing."""
    calls = [(api, other_api)[number % 2].run(owner, document, **one) for number, one in enumerate(each)]
    answers = await gather_all(*calls)
    codes = [answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer]
    assert codes == ["LIMIT_REACHED"] * (len(each) - _MISSING)
    failed = next(one for one, answer in zip(each, answers, strict=True) if "errors" in answer)
    watching, _ = await live(other_api, owner, workspace)
    before = await api.stored_hashes()
    for where in (api, other_api):
        assert (await where.expect_refusal(owner, document, **failed)).code == "LIMIT_REACHED"
    assert await api.stored_hashes() == before
    await watching.expect_no_event()


async def test_a_workspace_has_no_more_than_1000_channels(api: Api, other_api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = WorkspaceId(await create_workspace(api, alice))
    store = api.services.app.store

    async def fill(policy: Policy) -> ProposedPolicyChange:
        channels, heads = dict(policy.channels), []
        while len(channels) < MOST_CHANNELS - _MISSING:
            id = channel_id(workspace, store.ids.next())
            channels[id] = Channel(id, "room", ChannelKind.PUBLIC, len(channels), 1)
            heads.append(InsertOne({"_id": id, "k": "C", "s": 0, "n": 0, "at": 0, "w": 0}))
        return ProposedPolicyChange(replace(policy, channels=channels), writes=[(CONVERSATIONS, heads)])

    await store.policy_changes.change(workspace, fill)
    new = [{"input": {"workspaceId": workspace, "name": f"new {number}"}} for number in range(6)]
    await expect_limit(api, other_api, alice, workspace, CREATE_CHANNEL, *new)


async def test_a_workspace_has_no_more_than_250_roles(api: Api, other_api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = WorkspaceId(await create_workspace(api, alice))
    store = api.services.app.store

    async def fill(policy: Policy) -> ProposedPolicyChange:
        roles = dict(policy.roles)
        while len(roles) < MOST_ROLES - _MISSING:
            id = role_id(workspace, store.ids.next())
            roles[id] = Role(id, "role", len(roles), NOTHING)
        return ProposedPolicyChange(replace(policy, roles=roles))

    await store.policy_changes.change(workspace, fill)
    new = [{"id": workspace, "input": {"name": f"new {number}"}} for number in range(6)]
    await expect_limit(api, other_api, alice, workspace, CREATE_ROLE, *new)


async def test_a_channel_has_no_more_than_200_overwrites(api: Api, other_api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = WorkspaceId(await create_workspace(api, alice))
    channel, store = ConversationId(await add_channel(api, workspace)), api.services.app.store

    async def fill(policy: Policy) -> ProposedPolicyChange:
        users = [UserId(f"user-{number}") for number in range(MOST_OVERWRITES - _MISSING)]
        overwrites = Overwrites({}, dict.fromkeys(users, Overwrite(deny=Permission.SPEAK)))
        filled = replace(policy.channels[channel], overwrites=overwrites, inherits_permissions=False)
        ids = [role_id(workspace, store.ids.next()) for _ in range(6)]
        roles = {id: Role(id, "role", number, NOTHING) for number, id in enumerate(ids, 1)}
        return ProposedPolicyChange(
            replace(policy, roles={**policy.roles, **roles}, channels={**policy.channels, channel: filled})
        )

    after = await store.policy_changes.change(workspace, fill)
    assert after is not None
    roles = [id for id in after.roles if id != after.everyone.id]
    new = [{"channel": channel, "role": id, "deny": ["SPEAK"]} for id in roles]
    await expect_limit(api, other_api, alice, workspace, SET_OVERWRITE, *new)


async def test_nobody_joins_with_a_code_after_its_revocation_was_answered(api: Api, other_api: Api) -> None:
    """Joins run on two servers while a code is revoked on one of them."""
    joined, refused = 0, 0
    for number in range(_ROUNDS):
        alice, *users = await api.create_users("alice", *(f"u{n}" for n in range(8)))
        workspace = await create_workspace(api, alice)
        code = await create_invite(api, alice, workspace)
        servers = (api, other_api) if number % 2 else (other_api, api)

        joins = [asyncio.ensure_future(servers[n % 2].run(user, JOIN, code=code)) for n, user in enumerate(users)]
        if number % 4 < 2:
            # However busy the machine is, some join before the revocation.
            await asyncio.wait(joins, return_when=asyncio.FIRST_COMPLETED)

        async def revoke(servers: tuple[Api, Api] = servers, alice: str = alice, code: str = code) -> list[Json]:
            await servers[1].data(alice, REVOKE_INVITE, code=code)
            late = await servers[0].create_users("late", "later")
            return await gather_all(*(s.run(user, JOIN, code=code) for s, user in zip(servers, late, strict=True)))

        *early, late = await gather_all(*joins, revoke())
        codes = {answer["errors"][0]["extensions"]["code"] for answer in (*early, *late) if "errors" in answer}
        assert codes == {"NOT_FOUND"} and all("errors" in answer for answer in late)
        answered = [user for user, answer in zip(users, early, strict=True) if "errors" not in answer]
        members = [user for user in users if await my_workspaces(api, user)]
        assert members == answered
        assert (await own_workspace(other_api, alice, workspace))["memberCount"] == len(members) + 1
        expect_right_counts(api, workspace)
        joined += len(members)
        refused += len(users) - len(members)
    assert joined and refused
