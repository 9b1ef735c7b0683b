"""Rights to add, take back and clear reactions. Refused calls change nothing."""

from __future__ import annotations

import pytest

from store.workspaces.permissions import Permission
from tests.api.client import Api, CallerRole, Refusal, make_caller
from tests.api.reactions.calls import (
    ADD,
    CLEAR,
    REACTORS,
    REMOVE,
    clear,
    expect_refusal,
    react,
    reactions_of,
    reactors_of,
    take_back,
)
from tests.api.sample_channels import SampleChannels

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")
FORMER = Refusal("NOT_A_MEMBER", "messageId")
FORBIDDEN = Refusal("FORBIDDEN", "messageId")
ARCHIVED = Refusal("ARCHIVED", "messageId")
RECALLED = Refusal("INVALID_INPUT", "messageId")
ALL = [(ADD, "🎉"), (REMOVE, "👍"), (CLEAR, "👍"), (CLEAR, None)]


async def expect_all_refused(api: Api, user: str, message: str, refusal: Refusal) -> None:
    """Fail unless the user can't add, take back or clear."""
    for query, emoji in ALL:
        await expect_refusal(api, user, query, refusal, id=message, emoji=emoji)


async def test_both_people_of_a_private_conversation_react_and_nobody_clears(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    await react(api, alice, sent)
    assert await react(api, bob, sent) == [("👍", 2, True)]
    for user in (alice, bob):
        await expect_refusal(api, user, CLEAR, FORBIDDEN, id=sent)
    await expect_all_refused(api, carol, sent, NO_MESSAGE)
    await expect_all_refused(api, carol, "m_12", NO_MESSAGE)
    await expect_all_refused(api, carol, "nonsense", NO_MESSAGE)


async def test_members_of_a_group_react_and_moderators_clear(api: Api) -> None:
    owner, admin, member, late = await api.create_users("owner", "admin", "member", "late")
    group = await api.create_group(owner, admin, member)
    await api.set_role(owner, group, admin, "ADMIN")
    sent = (await api.send(owner, group))["message"]["id"]
    await api.invite(owner, group, late)
    for moderator in (owner, admin):
        for user in (owner, admin, member):
            await react(api, user, sent)
        await expect_refusal(api, member, CLEAR, FORBIDDEN, id=sent)
        # The message is from before this member joined.
        await expect_all_refused(api, late, sent, NO_MESSAGE)
        assert await clear(api, moderator, sent) == []


async def test_former_members_see_reactions_and_change_none(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group))["message"]["id"]
    await react(api, bob, sent)
    await api.leave(bob, group)
    await expect_all_refused(api, bob, sent, FORMER)
    assert await reactors_of(api, alice, sent) == await reactors_of(api, bob, sent) == [bob]
    await api.dissolve(alice, group)
    await expect_all_refused(api, alice, sent, FORMER)
    assert await reactions_of(api, carol, sent) == [("👍", 1, False)]


async def test_a_new_emoji_in_a_channel_needs_a_permission(api: Api, workspace: SampleChannels) -> None:
    member, other = workspace.member, workspace.other
    sent = (await api.send(other, workspace.general))["message"]["id"]
    await workspace.overwrite(workspace.general, member, Permission.ADD_REACTIONS)
    await expect_refusal(api, member, ADD, FORBIDDEN, id=sent, emoji="👍")
    await react(api, other, sent)
    assert await react(api, member, sent) == [("👍", 2, True)]
    assert await take_back(api, member, sent) == [("👍", 1, False)]
    await take_back(api, other, sent)
    await expect_refusal(api, member, ADD, FORBIDDEN, id=sent, emoji="👍")


async def test_clearing_in_a_channel_needs_manage_messages(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.other, workspace.general))["message"]["id"]
    await react(api, workspace.other, sent)
    await expect_refusal(api, workspace.member, CLEAR, FORBIDDEN, id=sent)
    await expect_all_refused(api, workspace.outsider, sent, NO_MESSAGE)
    assert await clear(api, workspace.moderator, sent) == []


async def test_an_archived_channel_does_not_change(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]["id"]
    await react(api, workspace.member, sent)
    await workspace.change_channel(workspace.general, is_archived=True)
    for user in (workspace.member, workspace.moderator, workspace.owner):
        await expect_all_refused(api, user, sent, ARCHIVED)
    assert await reactions_of(api, workspace.member, sent) == [("👍", 1, True)]


async def test_messages_that_are_not_readable_do_not_exist(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.other, workspace.general))["message"]["id"]
    await react(api, workspace.other, sent)
    secret = (await api.send(workspace.moderator, workspace.staff))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.moderator, Permission.READ_HISTORY)
    await expect_all_refused(api, workspace.moderator, sent, NO_MESSAGE)
    await expect_all_refused(api, workspace.other, secret, NO_MESSAGE)
    assert await api.expect_refusal(workspace.moderator, REACTORS, id=sent, emoji="👍") == NO_MESSAGE


async def test_a_time_out_ends_the_right_to_add_an_emoji(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.other, workspace.general))["message"]["id"]
    await workspace.set_facts(workspace.member, timed_out_until_ms=4_000_000_000_000)
    await expect_refusal(api, workspace.member, ADD, FORBIDDEN, id=sent, emoji="👍")


async def test_a_recalled_message_shows_no_reactions_and_takes_none(api: Api) -> None:
    owner, bob, carol = await api.create_users("owner", "bob", "carol")
    group = await api.create_group(owner, bob, carol)
    sent = (await api.send(bob, group))["message"]["id"]
    await react(api, carol, sent)
    await api.recall(bob, sent)
    await expect_all_refused(api, owner, sent, RECALLED)
    assert await reactions_of(api, carol, sent) == []
    assert (await api.data(carol, REACTORS, id=sent, emoji="👍"))["reactors"]["edges"] == []


async def test_system_messages_take_reactions(api: Api) -> None:
    owner, bob, carol, dave = await api.create_users("owner", "bob", "carol", "dave")
    group = await api.create_group(owner, bob, carol)
    await api.invite(owner, group, dave)
    announced = (await api.history(bob, group))[0]
    assert announced["contentType"] == "SYSTEM"
    assert await react(api, bob, announced["id"]) == [("👍", 1, True)]


@pytest.mark.parametrize("query", [ADD, REMOVE, CLEAR, REACTORS])
async def test_reactions_need_a_token(api: Api, query: str) -> None:
    variables = {"id": "m_1", "emoji": "👍"}
    assert await api.expect_refusal(None, query, **variables) == Refusal("UNAUTHENTICATED")


async def test_services_react_for_the_user_they_act_for(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    service = make_caller(bob, CallerRole.SERVICE)
    await api.data(service, ADD, id=sent, emoji="👍")
    assert await reactors_of(api, alice, sent) == [bob]
