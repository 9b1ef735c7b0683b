"""Overwrites in channels and categories: what they do, who may set them, and how permissions are explained."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.workspaces.permissions import overwrites
from store.workspaces.permissions import OF_EVERYONE, Permission
from store.workspaces.policy import ChannelKind
from tests.api.client import Api, Json, Refusal
from tests.api.workspaces.calls import LEAVE, add_members, create_workspace
from tests.api.workspaces.role_calls import (
    EXPLAIN,
    SET_OVERWRITE,
    add_category,
    add_channel,
    archive_channel,
    create_role,
    everyone,
    explanation,
    overwrite,
    permissions_in,
    set_roles,
)

ALL = {permission.name for permission in Permission}
DEFAULT = {permission.name for permission in OF_EVERYONE}


class Rooms:
    """A workspace of Alice. Bob may manage roles, Carol has none. Channels: general, trail (in a category), staff.

    Only Alice and Bob are in #staff, which is PRIVATE.
    """

    alice: str
    bob: str
    carol: str
    erin: str
    workspace: str
    keeper: str
    general: str
    trail: str
    staff: str
    category: str

    async def create(self, api: Api) -> Rooms:
        self.alice, self.bob, self.carol, self.erin = await api.create_users("alice", "bob", "carol", "erin")
        self.workspace = await create_workspace(api, self.alice)
        await add_members(api, self.workspace, self.bob, self.carol)
        self.keeper = await create_role(api, self.alice, self.workspace, "keeper", "MANAGE_ROLES")
        await set_roles(api, self.alice, self.workspace, self.bob, self.keeper)
        self.category = await add_category(api, self.workspace)
        self.general = await add_channel(api, self.workspace)
        self.trail = await add_channel(api, self.workspace, "trail", category=self.category)
        self.staff = await add_channel(
            api, self.workspace, "staff", ChannelKind.PRIVATE, members=[self.alice, self.bob]
        )
        return self

    @property
    def everyone(self) -> str:
        return everyone(self.workspace)


@pytest.fixture
async def rooms(api: Api) -> Rooms:
    return await Rooms().create(api)


def shown(role: str | None, user: str | None, allow: list[str], deny: list[str]) -> Json:
    return {"roleId": role, "userId": user, "allow": allow, "deny": deny}


async def test_overwrites_are_set_replaced_and_removed(rooms: Rooms, api: Api, other_api: Api) -> None:
    alice, carol, channel = rooms.alice, rooms.carol, rooms.general
    assert await permissions_in(other_api, carol, channel) == DEFAULT
    found = await overwrite(api, alice, channel=channel, role=rooms.everyone, deny=["SEND_MESSAGES", "VIDEO"])
    assert found == [shown(rooms.everyone, None, [], ["SEND_MESSAGES", "VIDEO"])]
    without = {"SEND_MESSAGES", "SEND_THREADS", "CREATE_THREADS", "ATTACH_FILES", "EMBED_LINKS"}
    assert await permissions_in(other_api, carol, channel) == DEFAULT - without - {"VIDEO"}
    found = await overwrite(other_api, alice, channel=channel, user=carol, allow=["SEND_MESSAGES", "PIN_MESSAGES"])
    assert found[1] == shown(None, carol, ["SEND_MESSAGES", "PIN_MESSAGES"], [])
    assert await permissions_in(api, carol, channel) == DEFAULT - {"VIDEO"} | {"PIN_MESSAGES"}
    found = await overwrite(api, alice, channel=channel, role=rooms.everyone, deny=["VIEW_CHANNEL"])
    assert found[0] == shown(rooms.everyone, None, [], ["VIEW_CHANNEL"])
    assert await permissions_in(other_api, carol, channel) is None
    assert await permissions_in(other_api, alice, channel) == ALL
    assert len(await overwrite(api, alice, channel=channel, role=rooms.everyone)) == 1
    assert await overwrite(api, alice, channel=channel, user=carol) == []
    assert await permissions_in(other_api, carol, channel) == DEFAULT
    before = await api.stored_hashes()
    assert await overwrite(api, alice, channel=channel, user=carol) == []
    assert await api.stored_hashes() == before


async def test_a_channel_uses_the_overwrites_of_its_category_until_it_has_its_own(
    rooms: Rooms, api: Api, other_api: Api
) -> None:
    alice, carol = rooms.alice, rooms.carol
    inherits = "query ($id: ID!) { channel(id: $id) { inheritsPermissions overwrites { roleId userId } } }"

    async def settings() -> Json:
        found: Json = (await other_api.data(alice, inherits, id=rooms.trail))["channel"]
        return found

    await overwrite(api, alice, category=rooms.category, role=rooms.everyone, deny=["SEND_MESSAGES"])
    assert "SEND_MESSAGES" not in (await permissions_in(other_api, carol, rooms.trail) or ())
    assert "SEND_MESSAGES" in (await permissions_in(other_api, carol, rooms.general) or ())
    assert await settings() == {
        "inheritsPermissions": True,
        "overwrites": [{"roleId": rooms.everyone, "userId": None}],
    }
    # The first overwrite of its own does not open the channel to the others.
    found = await overwrite(api, alice, channel=rooms.trail, user=rooms.bob, allow=["SEND_MESSAGES"])
    assert len(found) == 2 and not (await settings())["inheritsPermissions"]
    assert "SEND_MESSAGES" not in (await permissions_in(other_api, carol, rooms.trail) or ())
    assert "SEND_MESSAGES" in (await permissions_in(other_api, rooms.bob, rooms.trail) or ())
    await overwrite(api, alice, category=rooms.category, role=rooms.everyone, deny=["VIEW_CHANNEL"])
    assert await permissions_in(other_api, carol, rooms.trail) is not None
    # Without any of its own it inherits again.
    await overwrite(api, alice, channel=rooms.trail, user=rooms.bob)
    assert await overwrite(api, alice, channel=rooms.trail, role=rooms.everyone) == [
        shown(rooms.everyone, None, [], ["VIEW_CHANNEL"])
    ]
    assert (await settings())["inheritsPermissions"]
    assert await permissions_in(other_api, carol, rooms.trail) is None


async def test_members_manage_only_permissions_that_they_have_there(rooms: Rooms, api: Api) -> None:
    alice, bob, carol, channel = rooms.alice, rooms.bob, rooms.carol, rooms.general
    for place in ({"channel": channel}, {"category": rooms.category}):
        await overwrite(api, bob, **place, user=carol, allow=["SPEAK"], deny=["VIDEO", "MANAGE_ROLES"])
        before = await api.stored_hashes()
        for fields in (
            {"user": bob, "allow": ["BAN_MEMBERS"]},
            {"role": rooms.keeper, "allow": ["PIN_MESSAGES"]},
            {"role": rooms.everyone, "allow": ["MENTION_EVERYONE"]},
            {"role": rooms.everyone, "deny": ["KICK_MEMBERS"]},
        ):
            assert await api.expect_refusal(bob, SET_OVERWRITE, **place, **fields) == Refusal("FORBIDDEN"), fields
        assert await api.stored_hashes() == before
    # Bob cannot take back what the owner denied him.
    await overwrite(api, alice, channel=channel, role=rooms.keeper, deny=["PIN_MESSAGES", "ADD_REACTIONS"])
    before = await api.stored_hashes()
    for allow in ([], ["ADD_REACTIONS"], ["SPEAK"]):
        refusal = await api.expect_refusal(bob, SET_OVERWRITE, channel=channel, role=rooms.keeper, allow=allow)
        assert refusal == Refusal("FORBIDDEN")
    assert await api.expect_refusal(bob, SET_OVERWRITE, channel=channel, user=bob, allow=["ADD_REACTIONS"]) == Refusal(
        "FORBIDDEN"
    )
    assert await api.stored_hashes() == before
    # A right to manage roles in one channel is one in that channel only.
    await overwrite(api, alice, channel=channel, user=carol, allow=["MANAGE_ROLES"])
    await overwrite(api, carol, channel=channel, user=bob, deny=["SPEAK"])
    for place in ({"channel": rooms.trail}, {"category": rooms.category}):
        assert await api.expect_refusal(carol, SET_OVERWRITE, **place, user=bob) == Refusal("FORBIDDEN")


async def test_moving_a_channel_grants_nobody_what_the_mover_lacks(rooms: Rooms, api: Api) -> None:
    alice, bob = rooms.alice, rooms.bob
    for place in (rooms.general, rooms.trail):
        await overwrite(api, alice, channel=place, user=bob, allow=["MANAGE_CHANNELS"])
    await overwrite(api, alice, category=rooms.category, role=rooms.keeper, allow=["BAN_MEMBERS"])
    move = "mutation ($id: ID!, $input: UpdateChannelInput!) { updateChannel(channelId: $id, input: $input) { id } }"
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(bob, move, id=rooms.trail, input={"inheritsPermissions": True})
    assert refusal == Refusal("FORBIDDEN", "inheritsPermissions")
    fields = {"categoryId": rooms.category, "inheritsPermissions": True}
    assert (await api.expect_refusal(bob, move, id=rooms.general, input=fields)).code == "FORBIDDEN"
    assert await api.stored_hashes() == before
    # With its own overwrites it stays as it is for everybody.
    await api.data(bob, move, id=rooms.general, input={"categoryId": rooms.category})
    assert "BAN_MEMBERS" not in (await permissions_in(api, bob, rooms.general) or ())
    await api.data(alice, move, id=rooms.trail, input={"inheritsPermissions": True})
    assert "BAN_MEMBERS" in (await permissions_in(api, bob, rooms.trail) or ())


async def test_refused_overwrites_change_nothing(rooms: Rooms, api: Api) -> None:
    other = await Rooms().create(api)
    channel, role = {"channel": rooms.general}, {"role": rooms.keeper}
    unseen = Refusal("NOT_FOUND", "channelId")
    cases: list[tuple[str, Json, Refusal]] = [
        (rooms.alice, {**role}, Refusal("INVALID_INPUT", "channelId")),
        (rooms.alice, {**channel, "category": rooms.category, **role}, Refusal("INVALID_INPUT", "channelId")),
        (rooms.alice, channel, Refusal("INVALID_INPUT", "roleId")),
        (rooms.alice, {**channel, **role, "user": rooms.bob}, Refusal("INVALID_INPUT", "roleId")),
        (rooms.alice, {**channel, **role, "allow": ["ADMINISTRATOR"]}, Refusal("INVALID_INPUT", "allow")),
        (rooms.alice, {**channel, **role, "deny": ["SPEAK", "ADMINISTRATOR"]}, Refusal("INVALID_INPUT", "deny")),
        (rooms.alice, {**channel, **role, "allow": ["SPEAK"], "deny": ["SPEAK"]}, Refusal("INVALID_INPUT", "deny")),
        # Foreign ids.
        (rooms.alice, {**channel, "role": other.keeper, "allow": ["SPEAK"]}, Refusal("NOT_FOUND", "roleId")),
        (rooms.alice, {**channel, "role": other.everyone, "deny": ["SPEAK"]}, Refusal("NOT_FOUND", "roleId")),
        (rooms.alice, {**channel, "user": other.carol, "deny": ["SPEAK"]}, Refusal("NOT_A_MEMBER", "userId")),
        (rooms.alice, {"channel": other.general, **role}, unseen),
        (rooms.alice, {"channel": other.general, "role": other.keeper}, unseen),
        (rooms.alice, {"category": other.category, **role}, Refusal("NOT_FOUND", "categoryId")),
        *(
            (rooms.alice, {"channel": id, **role}, unseen)
            for id in (rooms.category, rooms.workspace, "", "g_1", f"c_{rooms.workspace[2:]}.1")
        ),
        *(
            (rooms.alice, {"category": id, **role}, Refusal("NOT_FOUND", "categoryId"))
            for id in (rooms.general, "", f"k_{rooms.workspace[2:]}.1")
        ),
        # Without the right, and from outside.
        (rooms.carol, {**channel, **role, "allow": ["SPEAK"]}, Refusal("FORBIDDEN")),
        (rooms.carol, {**channel, **role}, Refusal("FORBIDDEN")),
        (rooms.carol, {"category": rooms.category, **role}, Refusal("FORBIDDEN")),
        (rooms.carol, {"channel": rooms.staff, **role}, unseen),
        (rooms.erin, {**channel, **role}, unseen),
        (rooms.erin, {"category": rooms.category, **role}, Refusal("NOT_FOUND", "categoryId")),
    ]
    before = await api.stored_hashes()
    for user, variables, refusal in cases:
        assert await api.expect_refusal(user, SET_OVERWRITE, **variables) == refusal, variables
    assert await api.stored_hashes() == before


async def test_the_overwrite_of_a_former_member_can_be_removed(rooms: Rooms, api: Api) -> None:
    await overwrite(api, rooms.alice, channel=rooms.general, user=rooms.carol, allow=["SPEAK"])
    await api.data(rooms.carol, LEAVE, id=rooms.workspace)
    refusal = await api.expect_refusal(
        rooms.alice, SET_OVERWRITE, channel=rooms.general, user=rooms.carol, allow=["VIDEO"]
    )
    assert refusal == Refusal("NOT_A_MEMBER", "userId")
    assert await overwrite(api, rooms.alice, channel=rooms.general, user=rooms.carol) == []


async def test_a_place_has_at_most_200_overwrites(rooms: Rooms, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert overwrites.MOST_OVERWRITES == 200
    monkeypatch.setattr(overwrites, "MOST_OVERWRITES", 2)
    for place in ({"channel": rooms.general}, {"category": rooms.category}):
        for target in ({"role": rooms.keeper}, {"user": rooms.bob}, {"user": rooms.bob}):
            await overwrite(api, rooms.alice, **place, **target, allow=["SPEAK"])
        before = await api.stored_hashes()
        refusal = await api.expect_refusal(rooms.alice, SET_OVERWRITE, **place, user=rooms.carol, allow=["SPEAK"])
        assert refusal == Refusal("LIMIT_REACHED")
        assert await api.stored_hashes() == before


async def test_permissions_are_explained(rooms: Rooms, api: Api, other_api: Api) -> None:
    alice, bob, carol, channel = rooms.alice, rooms.bob, rooms.carol, rooms.general
    await overwrite(api, alice, channel=channel, role=rooms.everyone, deny=["SEND_MESSAGES"])
    await overwrite(api, alice, channel=channel, role=rooms.keeper, allow=["PIN_MESSAGES"])
    await overwrite(api, alice, channel=channel, user=bob, allow=["KICK_MEMBERS"])
    own = await explanation(other_api, bob, channel)
    assert list(own) == [permission.name for permission in Permission]
    assert own["VIEW_CHANNEL"] == (True, "ROLE", rooms.everyone)
    assert own["MANAGE_ROLES"] == (True, "ROLE", rooms.keeper)
    assert own["SEND_MESSAGES"] == (False, "EVERYONE_OVERWRITE", rooms.everyone)
    assert own["ATTACH_FILES"] == (False, "IMPLIED", None)
    assert own["PIN_MESSAGES"] == (True, "ROLE_OVERWRITE", rooms.keeper)
    assert own["KICK_MEMBERS"] == (True, "MEMBER_OVERWRITE", None)
    assert own["BAN_MEMBERS"] == (False, "DEFAULT", None)
    assert {name for name, (allowed, *_) in own.items() if allowed} == await permissions_in(api, bob, channel)
    assert (await explanation(api, alice, channel))["BAN_MEMBERS"] == (True, "OWNER", None)
    assert await explanation(api, alice, channel, bob) == own == await explanation(api, bob, channel, bob)
    assert (await explanation(api, bob, rooms.staff, carol))["VIEW_CHANNEL"] == (False, "NOT_VISIBLE", None)
    await archive_channel(api, rooms.staff)
    assert (await explanation(other_api, bob, rooms.staff))["SEND_MESSAGES"] == (False, "ARCHIVED", None)


async def test_permissions_are_explained_to_oneself_and_to_those_who_manage_roles(rooms: Rooms, api: Api) -> None:
    unseen = Refusal("NOT_FOUND", "channelId")
    cases: list[tuple[str, str, Any, Refusal]] = [
        (rooms.carol, rooms.general, rooms.bob, Refusal("FORBIDDEN")),
        (rooms.carol, rooms.staff, None, unseen),
        (rooms.carol, rooms.staff, rooms.bob, unseen),
        (rooms.erin, rooms.general, None, unseen),
        (rooms.alice, rooms.general, rooms.erin, Refusal("NOT_A_MEMBER", "userId")),
        (rooms.alice, rooms.category, None, unseen),
        (rooms.alice, "c_1.2", None, unseen),
        (rooms.alice, "nonsense", None, unseen),
    ]
    for user, channel, of, refusal in cases:
        assert await api.expect_refusal(user, EXPLAIN, channel=channel, user=of) == refusal
    assert (await explanation(api, rooms.carol, rooms.general, rooms.carol))["SPEAK"][0]
