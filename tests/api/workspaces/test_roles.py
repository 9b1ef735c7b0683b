"""Roles: who may create, change, move, delete and give which."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.workspaces.permissions import roles
from store.workspaces.permissions import OF_EVERYONE, Permission
from tests.api.client import Api, Json, Refusal, gather_all
from tests.api.workspaces.calls import LEAVE, add_members, create_workspace
from tests.api.workspaces.role_calls import (
    CREATE_ROLE,
    DELETE_ROLE,
    MEMBER_ROLES,
    ROLES,
    SET_ROLES,
    UPDATE_ROLE,
    add_category,
    add_channel,
    create_role,
    everyone,
    overwrite,
    permissions_in,
    role_names,
    roles_of,
    set_roles,
)


class Staff:
    """Alice owns a workspace with roles, lowest first: guest (Carol), guide (Bob), chief. Dave is a member without."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.workspace = ""
        self.role: dict[str, str] = {}
        self.user: dict[str, str] = {}

    async def create(self) -> Staff:
        api = self.api
        names = ("alice", "bob", "carol", "dave", "erin")
        self.user = dict(zip(names, await api.create_users(*names), strict=True))
        alice = self.user["alice"]
        self.workspace = await create_workspace(api, alice)
        await add_members(api, self.workspace, *(self.user[name] for name in names[1:4]))
        # Each new role is the lowest.
        for name, permissions in (
            ("chief", ("KICK_MEMBERS",)),
            ("guide", ("MANAGE_ROLES", "PIN_MESSAGES")),
            ("guest", ("SPEAK",)),
        ):
            self.role[name] = await create_role(api, alice, self.workspace, name, *permissions)
        self.role["everyone"] = everyone(self.workspace)
        await set_roles(api, alice, self.workspace, self.user["bob"], self.role["guide"])
        await set_roles(api, alice, self.workspace, self.user["carol"], self.role["guest"])
        return self

    def fill_in(self, variables: Json) -> Json:
        """Replace names of roles and users (@name) by their ids."""
        ids = self.role | self.user | {"workspace": self.workspace}

        def replaced(value: Any) -> Any:
            if isinstance(value, str) and value.startswith("@"):
                return ids[value[1:]]
            if isinstance(value, list):
                return [replaced(item) for item in value]
            return value

        return {name: replaced(value) for name, value in variables.items()}


@pytest.fixture
async def staff(api: Api) -> Staff:
    return await Staff(api).create()


async def test_a_new_workspace_has_the_role_of_everyone(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice, isOpen=True)
    found = (await api.data(alice, ROLES, id=workspace))["workspace"]
    (role,) = found["roles"]
    assert role == {
        "id": everyone(workspace),
        "name": "everyone",
        "position": 0,
        "color": None,
        "permissions": [p.name for p in OF_EVERYONE],
        "permissionBits": str(int(OF_EVERYONE)),
        "isMentionable": False,
        "isHoisted": False,
        "memberCount": 1,
    }
    assert found["viewerPermissions"] == [permission.name for permission in Permission]
    # Bob sees that the workspace is open, and nothing of it.
    assert (await api.data(bob, ROLES, id=workspace))["workspace"] == {"roles": [], "viewerPermissions": []}
    node = "query ($id: ID!) { node(id: $id) { id ... on Role { name } } }"
    assert (await api.data(alice, node, id=role["id"]))["node"] == {"id": role["id"], "name": "everyone"}
    for user, id in ((bob, role["id"]), (alice, "r_5"), (alice, f"{role['id']}.5")):
        assert (await api.data(user, node, id=id))["node"] is None


async def test_roles_are_created_changed_moved_and_deleted(staff: Staff, api: Api, other_api: Api) -> None:
    alice, workspace = staff.user["alice"], staff.workspace
    assert await role_names(other_api, alice, workspace) == ["chief", "guide", "guest", "everyone"]
    fields = {"name": "Löwe", "color": "#AABB0C", "isMentionable": True, "isHoisted": True, "position": 2}
    created = (await api.data(alice, CREATE_ROLE, id=workspace, input=fields))["createRole"]
    assert created | {"id": ""} == {
        "id": "",
        "name": "Löwe",
        "position": 2,
        "color": "#aabb0c",
        "permissions": [],
        "permissionBits": "0",
        "isMentionable": True,
        "isHoisted": True,
        "memberCount": 0,
    }
    assert await role_names(other_api, alice, workspace) == ["chief", "guide", "Löwe", "guest", "everyone"]
    change = {"position": 99, "color": None, "permissions": ["SPEAK", "VIDEO"], "isHoisted": False}
    updated = (await other_api.data(alice, UPDATE_ROLE, id=created["id"], input=change))["updateRole"]
    assert (updated["position"], updated["color"], updated["name"]) == (4, None, "Löwe")
    assert (updated["permissions"], updated["isHoisted"], updated["isMentionable"]) == (["SPEAK", "VIDEO"], False, True)
    assert [role["position"] for role in await roles_of(api, alice, workspace)] == [4, 3, 2, 1, 0]
    assert await api.data(alice, DELETE_ROLE, id=staff.role["guide"]) == {"deleteRole": True}
    assert await role_names(other_api, alice, workspace) == ["Löwe", "chief", "guest", "everyone"]
    assert [role["position"] for role in await roles_of(api, alice, workspace)] == [3, 2, 1, 0]


async def test_members_have_roles_and_roles_count_them(staff: Staff, api: Api, other_api: Api) -> None:
    alice, bob, carol = (staff.user[name] for name in ("alice", "bob", "carol"))
    workspace, role = staff.workspace, staff.role

    async def counts() -> dict[str, int]:
        return {role["name"]: role["memberCount"] for role in await roles_of(other_api, alice, workspace)}

    assert await counts() == {"chief": 0, "guide": 1, "guest": 1, "everyone": 4}
    given = await set_roles(api, alice, workspace, carol, role["chief"], role["guest"], role["everyone"], role["guest"])
    assert given == ["chief", "guest"]
    found = (await other_api.data(carol, MEMBER_ROLES, id=workspace))["workspace"]
    assert [role["name"] for role in found["viewer"]["roles"]] == ["chief", "guest"]
    shown = {e["node"]["user"]["id"]: [r["name"] for r in e["node"]["roles"]] for e in found["members"]["edges"]}
    assert shown == {alice: [], bob: ["guide"], carol: ["chief", "guest"], staff.user["dave"]: []}
    assert await counts() == {"chief": 1, "guide": 1, "guest": 1, "everyone": 4}
    await api.data(carol, LEAVE, id=workspace)
    assert await counts() == {"chief": 0, "guide": 1, "guest": 0, "everyone": 3}
    await api.data(alice, DELETE_ROLE, id=role["guide"])
    assert await set_roles(api, alice, workspace, bob) == []
    assert await counts() == {"chief": 0, "guest": 0, "everyone": 3}


async def test_a_call_that_changes_nothing_stores_nothing(staff: Staff, api: Api) -> None:
    alice, bob = staff.user["alice"], staff.user["bob"]
    before = await api.stored_hashes()
    assert await set_roles(api, alice, staff.workspace, bob, staff.role["guide"]) == ["guide"]
    for change in ({}, {"name": "guide"}, {"position": 2}, {"permissions": ["PIN_MESSAGES", "MANAGE_ROLES"]}):
        await api.data(alice, UPDATE_ROLE, id=staff.role["guide"], input=change)
    assert await api.stored_hashes() == before


async def test_overwrites_of_a_deleted_role_go(staff: Staff, api: Api) -> None:
    alice, carol, guest = staff.user["alice"], staff.user["carol"], staff.role["guest"]
    category = await add_category(api, staff.workspace)
    channel = await add_channel(api, staff.workspace)
    for place in ({"channel": channel}, {"category": category}):
        await overwrite(api, alice, **place, role=guest, deny=["SEND_MESSAGES"])
    assert "SEND_MESSAGES" not in (await permissions_in(api, carol, channel) or ())
    await api.data(alice, DELETE_ROLE, id=guest)
    assert "SEND_MESSAGES" in (await permissions_in(api, carol, channel) or ())
    row = api.database["workspaces"].find_one({"_id": staff.workspace})
    assert row is not None and "ow" not in row["ca"][0]
    found = api.database["channels"].find_one({"_id": f"{staff.workspace} {channel}"})
    assert found is not None and "ow" not in found


FORBIDDEN, NOTHING_THERE = Refusal("FORBIDDEN"), Refusal("NOT_FOUND", "workspaceId")


def create(**fields: Any) -> tuple[str, Json]:
    return CREATE_ROLE, {"id": "@workspace", "input": {"name": "new"} | fields}


def update(role: str, **fields: Any) -> tuple[str, Json]:
    return UPDATE_ROLE, {"id": role, "input": fields}


def give(user: str, *roles: str) -> tuple[str, Json]:
    return SET_ROLES, {"id": "@workspace", "user": user, "roles": list(roles)}


def below(field: str) -> Refusal:
    return Refusal("FORBIDDEN", field)


FOREIGN = "r_1.2"
REFUSALS: list[tuple[str, tuple[str, Json], Refusal]] = [
    # Without MANAGE_ROLES, or from outside.
    *(("carol", call, FORBIDDEN) for call in (create(), update("@guest", name="x"), give("@dave", "@guest"))),
    ("carol", (DELETE_ROLE, {"id": "@guest"}), FORBIDDEN),
    ("erin", create(), NOTHING_THERE),
    ("erin", give("@dave", "@guest"), NOTHING_THERE),
    ("erin", update("@guest", name="x"), Refusal("NOT_FOUND", "roleId")),
    ("erin", (DELETE_ROLE, {"id": "@guest"}), Refusal("NOT_FOUND", "roleId")),
    # Order: Bob is a guide. His own role and those above are beyond him.
    *(("bob", update(role, name="x"), below("roleId")) for role in ("@guide", "@chief")),
    *(("bob", (DELETE_ROLE, {"id": role}), below("roleId")) for role in ("@guide", "@chief")),
    ("bob", create(position=3), below("position")),
    ("bob", update("@guest", position=2), below("position")),
    ("bob", update("@guest", position=3), below("position")),
    ("bob", give("@dave", "@guide"), below("roleIds")),
    ("bob", give("@dave", "@chief"), below("roleIds")),
    ("bob", give("@bob", "@guide", "@guest"), below("userId")),
    ("bob", give("@bob"), below("userId")),
    ("bob", give("@alice", "@guest"), below("userId")),
    # Granting what one lacks, by a role, by the role of everyone, by giving a role.
    ("bob", create(permissions=["KICK_MEMBERS"]), below("permissions")),
    ("bob", create(permissions=["ADMINISTRATOR"]), below("permissions")),
    ("bob", update("@guest", permissions=["SPEAK", "BAN_MEMBERS"]), below("permissions")),
    ("bob", update("@everyone", permissions=["ADMINISTRATOR"]), below("permissions")),
    ("bob", update("@everyone", permissions=["MANAGE_CHANNELS"]), below("permissions")),
    # Bad input.
    ("alice", (CREATE_ROLE, {"id": "@workspace", "input": {}}), Refusal("INVALID_INPUT", "name")),
    ("alice", create(name=" "), Refusal("INVALID_INPUT", "name")),
    ("alice", create(name="x" * 101), Refusal("INVALID_INPUT", "name")),
    ("alice", update("@guest", name=""), Refusal("INVALID_INPUT", "name")),
    *(("alice", create(color=color), Refusal("INVALID_INPUT", "color")) for color in ("", "red", "#12345", "#12345g")),
    *(("alice", create(position=position), Refusal("INVALID_INPUT", "position")) for position in (0, -1)),
    ("alice", update("@everyone", position=1), Refusal("INVALID_INPUT", "position")),
    ("alice", update("@everyone", isMentionable=True), Refusal("INVALID_INPUT", "isMentionable")),
    ("alice", (DELETE_ROLE, {"id": "@everyone"}), Refusal("INVALID_INPUT", "roleId")),
    # Foreign ids.
    *(("alice", update(id, name="x"), Refusal("NOT_FOUND", "roleId")) for id in (FOREIGN, "r_1", "", "guest", "c_1.2")),
    ("alice", (DELETE_ROLE, {"id": FOREIGN}), Refusal("NOT_FOUND", "roleId")),
    ("alice", give("@dave", FOREIGN), Refusal("NOT_FOUND", "roleIds")),
    ("alice", give("@dave", "@guest", "r_1"), Refusal("NOT_FOUND", "roleIds")),
    ("alice", give("@erin", "@guest"), Refusal("NOT_A_MEMBER", "userId")),
    ("alice", give("nobody at all", "@guest"), Refusal("NOT_A_MEMBER", "userId")),
    ("alice", (CREATE_ROLE, {"id": "w_1", "input": {"name": "x"}}), NOTHING_THERE),
    ("alice", (CREATE_ROLE, {"id": "@guest", "input": {"name": "x"}}), NOTHING_THERE),
]


async def test_every_refused_change_of_roles_changes_nothing(staff: Staff, api: Api) -> None:
    before = await api.stored_hashes()
    for user, (operation, variables), refusal in REFUSALS:
        answer = await api.expect_refusal(staff.user[user], operation, **staff.fill_in(variables))
        assert answer == refusal, (user, operation, variables)
    assert await api.stored_hashes() == before


async def test_a_member_with_the_right_manages_roles_below_their_own(staff: Staff, api: Api) -> None:
    bob, carol, dave, workspace = *(staff.user[name] for name in ("bob", "carol", "dave")), staff.workspace
    # At the place of the own role, which moves up.
    helper = await create_role(api, bob, workspace, "helper", "PIN_MESSAGES", position=2)
    assert await role_names(api, bob, workspace) == ["chief", "guide", "helper", "guest", "everyone"]
    await api.data(bob, UPDATE_ROLE, id=helper, input={"permissions": ["MANAGE_ROLES"], "position": 1})
    assert await role_names(api, bob, workspace) == ["chief", "guide", "guest", "helper", "everyone"]
    assert await set_roles(api, bob, workspace, dave, staff.role["guest"], helper) == ["guest", "helper"]
    assert await set_roles(api, bob, workspace, carol) == []
    # Dave is a helper below the guests now: he may not touch himself, nor guests, nor Bob.
    for user in (dave, bob):
        refusal = await api.expect_refusal(dave, SET_ROLES, id=workspace, user=user, roles=[])
        assert refusal == Refusal("FORBIDDEN", "userId")
    await api.data(bob, UPDATE_ROLE, id=everyone(workspace), input={"permissions": ["VIEW_CHANNEL"]})
    assert (await api.data(carol, ROLES, id=workspace))["workspace"]["viewerPermissions"] == ["VIEW_CHANNEL"]


async def test_a_role_is_not_given_by_those_who_lack_its_permissions(staff: Staff, api: Api) -> None:
    alice, bob, dave = (staff.user[name] for name in ("alice", "bob", "dave"))
    await api.data(alice, UPDATE_ROLE, id=staff.role["guest"], input={"permissions": ["BAN_MEMBERS"]})
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(bob, SET_ROLES, id=staff.workspace, user=dave, roles=[staff.role["guest"]])
    assert refusal == Refusal("FORBIDDEN", "roleIds")
    assert await api.stored_hashes() == before
    # What a role has already may stay, and may be taken away.
    await api.data(bob, UPDATE_ROLE, id=staff.role["guest"], input={"permissions": ["BAN_MEMBERS", "SPEAK"]})
    await api.data(bob, UPDATE_ROLE, id=staff.role["guest"], input={"permissions": []})


async def test_manage_roles_without_an_own_role_changes_no_role(staff: Staff, api: Api) -> None:
    alice, dave, workspace = staff.user["alice"], staff.user["dave"], staff.workspace
    await api.data(alice, UPDATE_ROLE, id=everyone(workspace), input={"permissions": ["MANAGE_ROLES"]})
    for call in (create(), update("@everyone", name="x"), give("@dave", "@guest"), update("@guest", name="x")):
        operation, variables = call
        assert (await api.expect_refusal(dave, operation, **staff.fill_in(variables))).code == "FORBIDDEN"


async def test_a_workspace_has_at_most_250_roles_and_a_member_100(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (roles.MOST_ROLES, roles.MOST_ROLES_OF_MEMBER) == (250, 100)
    monkeypatch.setattr(roles, "MOST_ROLES", 4)
    monkeypatch.setattr(roles, "MOST_ROLES_OF_MEMBER", 2)
    alice, bob = await api.create_users("alice", "bob")
    workspace = await create_workspace(api, alice)
    await add_members(api, workspace, bob)
    created = await gather_all(*(api.run(alice, CREATE_ROLE, id=workspace, input={"name": "r"}) for _ in range(5)))
    ids = [answer["data"]["createRole"]["id"] for answer in created if "errors" not in answer]
    codes = [answer["errors"][0]["extensions"]["code"] for answer in created if "errors" in answer]
    assert (len(set(ids)), codes) == (3, ["LIMIT_REACHED"] * 2)
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, SET_ROLES, id=workspace, user=bob, roles=ids)
    assert refusal == Refusal("LIMIT_REACHED", "roleIds")
    assert await api.stored_hashes() == before
    assert len(await set_roles(api, alice, workspace, bob, *ids[:2], ids[0], everyone(workspace))) == 2
