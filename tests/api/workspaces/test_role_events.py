"""Subscribers of a workspace learn at once what a change of rights means for them."""

from __future__ import annotations

import pytest

from tests.api.channels.test_workspace_events import live
from tests.api.client import Api, Subscriber
from tests.api.workspaces.calls import add_members, create_workspace
from tests.api.workspaces.role_calls import (
    DELETE_ROLE,
    UPDATE_ROLE,
    add_channel,
    create_role,
    everyone,
    overwrite,
    permissions_in,
    set_roles,
)


class Watched:
    """A workspace of Alice with Bob, who watches it on another server, and Carol."""

    alice: str
    bob: str
    carol: str
    workspace: str
    channel: str
    stream: Subscriber
    carols: Subscriber

    async def create(self, api: Api, other_api: Api) -> Watched:
        self.alice, self.bob, self.carol = await api.create_users("alice", "bob", "carol")
        self.workspace = await create_workspace(api, self.alice)
        await add_members(api, self.workspace, self.bob, self.carol)
        self.channel = await add_channel(api, self.workspace)
        self.stream, _ = await live(other_api, self.bob, self.workspace)
        self.carols, _ = await live(other_api, self.carol, self.workspace)
        return self


@pytest.fixture
async def watched(api: Api, other_api: Api) -> Watched:
    return await Watched().create(api, other_api)


async def test_members_learn_that_roles_have_changed(watched: Watched, api: Api) -> None:
    role = await create_role(api, watched.alice, watched.workspace, "guide")
    await api.data(watched.alice, UPDATE_ROLE, id=role, input={"color": "#123456"})
    await api.data(watched.alice, DELETE_ROLE, id=role)
    for stream in (watched.stream, watched.carols):
        for _ in range(3):
            event = await stream.next()
            assert (event["__typename"], event["workspace"]["id"]) == ("WorkspaceChanged", watched.workspace)
        await stream.expect_no_event()


async def test_a_member_learns_of_new_roles_and_others_do_not(watched: Watched, api: Api) -> None:
    role = await create_role(api, watched.alice, watched.workspace, "guide")
    for stream in (watched.stream, watched.carols):
        await stream.next()
    await set_roles(api, watched.alice, watched.workspace, watched.bob, role)
    event = await watched.stream.next()
    while event["__typename"] == "WorkspaceChanged":
        event = await watched.stream.next()
    assert (event["__typename"], event["member"]["user"]["id"]) == ("OwnMembershipChanged", watched.bob)
    assert "OwnMembershipChanged" not in {event["__typename"] for event in watched.carols.pop_events()}
    await set_roles(api, watched.alice, watched.workspace, watched.bob, role)
    await watched.stream.expect_no_event()


async def test_a_channel_disappears_for_those_who_may_not_see_it_any_more(
    watched: Watched, api: Api, other_api: Api
) -> None:
    await overwrite(api, watched.alice, channel=watched.channel, user=watched.bob, deny=["VIEW_CHANNEL"])
    assert (await watched.stream.next())["__typename"] == "ChannelGone"
    assert await permissions_in(other_api, watched.bob, watched.channel) is None
    assert {event["__typename"] for event in watched.carols.pop_events()} <= {"ChannelChanged"}
    await overwrite(api, watched.alice, channel=watched.channel, user=watched.bob)
    event = await watched.stream.next()
    assert (event["__typename"], event["channel"]["id"]) == ("ChannelChanged", watched.channel)
    # By the role of everyone.
    await api.data(watched.alice, UPDATE_ROLE, id=everyone(watched.workspace), input={"permissions": []})
    kinds = {(await watched.stream.next())["__typename"] for _ in range(2)}
    assert kinds == {"WorkspaceChanged", "ChannelGone"}


async def test_a_role_shows_and_hides_channels_to_the_member_who_gets_or_loses_it(watched: Watched, api: Api) -> None:
    role = await create_role(api, watched.alice, watched.workspace, "guide")
    await overwrite(
        api, watched.alice, channel=watched.channel, role=everyone(watched.workspace), deny=["VIEW_CHANNEL"]
    )
    await overwrite(api, watched.alice, channel=watched.channel, role=role, allow=["VIEW_CHANNEL"])
    seen = []
    while "ChannelGone" not in seen:
        seen.append((await watched.stream.next())["__typename"])
    for given, expected in (([role], "ChannelChanged"), ([], "ChannelGone")):
        watched.stream.pop_events()
        await set_roles(api, watched.alice, watched.workspace, watched.bob, *given)
        kinds = {(await watched.stream.next())["__typename"] for _ in range(2)}
        assert kinds == {"OwnMembershipChanged", expected}
