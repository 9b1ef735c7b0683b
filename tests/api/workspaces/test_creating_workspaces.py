"""Creating workspaces, and the workspaces of a user."""

from __future__ import annotations

from typing import Any

import pytest

from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.workspaces.calls import (
    CREATE,
    JOIN,
    MINE,
    add_members,
    create_workspace,
    expect_right_counts,
    member_ids,
    my_workspaces,
    own_workspace,
    workspace_of,
)


async def test_the_creator_owns_the_workspace_and_is_its_only_member(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    fields = {"name": "Acme", "domain": f"acme-{alice[-8:]}", "iconUrl": "https://x.test/i.png", "metadata": {"a": [1]}}
    created = (await api.data(alice, CREATE, input=fields))["createWorkspace"]
    assert created == await own_workspace(api, alice, created["id"])
    assert created["owner"] == {"id": alice} and created["memberCount"] == 1
    assert {name: created[name] for name in fields} == fields
    assert (created["plan"], created["isOpen"]) == ("FREE", False)
    assert created["viewer"]["user"]["id"] == alice and created["viewer"]["nickname"] is None
    assert created["viewer"]["joinedAt"] == created["createdAt"]
    assert await workspace_of(api, bob, created["id"]) is None
    assert await my_workspaces(api, alice) == [created["id"]]
    assert await member_ids(api, alice, created["id"]) == [alice]
    expect_right_counts(api, created["id"])


async def test_a_client_can_resume_from_the_rev_of_a_new_workspace(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    create = "mutation ($input: CreateWorkspaceInput!) { createWorkspace(input: $input) { id rev } }"
    created = (await api.data(alice, create, input={"name": "Acme"}))["createWorkspace"]
    missed = """subscription ($open: [Position!]!) { workspaceEvents(workspaces: $open) {
        __typename ... on WorkspaceCaughtUp { rev reset } } }"""
    changed = await api.data(
        alice, 'mutation ($id: ID!) { createRole(workspaceId: $id, input: {name: "crew"}) { id } }', id=created["id"]
    )
    assert changed["createRole"]["id"]
    subscriber = await api.subscribe(alice, missed, open=[created])
    event = await subscriber.next()
    assert event["__typename"] == "WorkspaceChanged"
    caught_up = await subscriber.next()
    assert (caught_up["__typename"], caught_up["reset"]) == ("WorkspaceCaughtUp", False)


async def test_everyone_has_the_default_permissions(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    workspace = await create_workspace(api, alice, isOpen=True)
    await add_members(api, workspace, bob)
    assert len((await own_workspace(api, alice, workspace))["viewerPermissions"]) == len(Permission)
    assert (await own_workspace(api, carol, workspace))["viewerPermissions"] == []
    seen = await own_workspace(api, bob, workspace)
    policy = await api.services.app.store.policies.find(workspace)  # type: ignore[arg-type]
    assert policy is not None and policy.owner == alice and list(policy.roles) == [f"r_{workspace[2:]}"]
    assert " ".join(sorted(seen["viewerPermissions"])) == (
        "ADD_REACTIONS ATTACH_FILES CHANGE_NICKNAME CONNECT CREATE_INVITES CREATE_THREADS EMBED_LINKS READ_HISTORY "
        "SEND_MESSAGES SEND_THREADS SPEAK VIDEO VIEW_CHANNEL"
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " "}, "name"),
        ({"name": "n" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"domain": "ab"}, "domain"),
        ({"domain": "a" * 33}, "domain"),
        ({"domain": "Acme"}, "domain"),
        ({"domain": "acme.io"}, "domain"),
        ({"domain": "acme\n"}, "domain"),
        ({"iconUrl": "ftp://x"}, "iconUrl"),
        ({"idempotencyKey": ""}, "idempotencyKey"),
        ({"idempotencyKey": "k" * 129}, "idempotencyKey"),
        ({"metadata": "m" * 8_192}, "metadata"),
    ],
)
async def test_invalid_input_creates_nothing(api: Api, fields: dict[str, Any], field: str) -> None:
    (alice,) = await api.create_users("alice")
    before = await api.stored_hashes()
    assert await api.expect_refusal(alice, CREATE, input={"name": "Space"} | fields) == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == before


async def test_a_domain_belongs_to_one_workspace_also_in_races(api: Api) -> None:
    users = await api.create_users("alice", "bob", "carol", "dave")
    domain = f"shop-{users[0][-8:]}"
    inputs = [{"name": user, "domain": domain} for user in users]
    answers = await gather_all(*(api.run(user, CREATE, input=given) for user, given in zip(users, inputs, strict=True)))
    created = [answer for answer in answers if "errors" not in answer]
    assert len(created) == 1
    refusals = [answer["errors"][0]["extensions"] for answer in answers if "errors" in answer]
    assert {(refusal["code"], refusal["field"]) for refusal in refusals} == {("INVALID_INPUT", "domain")}
    owner = created[0]["data"]["createWorkspace"]["owner"]["id"]
    assert [len(await my_workspaces(api, user)) for user in users] == [int(user == owner) for user in users]


async def test_the_same_key_answers_the_first_workspace(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    key = {"idempotencyKey": "k"}
    first = await gather_all(*(create_workspace(api, alice, f"Space {n}", **key) for n in range(4)))
    assert len(set(first)) == 1
    assert await create_workspace(api, alice, "Another", domain="x-another", **key) == first[0]
    assert await create_workspace(api, bob, **key) != first[0]
    assert await my_workspaces(api, alice) == [first[0]]


async def test_a_user_has_at_most_so_many_workspaces_also_in_races(open_api: OpenApi) -> None:
    async with open_api("limits", max_workspaces_per_user=3) as api:
        alice, bob = await api.create_users("alice", "bob")
        joined = await create_workspace(api, bob, isOpen=True)
        calls = [api.run(alice, CREATE, input={"name": f"Space {n}"}) for n in range(4)]
        answers = await gather_all(*calls, api.run(alice, JOIN, id=joined), api.run(alice, JOIN, id=joined))
        refusals = [answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer]
        assert set(refusals) == {"LIMIT_REACHED"}
        mine = await my_workspaces(api, alice)
        assert len(mine) == 3
        before = await api.stored_hashes()
        assert (await api.expect_refusal(alice, CREATE, input={"name": "More"})).code == "LIMIT_REACHED"
        other = await create_workspace(api, bob, isOpen=True)
        before = await api.stored_hashes()
        assert (await api.expect_refusal(alice, JOIN, id=other)).code == "LIMIT_REACHED"
        assert await api.stored_hashes() == before
        for workspace in mine:
            expect_right_counts(api, workspace)


async def test_my_workspaces_are_listed_in_the_order_of_joining(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await create_workspace(api, bob)
    second = await create_workspace(api, alice)
    await add_members(api, first, alice)
    third = await create_workspace(api, alice)
    found, after = [], None
    while True:
        page = (await api.data(alice, MINE, first=1, after=after))["myWorkspaces"]
        found += [edge["node"]["id"] for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert found == [second, first, third]
    assert await my_workspaces(api, bob) == [first]


@pytest.mark.parametrize("after", ["", "x", "bm8", "dwox"])
async def test_a_malformed_cursor_is_refused(api: Api, after: str) -> None:
    (alice,) = await api.create_users("alice")
    assert await api.expect_refusal(alice, MINE, after=after) == Refusal("INVALID_INPUT", "after")


async def test_ids_of_other_things_are_no_workspaces(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    workspace = await create_workspace(api, alice)
    for id_ in (group, f"c_{workspace[2:]}.1", f"r_{workspace[2:]}", f"{workspace}0", f"{workspace} ", "w_", "", alice):
        assert await workspace_of(api, alice, id_) is None
    node = "query ($id: ID!) { node(id: $id) { id __typename } }"
    assert (await api.data(alice, node, id=workspace))["node"] == {"id": workspace, "__typename": "Workspace"}
    assert (await api.data(bob, node, id=workspace))["node"] is None
