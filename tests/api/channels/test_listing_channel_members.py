"""Channel.members: the members of PRIVATE channels and the followers of others, by name, in pages."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.following import member_lists
from resolvers.users.callers import CallerRole
from store.base.ids import UserId
from store.workspaces.permissions import Permission
from tests.api.channels.session_calls import FOLLOW, change
from tests.api.client import Api, Json, Refusal, make_caller
from tests.api.sample_channels import SampleChannels
from tests.api.workspaces.calls import ADD as ADD_TO_WORKSPACE

MEMBERS = """query ($id: ID!, $first: Int = 50, $after: String, $query: String) { channel(id: $id) {
    memberCount members(first: $first, after: $after, query: $query) {
        edges { cursor node { nickname joinedAt timedOutUntil user { id } roles { name } } }
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } }"""

SERVICE = make_caller("service", CallerRole.SERVICE)


@pytest.fixture(params=["read whole", "walk"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read all members of the channel, or those of the workspace in order."""
    if request.param == "walk":
        monkeypatch.setattr(member_lists, "READ_WHOLE", -1)


async def page_of(api: Api, user: Any, channel: str, **arguments: Any) -> Json:
    found: Json = (await api.data(user, MEMBERS, id=channel, **arguments))["channel"]["members"]
    return found


async def members_of(api: Api, user: Any, channel: str, page: int = 100, **arguments: Any) -> list[str]:
    """Return the users in a channel, read in pages."""
    found: list[str] = []
    after = None
    while True:
        listed = await page_of(api, user, channel, first=page, after=after, **arguments)
        assert listed["pageInfo"]["hasPreviousPage"] == (after is not None)
        assert len(listed["edges"]) <= page
        found += [edge["node"]["user"]["id"] for edge in listed["edges"]]
        after = listed["pageInfo"]["endCursor"]
        if not listed["pageInfo"]["hasNextPage"]:
            return found


@pytest.mark.usefixtures("reading")
async def test_followers_are_listed_by_name_in_pages(api: Api, workspace: SampleChannels) -> None:
    many = await api.create_many_users("many", 30)
    await api.data(SERVICE, ADD_TO_WORKSPACE, id=workspace.id, users=many)
    followers = [workspace.other, workspace.member, *many[3::9]]
    for user in followers:
        await change(api, user, FOLLOW, id=workspace.general)
    await workspace.set_facts(workspace.member, nickname="Zoë", roles=frozenset({workspace.guide_role}))
    expected = [*many[3::9], workspace.other, workspace.member]
    for page in (1, 2, 100):
        assert await members_of(api, workspace.owner, workspace.general, page) == expected
    assert await members_of(api, workspace.owner, workspace.general, 1, query="zo") == [workspace.member]
    assert await members_of(api, workspace.owner, workspace.general, 2, query="many.") == many[3::9]
    assert await members_of(api, workspace.owner, workspace.general, query=many[0]) == []
    last = (await page_of(api, workspace.owner, workspace.general))["edges"][-1]["node"]
    assert (last["nickname"], last["timedOutUntil"]) == ("Zoë", None)
    assert [role["name"] for role in last["roles"]] == ["guide"]


@pytest.mark.usefixtures("reading")
async def test_only_present_members_are_listed(api: Api, workspace: SampleChannels) -> None:
    assert await members_of(api, workspace.moderator, workspace.staff) == [workspace.member, workspace.moderator]
    await workspace.remove_from_staff(workspace.member)
    assert await members_of(api, workspace.moderator, workspace.staff) == [workspace.moderator]
    for user in (workspace.member, workspace.other):
        await change(api, user, FOLLOW, id=workspace.general)
    await change(api, workspace.member, FOLLOW, id=workspace.general, follow=False)
    assert await members_of(api, workspace.owner, workspace.general) == [workspace.other]
    await workspace.remove(workspace.other)
    assert await members_of(api, workspace.owner, workspace.general) == []


@pytest.mark.usefixtures("reading")
async def test_a_hidden_channel_shows_no_members(api: Api, workspace: SampleChannels) -> None:
    await change(api, workspace.member, FOLLOW, id=workspace.general)
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    hidden = [(workspace.general, workspace.member), (workspace.general, workspace.outsider)]
    for channel, user in [*hidden, (workspace.staff, workspace.owner), (workspace.staff, workspace.other)]:
        assert (await api.data(user, MEMBERS, id=channel))["channel"] is None
    # Followers stay followers while they do not see the channel: memberCount counts them.
    assert await members_of(api, workspace.owner, workspace.general) == [workspace.member]


async def test_a_channel_that_was_left_shows_no_members(api: Api, workspace: SampleChannels) -> None:
    leave = """mutation ($id: ID!) { followChannel(channelId: $id, follow: false) {
        members { edges { node { nickname } } pageInfo { hasNextPage } } } }"""
    left = (await api.data(workspace.member, leave, id=workspace.staff))["followChannel"]
    assert left["members"] == {"edges": [], "pageInfo": {"hasNextPage": False}}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"first": 0}, "first"), ({"first": 101}, "first"), ({"after": "x"}, "after"), ({"query": "q" * 101}, "query")],
)
async def test_invalid_arguments_are_refused(
    api: Api, workspace: SampleChannels, arguments: dict[str, Any], field: str
) -> None:
    refusal = await api.expect_refusal(workspace.member, MEMBERS, id=workspace.general, **arguments)
    assert refusal == Refusal("INVALID_INPUT", field)


async def test_a_cursor_of_another_list_is_refused(api: Api, workspace: SampleChannels) -> None:
    listed = "query ($id: ID!) { workspace(id: $id) { members(first: 1) { edges { cursor } } } }"
    edges = (await api.data(workspace.owner, listed, id=workspace.id))["workspace"]["members"]["edges"]
    refusal = await api.expect_refusal(workspace.owner, MEMBERS, id=workspace.general, after=edges[0]["cursor"])
    assert refusal == Refusal("INVALID_INPUT", "after")


@pytest.mark.usefixtures("reading")
async def test_rows_that_are_read_cost_units(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[UserId, int]] = []
    monkeypatch.setattr(api.services.app.work, "take", lambda user, units: taken.append((user, units)))
    await members_of(api, workspace.moderator, workspace.staff)
    paid = [units for user, units in taken if user == workspace.moderator and units <= 2 * 5]
    assert paid in ([2 * 2], [2 * 5])
