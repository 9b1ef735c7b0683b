"""Invitations: creating and revoking codes, and joining with them."""

from __future__ import annotations

from typing import Any

import pytest

from schema.base.scalars import write_datetime
from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import (
    CREATE_INVITE,
    JOIN,
    PREVIEW,
    REVOKE_INVITE,
    add_members,
    create_invite,
    create_workspace,
    expect_right_counts,
    my_workspaces,
    own_workspace,
    preview,
    workspace_of,
)
from tests.api.workspaces.calls import UPDATE as UPDATE_WORKSPACE
from tests.api.workspaces.role_calls import UPDATE_ROLE, create_role, everyone, set_roles
from tests.clock import ManualClock

UNUSABLE = Refusal("NOT_FOUND", "code")
MINUTE_MS = 60_000


def invite_count(api: Api, workspace: str) -> int:
    """Return the number of codes, which is stored twice."""
    rows = api.database["invites"].count_documents({"_id": {"$gte": f"{workspace} ", "$lt": f"{workspace}!"}})
    stored = (api.database["workspaces"].find_one({"_id": workspace}) or {}).get("iv", 0)
    assert stored == rows
    return rows


async def test_a_code_shows_the_workspace_and_lets_users_join(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice, "Closed", iconUrl="https://x.test/i.png")
    invite = (await api.data(alice, CREATE_INVITE, id=workspace))["createInvite"]
    assert {name: value for name, value in invite.items() if name != "code"} == {
        "workspaceId": workspace, "expiresAt": None, "uses": 0, "maxUses": 0, "createdBy": {"id": alice},
    }  # fmt: skip
    assert await workspace_of(api, bob, workspace) is None
    shown = {"workspaceId": workspace, "name": "Closed", "iconUrl": "https://x.test/i.png", "expiresAt": None}
    assert await preview(other_api, bob, invite["code"]) == shown | {"memberCount": 1}
    joined = (await api.data(bob, JOIN, code=invite["code"]))["joinWorkspace"]
    assert (joined["id"], joined["memberCount"], joined["viewer"]["user"]["id"]) == (workspace, 2, bob)
    await api.data(carol, JOIN, code=invite["code"], id=workspace)
    assert await preview(api, alice, invite["code"]) == shown | {"memberCount": 3}
    expect_right_counts(api, workspace)


async def test_codes_cannot_be_guessed(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    codes = [await create_invite(api, alice, workspace) for _ in range(20)]
    secrets = {code.removeprefix(f"{workspace[2:]}-") for code in codes}
    assert len(secrets) == 20 and {len(secret) for secret in secrets} == {16}
    assert all(len({secret[place] for secret in secrets}) > 5 for place in range(16))


async def test_the_last_use_of_a_code_admits_exactly_one_user(api: Api, other_api: Api) -> None:
    alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(8)))
    workspace = await create_workspace(api, alice)
    code = await create_invite(api, alice, workspace, maxUses=2)
    calls = [where.run(user, JOIN, code=code) for user in users for where in (api, other_api)]
    answers = await gather_all(*calls)
    refused = {answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer}
    assert refused == {"NOT_FOUND"}
    members = [user for user in users if await my_workspaces(api, user)]
    assert len(members) == 2 and (await own_workspace(api, alice, workspace))["memberCount"] == 3
    assert await preview(api, users[0], code) is None
    expect_right_counts(api, workspace)


async def test_members_do_not_use_up_an_invitation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    code = await create_invite(api, alice, workspace, maxUses=2)
    await api.data(bob, JOIN, code=code)
    before = await api.stored_hashes()
    for member in (alice, bob):
        assert (await api.data(member, JOIN, code=code))["joinWorkspace"]["memberCount"] == 2
    assert await api.stored_hashes() == before
    await api.data(carol, JOIN, code=code)


async def test_a_member_may_repeat_a_join_after_the_code_was_used_up(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    code = await create_invite(api, alice, workspace, maxUses=1)
    await api.data(bob, JOIN, code=code)
    for _ in range(2):
        before = await api.stored_hashes()
        assert (await other_api.data(bob, JOIN, code=code))["joinWorkspace"]["id"] == workspace
        assert await api.expect_refusal(carol, JOIN, code=code) == UNUSABLE
        assert await api.stored_hashes() == before
        await api.run(alice, REVOKE_INVITE, code=code)


async def test_an_expired_code_is_unusable(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("expiry", clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        workspace = await create_workspace(api, alice)
        expires_at = write_datetime(clock.ms + MINUTE_MS)
        code = await create_invite(api, alice, workspace, expiresAt=expires_at)
        found = await preview(api, bob, code)
        assert found is not None and found["expiresAt"] == expires_at
        clock.ms += MINUTE_MS
        before = await api.stored_hashes()
        assert await preview(api, bob, code) is None
        assert await api.expect_refusal(bob, JOIN, code=code) == UNUSABLE
        assert await api.stored_hashes() == before


async def test_a_revoked_code_is_unusable_everywhere_at_once(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    code = await create_invite(api, bob, workspace)
    assert await preview(other_api, carol, code) is not None
    assert (await api.data(bob, REVOKE_INVITE, code=code))["revokeInvite"] is True
    before = await api.stored_hashes()
    assert await preview(other_api, carol, code) is None
    assert await other_api.expect_refusal(carol, JOIN, code=code) == UNUSABLE
    assert await api.expect_refusal(bob, REVOKE_INVITE, code=code) == UNUSABLE
    assert await api.stored_hashes() == before
    assert invite_count(api, workspace) == 0


async def test_no_user_joins_after_a_concurrent_revocation(api: Api, other_api: Api) -> None:
    alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(6)))
    workspace = await create_workspace(api, alice)
    code = await create_invite(api, alice, workspace)

    async def revoke() -> int:
        await other_api.data(alice, REVOKE_INVITE, code=code)
        return int((await own_workspace(other_api, alice, workspace))["memberCount"])

    seen, *_ = await gather_all(revoke(), *(api.run(user, JOIN, code=code) for user in users))
    assert (await own_workspace(api, alice, workspace))["memberCount"] == seen
    assert invite_count(api, workspace) == 0
    expect_right_counts(api, workspace)


async def test_only_the_creator_and_managers_revoke(api: Api) -> None:
    alice, bob, carol, outsider = await api.create_users("alice", "bob", "carol", "outsider")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob, carol)
    code = await create_invite(api, bob, workspace)
    before = await api.stored_hashes()
    assert await api.expect_refusal(carol, REVOKE_INVITE, code=code) == Refusal("FORBIDDEN")
    assert await api.expect_refusal(outsider, REVOKE_INVITE, code=code) == UNUSABLE
    assert await api.expect_refusal(carol, REVOKE_INVITE, code="1-aaaaaaaaaaaaaaaa") == UNUSABLE
    assert await api.stored_hashes() == before
    assert (await api.data(alice, REVOKE_INVITE, code=code))["revokeInvite"] is True


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"maxUses": -1}, "maxUses"),
        ({"maxUses": 1_000_001}, "maxUses"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"expiresAt": "tomorrow"}, "expiresAt"),
    ],
)
async def test_invalid_input_creates_no_code(api: Api, fields: dict[str, Any], field: str) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, CREATE_INVITE, id=workspace, **fields)
    assert refusal == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == before


async def test_outsiders_create_no_codes(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    closed, opened = await create_workspace(api, alice), await create_workspace(api, alice, isOpen=True)
    before = await api.stored_hashes()
    for workspace in (closed, opened, "w_1", ""):
        refusal = await api.expect_refusal(bob, CREATE_INVITE, id=workspace)
        assert refusal == Refusal("NOT_FOUND", "workspaceId")
    assert await api.stored_hashes() == before


async def test_a_code_of_another_workspace_is_refused(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    one, other = await create_workspace(api, alice, "One"), await create_workspace(api, alice, "Other", isOpen=True)
    code = await create_invite(api, alice, one)
    before = await api.stored_hashes()
    assert await api.expect_refusal(bob, JOIN, id=other, code=code) == Refusal("INVALID_INPUT", "code")
    forged = f"{other[2:]}-{code.partition('-')[2]}"
    assert await api.expect_refusal(bob, JOIN, code=forged) == UNUSABLE
    assert await api.stored_hashes() == before


async def test_unusable_codes_make_room_for_new_ones(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.workspaces.membership.invites.MOST_INVITES", 3)
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    once = await create_invite(api, alice, workspace, maxUses=1)
    answers = await gather_all(*(api.run(alice, CREATE_INVITE, id=workspace) for _ in range(5)))
    refusals = [answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer]
    assert refusals == ["LIMIT_REACHED"] * 3 and invite_count(api, workspace) == 3
    before = await api.stored_hashes()
    assert (await api.expect_refusal(alice, CREATE_INVITE, id=workspace)).code == "LIMIT_REACHED"
    assert await api.stored_hashes() == before
    await api.data(bob, JOIN, code=once)
    await create_invite(api, alice, workspace)
    assert invite_count(api, workspace) == 3


async def test_guessing_codes_is_limited(open_api: OpenApi) -> None:
    async with open_api("guessing", invite_lookups_per_minute=6) as api:
        alice, bob = await api.create_users("alice", "bob")
        workspace = await create_workspace(api, alice)
        code = await create_invite(api, alice, workspace)
        for _ in range(3):
            assert await preview(api, bob, "1-aaaaaaaaaaaaaaaa") is None
        for query in (PREVIEW, JOIN, REVOKE_INVITE):
            assert (await api.expect_refusal(bob, query, code=code)).code == "RATE_LIMITED"
        assert await preview(api, alice, code) is not None


async def test_no_code_is_stored_under_rights_that_have_ended(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member is demoted, on another server, after the right was judged and before the code is stored."""
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    code = await create_invite(api, alice, workspace)
    invites = api.services.app.store.invites

    def demote_first(name: str, role: str) -> None:
        work = getattr(invites, name)

        async def demote_and_work(*args: Any) -> Any:
            await other_api.data(alice, UPDATE_ROLE, id=role, input={"permissions": ["VIEW_CHANNEL"]})
            return await work(*args)

        monkeypatch.setattr(invites, name, demote_and_work)

    demote_first("insert", everyone(workspace))
    assert (await api.expect_refusal(bob, CREATE_INVITE, id=workspace)).code == "FORBIDDEN"
    manager = await create_role(other_api, alice, workspace, "manager", "MANAGE_WORKSPACE")
    await set_roles(other_api, alice, workspace, bob, manager)
    demote_first("delete", manager)
    assert (await api.expect_refusal(bob, REVOKE_INVITE, code=code)).code == "FORBIDDEN"
    assert invite_count(api, workspace) == 1


async def test_a_code_is_stored_while_others_change_the_workspace(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    (alice,) = await api.create_users("alice")
    workspace = await create_workspace(api, alice)
    invites, names = api.services.app.store.invites, iter(("one", "two"))
    insert = invites.insert

    async def rename_and_insert(*args: Any) -> None:
        if (name := next(names, None)) is not None:
            await other_api.data(alice, UPDATE_WORKSPACE, id=workspace, input={"name": name})
        await insert(*args)

    monkeypatch.setattr(invites, "insert", rename_and_insert)
    await create_invite(api, alice, workspace)
    assert invite_count(api, workspace) == 1
