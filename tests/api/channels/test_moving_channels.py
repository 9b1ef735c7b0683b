"""Managing channels without managing roles: nobody gains or loses rights by it."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from tests.api.channels.calls import ADD, CREATE, DELETE_CATEGORY, LIST, UPDATE, Made
from tests.api.client import Api, Refusal, make_caller
from tests.api.workspaces.role_calls import SET_OVERWRITE, create_role, everyone, set_roles


@pytest.fixture
async def manager(api: Api, made: Made) -> str:
    """A member who may manage channels, and nothing else."""
    (manager,) = await api.create_users("manager")
    await api.data(make_caller("service", CallerRole.SERVICE), ADD, id=made.id, users=[manager])
    role = await create_role(api, made.owner, made.id, "managers", "MANAGE_CHANNELS", "VIEW_CHANNEL")
    await set_roles(api, made.owner, made.id, manager, role)
    return manager


@pytest.fixture
async def hidden(api: Api, made: Made, manager: str) -> tuple[str, str]:
    """A category that only the manager sees, and a channel in it."""
    category = (await made.create_category("hidden"))["id"]
    deny = {"role": everyone(made.id), "deny": ["VIEW_CHANNEL"]}
    await api.data(made.owner, SET_OVERWRITE, category=category, **deny)
    await api.data(made.owner, SET_OVERWRITE, category=category, user=manager, allow=["VIEW_CHANNEL"])
    channel = (await made.create("plans", categoryId=category))["id"]
    return category, channel


async def test_a_member_with_manage_channels_manages_channels(api: Api, made: Made, manager: str) -> None:
    created = await api.data(manager, CREATE, input={"workspaceId": made.id, "name": "mine"})
    channel = created["createChannel"]["id"]
    assert (await api.data(manager, UPDATE, id=channel, input={"name": "ours"}))["updateChannel"]["name"] == "ours"
    await api.data(made.owner, SET_OVERWRITE, channel=channel, user=manager, deny=["MANAGE_CHANNELS"])
    before = await api.stored_hashes()
    assert (await api.expect_refusal(manager, UPDATE, id=channel, input={"name": "mine"})).code == "FORBIDDEN"
    assert await api.stored_hashes() == before


async def test_moving_a_channel_does_not_change_who_sees_it(
    api: Api, made: Made, manager: str, hidden: tuple[str, str]
) -> None:
    category, channel = hidden
    assert await made.find(made.member, channel) is None
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(manager, UPDATE, id=channel, input={"categoryId": None})
    assert refusal == Refusal("FORBIDDEN", "categoryId")
    assert await api.stored_hashes() == before
    moved = {"categoryId": None, "inheritsPermissions": False}
    changed = (await api.data(manager, UPDATE, id=channel, input=moved))["updateChannel"]
    assert (changed["category"], changed["inheritsPermissions"]) == (None, False)
    assert await made.find(made.member, channel) is None
    refusal = await api.expect_refusal(manager, UPDATE, id=channel, input={"inheritsPermissions": True})
    assert refusal == Refusal("FORBIDDEN", "inheritsPermissions")
    await made.update(channel, inheritsPermissions=True)
    assert await made.find(made.member, channel) is not None
    await made.update(channel, categoryId=category)
    assert await made.find(made.member, channel) is None


async def test_channels_of_a_deleted_category_stay_hidden(
    api: Api, made: Made, manager: str, hidden: tuple[str, str]
) -> None:
    category, channel = hidden
    for user, found in ((made.member, None), (manager, {"id": category})):
        assert (await api.data(user, "query ($id: ID!) { node(id: $id) { id } }", id=category))["node"] == found
        listed = (await api.data(user, LIST, id=made.id))["workspace"]["categories"]
        assert [each["id"] for each in listed] == ([category] if found else [])
    assert (await api.data(manager, DELETE_CATEGORY, id=category))["deleteCategory"]
    assert await made.find(made.member, channel) is None
    found = await made.find(manager, channel)
    assert found is not None and (found["category"], found["inheritsPermissions"]) == (None, False)
    assert await made.names(made.member) == []


async def test_a_channel_that_the_caller_hides_from_themselves_is_shown_as_last_seen(api: Api, made: Made) -> None:
    channel = (await made.create())["id"]
    await api.data(
        made.owner,
        SET_OVERWRITE,
        channel=channel,
        user=made.member,
        allow=["MANAGE_CHANNELS"],
    )
    changed = await api.data(made.member, UPDATE, id=channel, input={"kind": "PRIVATE", "slowModeSeconds": 9})
    assert (changed["updateChannel"]["kind"], changed["updateChannel"]["slowModeSeconds"]) == ("PRIVATE", 9)
    assert await made.find(made.member, channel) is None
    assert await made.find(made.owner, channel) is not None
