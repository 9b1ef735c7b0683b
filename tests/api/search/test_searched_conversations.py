"""The conversations that searches without names go through, if there are more than the limit."""

from __future__ import annotations

import pytest

from resolvers.search import search_scope
from store.base.ids import UserId
from store.search.searched_conversations import list_searched
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api, private_id
from tests.api.sample_channels import SampleChannels
from tests.api.search.calls import search
from tests.api.threads.calls import thread_of


async def test_the_most_recently_active_conversations_are_searched(api: Api, workspace: SampleChannels) -> None:
    user, sessions = UserId(workspace.member), api.services.app.store.sessions
    others = await api.create_users("ann", "ben", "cleo", "dora")
    first = (await api.send(others[0], user))["message"]
    await api.send(others[1], user, subBiz="shop")
    await api.send(others[2], user)
    await api.data(user, FOLLOW, id=workspace.general)
    reply = (await api.send(user, first["id"]))["message"]
    in_channel = (await api.send(workspace.other, workspace.general))["message"]
    await api.send(user, in_channel["id"])
    await api.send(others[3], user, subBiz="shop")
    oldest_first = [
        private_id(others[0], user), private_id(others[1], user, "shop"), private_id(others[2], user),
        workspace.general, reply["conversationId"], thread_of(in_channel), private_id(others[3], user, "shop"),
    ]  # fmt: skip
    await api.wait_until_idle()
    for limit in (1, 2, 3, 6, 7, 8):
        listed = await list_searched(sessions, user, limit, None, None)
        assert sorted(listed.conversations) == sorted(oldest_first[-limit:])
        assert listed.is_whole is (limit >= 7)
    assert set((await list_searched(sessions, user, 9, None, True)).conversations) == {*oldest_first[4:6]}
    assert set((await list_searched(sessions, user, 9, None, False)).conversations) == {
        *oldest_first[:4], oldest_first[6]
    }  # fmt: skip
    inside = {workspace.general, thread_of(in_channel)}
    assert set((await list_searched(sessions, user, 9, workspace.id, None)).conversations) == inside
    assert (await list_searched(sessions, user, 9, workspace.id, True)).conversations == [thread_of(in_channel)]
    assert (await list_searched(sessions, user, 9, workspace.id, False)).conversations == [workspace.general]


async def test_a_pinned_session_does_not_displace_active_ones(api: Api) -> None:
    alice, *others = await api.create_users("alice", "ann", "ben", "cleo")
    for other in others:
        await api.send(other, alice)
    await api.pin(alice, private_id(others[0], alice), 5)
    listed = await list_searched(api.services.app.store.sessions, UserId(alice), 2, None, None)
    assert private_id(others[2], alice) in listed.conversations
    assert len(listed.conversations) == 2 and not listed.is_whole


async def test_a_search_that_leaves_conversations_out_is_not_complete(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, ann, ben = await api.create_users("alice", "ann", "ben")
    for other in (ann, ben):
        await api.send(other, alice, "tea")
    monkeypatch.setattr(search_scope, "MOST_CONVERSATIONS", 1)
    page = await search(api, alice, "tea")
    assert [edge["node"]["sender"]["id"] for edge in page["edges"]] == [ben]
    assert not page["complete"] and not page["pageInfo"]["hasNextPage"]
    named = await search(api, alice, "tea", conversationIds=[private_id(alice, ann), private_id(alice, ben)])
    assert len(named["edges"]) == 2 and named["complete"]
