"""All conversations are found in which a user is, was, or has written."""

from __future__ import annotations

import pytest

from store.base.ids import ConversationId, UserId
from tests.api.channels.calls import make_workspace
from tests.api.client import Api, private_id
from tests.api.threads.calls import FOLLOW, thread_of
from tests.api.workspaces.calls import LEAVE as LEAVE_WORKSPACE


async def list_all(api: Api, user: str, page: int) -> list[str]:
    found: list[ConversationId] = []
    store = api.services.app.store
    while part := await store.user_conversations.list_after(UserId(user), found[-1] if found else None, page):
        assert len(part) <= page
        found += part
    return [str(each) for each in found]


@pytest.mark.parametrize("page", [1, 2, 100])
async def test_present_and_former_conversations_are_found_in_pages(api: Api, page: int) -> None:
    ann, bob, cid = await api.create_users("ann", "bob", "cid")
    await api.send(ann, bob)
    await api.send(cid, ann, subBiz="support")
    present, former, dismissed = [await api.create_group(bob, ann, cid) for _ in range(3)]
    await api.leave(ann, former)
    await api.dismiss(bob, dismissed)
    await api.send(bob, cid)
    private = {private_id(ann, bob), f"{private_id(ann, cid)}~support"}
    found = await list_all(api, ann, page)
    assert len(found) == len(set(found))
    assert set(found) == private | {present, former, dismissed}


async def test_channels_and_threads_are_found_after_the_user_left_the_workspace(api: Api) -> None:
    made = await make_workspace(api)
    written, unread = [(await made.create(name))["id"] for name in ("written", "unread")]
    first = (await api.send(made.owner, written))["message"]
    await api.send(made.member, written)
    thread = thread_of(first)
    await api.send(made.member, first["id"], "a reply")
    await api.data(made.member, FOLLOW, id=thread, on=False)
    await api.data(made.member, LEAVE_WORKSPACE, id=made.id)
    found = await list_all(api, made.member, 2)
    assert set(found) == {thread, written}
    assert unread not in found, "nothing was followed, read or written there"
    store = api.services.app.store
    assert await store.user_conversations.list_workspaces(UserId(made.member)) == [made.id]
    assert await store.user_conversations.list_workspaces(UserId(made.outsider)) == []


async def test_conversations_of_users_with_similar_ids_are_not_mixed(api: Api) -> None:
    ann, bob, cid = await api.create_users("ann", "bob", "cid")
    longer = f"{ann}!x"
    group = await api.create_group(longer, bob, cid)
    assert await list_all(api, ann, 10) == []
    assert await list_all(api, longer, 10) == [group]
