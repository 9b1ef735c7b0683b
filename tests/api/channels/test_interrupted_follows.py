"""Changes of rights between the decision on a follow, a join or a leave, and its transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from resolvers.workspaces.membership import joining
from tests.api.channels.calls import DELETE, Made
from tests.api.channels.follow_calls import interrupt, join, join_openly, leave, rows_of
from tests.api.channels.session_calls import ADD, FOLLOW, change
from tests.api.client import Api
from tests.api.workspaces.calls import UPDATE as UPDATE_WORKSPACE
from tests.api.workspaces.role_calls import SET_OVERWRITE, UPDATE_ROLE, everyone

Change = Callable[[Made, str], Awaitable[object]]


async def turn_private(made: Made, channel: str) -> None:
    await made.update(channel, kind="PRIVATE", isDefault=False)


async def archive(made: Made, channel: str) -> None:
    await made.archive(channel)


async def delete(made: Made, channel: str) -> None:
    await made.api.data(made.owner, DELETE, id=channel)


async def hide(made: Made, channel: str) -> None:
    await made.api.data(made.owner, SET_OVERWRITE, channel=channel, role=everyone(made.id), deny=["VIEW_CHANNEL"])


async def take_permission(made: Made, channel: str) -> None:
    await made.api.data(made.owner, UPDATE_ROLE, id=everyone(made.id), input={"permissions": []})


async def remove_member(made: Made, channel: str) -> None:
    await leave(made, made.member)


@pytest.mark.parametrize(
    ("disturb", "enter"), [(turn_private, join_openly), (delete, join_openly), (turn_private, join), (archive, join)]
)
async def test_new_members_follow_only_channels_that_are_still_default(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch, disturb: Change, enter: Any
) -> None:
    await api.data(made.owner, UPDATE_WORKSPACE, id=made.id, input={"isOpen": True})
    changed, kept = [(await made.create(name, isDefault=True))["id"] for name in ("changed", "kept")]
    with monkeypatch.context() as patch:
        interrupt(patch, joining, "list_default_channels", lambda: disturb(made, changed), after=True)
        await enter(made, made.outsider)
    assert rows_of(api, changed) <= {made.owner} and rows_of(api, kept) == {made.owner, made.outsider}
    if disturb is turn_private:
        assert await made.find(made.outsider, changed) is None
        assert (await api.expect_send_refusal(made.outsider, changed)).code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("disturb", "code"),
    [
        (turn_private, "NOT_FOUND"),
        (archive, "ARCHIVED"),
        (delete, "NOT_FOUND"),
        (hide, "NOT_FOUND"),
        (take_permission, "NOT_FOUND"),
        (remove_member, "NOT_FOUND"),
    ],
)
async def test_nobody_follows_a_channel_under_rights_that_have_ended(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch, disturb: Change, code: str
) -> None:
    channel = (await made.create())["id"]
    device = await api.listen(made.member, "subscription { syncSession { reason reset } }")
    follows = api.services.app.store.channel_follows
    interrupt(monkeypatch, follows, "follow", lambda: disturb(made, channel), after=False)
    assert (await api.expect_refusal(made.member, FOLLOW, id=channel)).code == code
    assert rows_of(api, channel) <= {made.owner}
    await device.expect_no_event()


@pytest.mark.parametrize(
    ("disturb", "code"), [(hide, "NOT_A_MEMBER"), (archive, "ARCHIVED"), (remove_member, "NOT_A_MEMBER")]
)
async def test_users_are_added_under_present_rights(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch, disturb: Change, code: str
) -> None:
    channel = (await made.create())["id"]
    follows = api.services.app.store.channel_follows
    interrupt(monkeypatch, follows, "follow", lambda: disturb(made, channel), after=False)
    assert (await api.expect_refusal(made.owner, ADD, id=channel, users=[made.member])).code == code
    assert rows_of(api, channel) == {made.owner}


async def test_users_become_members_if_the_channel_turns_private_meanwhile(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel, follows = (await made.create())["id"], api.services.app.store.channel_follows
    interrupt(monkeypatch, follows, "follow", lambda: turn_private(made, channel), after=False)
    assert (await change(api, made.owner, ADD, id=channel, users=[made.member]))["memberCount"] == 2
    assert rows_of(api, channel) == {made.owner, made.member}
    assert await made.find(made.member, channel) is not None


@pytest.mark.parametrize("follow", [True, False])
async def test_leaving_ends_what_was_followed_meanwhile(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    channel = (await made.create())["id"]
    if not follow:
        await change(api, made.member, FOLLOW, id=channel)

    async def disturb() -> None:
        await change(api, made.member, FOLLOW, id=channel, follow=follow)

    with monkeypatch.context() as patch:
        interrupt(patch, api.services.app.store.memberships, "find_channels", disturb, after=True)
        await leave(made, made.member)
    assert rows_of(api, channel) == {made.owner}
    await made.update(channel, kind="PRIVATE")
    await join(made, made.member)
    assert await made.find(made.member, channel) is None
    assert rows_of(api, channel) == {made.owner}


async def test_unfollowing_leaves_a_channel_that_turns_private_meanwhile(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = (await made.create())["id"]
    await change(api, made.member, FOLLOW, id=channel)
    follows = api.services.app.store.channel_follows
    interrupt(monkeypatch, follows, "unfollow", lambda: turn_private(made, channel), after=False)
    await change(api, made.member, FOLLOW, id=channel, follow=False)
    assert rows_of(api, channel) == {made.owner}
    assert await made.find(made.member, channel) is None
