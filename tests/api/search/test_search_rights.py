"""Searches find what the caller may read at this moment, and reveal nothing about other messages."""

from __future__ import annotations

import pytest

from store.workspaces.permissions import Permission
from tests.api.broadcast.calls import broadcast
from tests.api.channels.follow_calls import interrupt
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api, Refusal, private_id
from tests.api.sample_channels import SampleChannels
from tests.api.search.calls import found, refused, search, wait_until_indexed
from tests.api.search.conftest import Settle
from tests.api.session_calls import DELETE
from tests.api.threads.calls import FOLLOW as FOLLOW_THREAD
from tests.api.threads.live_calls import make_thread

HIDDEN = Refusal("NOT_FOUND", "conversationIds", False)


async def test_conversations_of_others_are_not_found(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, await one_user(api))
    await api.send(alice, bob, "tea")
    await api.send(alice, group, "tea")
    await settle()
    assert await found(api, carol, "tea") == []
    assert await found(api, carol, "tea", senderIds=[alice]) == []
    for hidden in (private_id(alice, bob), group):
        assert await refused(api, carol, "tea", conversationIds=[hidden]) == HIDDEN


async def test_members_find_messages_of_their_own_intervals(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, await one_user(api))
    await api.send(alice, group, "tea before")
    await api.invite(alice, group, carol)
    await api.send(alice, group, "tea during")
    await api.leave(carol, group)
    await api.send(alice, group, "tea between")
    await api.invite(alice, group, carol)
    await api.send(alice, group, "tea again")
    await settle()
    assert await found(api, carol, "tea") == ["tea again", "tea during"]
    assert await found(api, carol, "tea", conversationIds=[group]) == ["tea again", "tea during"]
    page = await search(api, carol, "tea", first=2)
    assert (page["totalAtLeast"], page["pageInfo"]["hasNextPage"]) == (2, False)
    assert len(await found(api, bob, "tea")) == 4


async def test_members_of_a_group_with_full_history_find_everything(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, await one_user(api), historyVisibility="FULL")
    await api.send(alice, group, "tea before")
    await api.invite(alice, group, carol)
    await settle()
    assert await found(api, carol, "tea") == ["tea before"]
    await api.update_group(alice, group, historyVisibility="SINCE_JOIN")
    assert await found(api, carol, "tea") == []


@pytest.mark.parametrize("departure", ["left", "removed"])
async def test_a_group_that_the_caller_left_is_searched_only_when_named(
    api: Api, settle: Settle, departure: str
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group, "tea before")
    await (api.leave(carol, group) if departure == "left" else api.remove(alice, group, carol))
    await api.send(alice, group, "tea after")
    await settle()
    assert await found(api, carol, "tea") == []
    assert await found(api, carol, "tea", conversationIds=[group]) == ["tea before"]


async def test_a_group_that_has_ended_is_searched_only_when_named(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    dissolved, dismissed = [await api.create_group(alice, bob, carol) for _ in range(2)]
    for group in (dissolved, dismissed):
        await api.send(alice, group, "tea")
    await settle()
    await api.dissolve(alice, dissolved)
    await api.dismiss(alice, dismissed)
    assert await found(api, bob, "tea") == []
    assert await found(api, bob, "tea", conversationIds=[dissolved]) == ["tea"]
    assert await refused(api, bob, "tea", conversationIds=[dismissed]) == HIDDEN


async def test_a_deleted_session_is_searched_only_when_named(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "tea")
    conversation = private_id(alice, bob)
    await settle()
    await api.data(bob, DELETE, id=conversation, hard=False)
    assert await found(api, bob, "tea") == []
    assert await found(api, bob, "tea", conversationIds=[conversation]) == ["tea"]
    await api.send(alice, bob, "more tea")
    assert await found(api, bob, "tea") == ["more tea", "tea"]


async def test_conversations_in_a_sub_biz_are_searched(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "tea in the shop", subBiz="shop")
    await settle()
    assert await found(api, bob, "tea") == ["tea in the shop"]
    assert await found(api, bob, "tea", conversationIds=[private_id(alice, bob, "shop")]) == ["tea in the shop"]


async def test_channels_are_searched_if_followed_or_named(api: Api, workspace: SampleChannels, settle: Settle) -> None:
    general, staff = workspace.general, workspace.staff
    await api.send(workspace.other, general, "tea in general")
    await api.send(workspace.moderator, staff, "tea of the staff")
    await settle()
    for user in (workspace.member, workspace.other):
        assert await found(api, user, "tea", conversationIds=[general]) == ["tea in general"]
    assert await found(api, workspace.member, "tea") == []
    await api.data(workspace.member, FOLLOW, id=general)
    assert await found(api, workspace.member, "tea") == ["tea in general"]
    both = await found(api, workspace.member, "tea", conversationIds=[staff, general])
    assert both == ["tea of the staff", "tea in general"]
    for hidden in (general, staff):
        assert await refused(api, workspace.outsider, "tea", conversationIds=[hidden]) == HIDDEN
    assert await refused(api, workspace.other, "tea", conversationIds=[staff]) == HIDDEN


@pytest.mark.parametrize("denied", [Permission.READ_HISTORY, Permission.VIEW_CHANNEL])
async def test_a_channel_without_rights_is_not_searched(
    api: Api, workspace: SampleChannels, settle: Settle, denied: Permission
) -> None:
    general, user = workspace.general, workspace.member
    await api.data(user, FOLLOW, id=general)
    message = (await api.send(workspace.other, general, "tea"))["message"]["id"]
    thread = (await api.send(user, message, "tea in the thread"))["message"]["conversationId"]
    await settle()
    assert await found(api, user, "tea") == ["tea in the thread", "tea"]
    await workspace.overwrite(general, user, denied)
    assert await found(api, user, "tea") == []
    assert await found(api, user, "tea", workspaceId=workspace.id) == []
    for named in (general, thread):
        if denied is Permission.VIEW_CHANNEL or named == thread:
            assert await refused(api, user, "tea", conversationIds=[named]) == HIDDEN
        else:
            assert await found(api, user, "tea", conversationIds=[named]) == []


async def test_a_workspace_that_the_caller_left_is_not_searched(
    api: Api, workspace: SampleChannels, settle: Settle
) -> None:
    user = workspace.member
    await api.data(user, FOLLOW, id=workspace.general)
    await api.send(user, workspace.general, "tea")
    await settle()
    assert await found(api, user, "tea", workspaceId=workspace.id) == ["tea"]
    await workspace.remove(user)
    assert await found(api, user, "tea") == []
    assert await refused(api, user, "tea", conversationIds=[workspace.general]) == HIDDEN
    gone = Refusal("NOT_FOUND", "workspaceId", False)
    assert await refused(api, user, "tea", workspaceId=workspace.id) == gone
    assert await refused(api, workspace.outsider, "tea", workspaceId=workspace.id) == gone


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_threads_are_searched_if_followed_or_named(api: Api, settle: Settle, kind: str) -> None:
    place = await make_thread(api, kind)
    await api.send(place.second, place.id, "tea in the thread")
    await settle()
    reader = place.third
    await api.data(reader, FOLLOW_THREAD, id=place.id, on=False)
    assert await found(api, reader, "tea") == []
    assert await found(api, reader, "tea", conversationIds=[place.id]) == ["tea in the thread"]
    await api.data(reader, FOLLOW_THREAD, id=place.id)
    assert await found(api, reader, "tea") == ["tea in the thread"]
    (stranger,) = await api.create_users("stranger")
    assert await refused(api, stranger, "tea", conversationIds=[place.id]) == HIDDEN


async def test_threads_end_with_the_right_to_their_conversation(api: Api, settle: Settle) -> None:
    place = await make_thread(api, "group")
    await api.send(place.third, place.id, "tea")
    await settle()
    assert await found(api, place.third, "tea") == ["tea"]
    await api.remove(place.first, place.conversation, place.third)
    await api.send(place.second, place.id, "tea for others")
    await settle()
    assert await found(api, place.third, "tea") == []
    assert await found(api, place.third, "tea", conversationIds=[place.id]) == ["tea"]


async def test_a_reply_and_its_copy_are_one_result(api: Api, settle: Settle) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place, "tea")
    await api.data(place.first, FOLLOW_THREAD, id=place.id)
    await settle()
    for user in (place.first, place.second):
        (edge,) = (await search(api, user, "tea"))["edges"]
        assert edge["node"]["id"] == made.copy["id"] and edge["node"]["broadcastOf"] == {"id": made.reply["id"]}
        page = await search(api, user, "tea", first=1)
        assert (page["totalAtLeast"], page["pageInfo"]["hasNextPage"]) == (1, False)
        rest = await search(api, user, "tea", first=1, cursor=page["pageInfo"]["endCursor"])
        assert (rest["edges"], rest["totalAtLeast"]) == ([], 1)
        (edge,) = (await search(api, user, "tea", inThreads=True))["edges"]
        assert edge["node"]["id"] == made.reply["id"]
        (edge,) = (await search(api, user, "tea", conversationIds=[place.id]))["edges"]
        assert edge["node"]["id"] == made.reply["id"]
        (edge,) = (await search(api, user, "tea", inThreads=False))["edges"]
        assert edge["node"]["id"] == made.copy["id"]
    await api.edit(place.second, made.reply["id"], "coffee")
    await settle()
    assert await found(api, place.first, "tea") == []
    assert await found(api, place.first, "coffee") == ["coffee"]
    await api.recall(place.second, made.reply["id"])
    assert await found(api, place.first, "coffee") == []


async def test_a_copy_mentions_the_same_people_as_its_reply(api: Api, settle: Settle) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place, "tea", mentions=[place.third])
    await settle()
    (edge,) = (await search(api, place.third, "tea", mentionsMe=True, inThreads=False))["edges"]
    assert edge["node"]["id"] == made.copy["id"]


async def one_user(api: Api) -> str:
    (user,) = await api.create_users("other")
    return user


async def test_a_message_sent_after_the_caller_was_removed_during_a_search_is_not_found(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    index = api.services.app.store.search_index
    for filters, expected in ((True, ["tea before"]), (False, [])):
        group = await api.create_group(alice, bob, carol, await one_user(api))
        await api.send(alice, group, "tea before")
        await wait_until_indexed(api)

        async def remove_and_send(group: str = group) -> None:
            await api.remove(alice, group, carol)
            await api.send(alice, group, "tea after")
            await wait_until_indexed(api)

        with monkeypatch.context() as patch:
            interrupt(patch, index, "propose", remove_and_send, after=False)
            named = {"conversationIds": [group]} if filters else {}
            page = await search(api, carol, "tea", **named)
        assert [edge["node"]["content"] for edge in page["edges"]] == expected
