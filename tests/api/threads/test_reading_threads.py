"""Reading threads: a thread is readable as its parent conversation is, by seq and never by time."""

from __future__ import annotations

from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal
from tests.api.conftest import Deployments
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.calls import FOLLOW, LIST, LOCK, contents, find_thread, list_threads, thread_of

NODE = "query ($id: ID!) { node(id: $id) { id } }"
MESSAGE = "query ($id: ID!) { message(id: $id) { id replyTo { id } thread { id replyCount } } }"


async def test_former_members_see_a_thread_as_it_was_when_they_left(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(anna, group, "parent"))["message"]
    thread = thread_of(parent)
    first = (await api.send(ben, parent["id"], "first"))["message"]
    await api.send(cleo, parent["id"], "second")
    await api.leave(cleo, group)
    later = (await api.send(ben, parent["id"], "later", replyToId=first["id"]))["message"]
    assert await contents(api, cleo, thread) == ["first", "second"]
    seen = await find_thread(api, cleo, thread)
    assert seen is not None
    assert (seen["replyCount"], seen["participantCount"], seen["lastMessage"]["content"]) == (2, 2, "second")
    assert [user["id"] for user in seen["participants"]] == [cleo, ben] and seen["followerCount"] == 2
    assert (
        seen["lastReplyAt"]
        == (
            await api.data(
                cleo,
                "query ($id: ID!) { message(id: $id) { createdAt } }",
                id=(await api.history(cleo, thread))[-1]["id"],
            )
        )["message"]["createdAt"]
    )
    for query in (NODE, MESSAGE):
        assert list((await api.data(cleo, query, id=later["id"])).values()) == [None]
    found = (await api.data(ben, MESSAGE, id=later["id"]))["message"]
    assert found["replyTo"] == {"id": first["id"]} and found["thread"] == {"id": thread, "replyCount": 3}
    shown = (await api.data(cleo, MESSAGE, id=parent["id"]))["message"]["thread"]
    assert shown == {"id": thread, "replyCount": 2}


async def test_members_who_were_away_in_between_miss_the_replies_of_that_time(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(anna, group, "parent"))["message"]
    thread = thread_of(parent)
    for number in range(3):
        await api.send(ben, parent["id"], f"before {number}")
    await api.leave(cleo, group)
    for number in range(3):
        await api.send(ben, parent["id"], f"away {number}")
    await api.invite(anna, group, cleo)
    await api.send(ben, group, "meanwhile")
    for number in range(3):
        await api.send(ben, parent["id"], f"after {number}")
    kept = [f"before {number}" for number in range(3)] + [f"after {number}" for number in range(3)]
    assert await contents(api, cleo, thread) == kept
    seen = await find_thread(api, cleo, thread)
    assert seen is not None and seen["replyCount"] == 6
    hidden = (await api.send(anna, group, "sent while away"))["message"]
    assert await contents(api, anna, thread) == [*kept[:3], "away 0", "away 1", "away 2", *kept[3:]]
    await api.update_group(anna, group, historyVisibility="FULL")
    assert len(await contents(api, cleo, thread)) == 9
    assert hidden["conversationId"] == group


async def test_threads_under_messages_that_are_not_visible_do_not_exist(api: Api) -> None:
    anna, ben, cleo, dan, eve = await api.create_users("anna", "ben", "cleo", "dan", "eve")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(anna, group, "parent"))["message"]
    reply = (await api.send(ben, parent["id"], "reply"))["message"]
    await api.invite(anna, group, dan)
    visible = (await api.send(anna, group, "visible"))["message"]
    await api.send(ben, visible["id"], "reply")
    assert await list_threads(api, dan, group) == [thread_of(visible)]
    assert await list_threads(api, ben, group) == [thread_of(visible), thread_of(parent)]
    for stranger in (dan, eve):
        assert await find_thread(api, stranger, thread_of(parent)) is None
        assert (await api.data(stranger, NODE, id=thread_of(parent)))["node"] is None
        assert (await api.data(stranger, MESSAGE, id=reply["id"]))["message"] is None
        for to in (parent["id"], reply["id"], thread_of(parent)):
            before = await api.stored_hashes()
            refusal = await api.expect_send_refusal(stranger, to)
            field = "conversationId" if to.startswith("t_") else "threadOf"
            assert refusal == Refusal("NOT_FOUND", field), (stranger, to)
            assert await api.stored_hashes() == before
    assert await api.expect_refusal(eve, LIST, id=group) == Refusal("NOT_FOUND", "conversationId")


async def test_threads_of_channels_follow_the_rights_in_the_channel(api: Api) -> None:
    sample = await create_sample_channels(api)
    parent = (await api.send(sample.member, sample.general, "parent"))["message"]
    thread = thread_of(parent)
    reply = (await api.send(sample.other, parent["id"], "reply"))["message"]
    assert await contents(api, sample.member, thread) == ["reply"]
    assert await find_thread(api, sample.outsider, thread) is None
    assert await list_threads(api, sample.other, sample.general) == [thread]
    await sample.overwrite(sample.general, sample.other, Permission.VIEW_CHANNEL)
    assert await find_thread(api, sample.other, thread) is None
    assert (await api.data(sample.other, MESSAGE, id=reply["id"]))["message"] is None
    await sample.overwrite(sample.general, sample.other, Permission.READ_HISTORY)
    assert await find_thread(api, sample.other, thread) is None
    assert await api.expect_send_refusal(sample.other, thread) == Refusal("NOT_FOUND", "conversationId")
    assert await api.expect_send_refusal(sample.other, parent["id"]) == Refusal("NOT_FOUND", "threadOf")
    edited = await api.edit(sample.other, reply["id"], "edited without READ_HISTORY")
    assert edited["content"] == "edited without READ_HISTORY"


async def test_dismissed_groups_have_no_threads_and_dissolved_ones_keep_them(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    for end, kept in ((api.dismiss, False), (api.dissolve, True)):
        group = await api.create_group(anna, ben, cleo)
        parent = (await api.send(anna, group, "parent"))["message"]
        await api.send(ben, parent["id"], "reply")
        await end(anna, group)
        assert (await find_thread(api, ben, thread_of(parent)) is not None) is kept
        code = "NOT_A_MEMBER" if kept else "NOT_FOUND"
        assert await api.expect_send_refusal(ben, parent["id"]) == Refusal(code, "threadOf")
        assert await api.expect_send_refusal(ben, thread_of(parent)) == Refusal(code, "conversationId")


async def test_threads_are_listed_by_latest_reply_in_pages(api: Api) -> None:
    anna, ben = await api.create_users("anna", "ben")
    parents = [(await api.send(anna, ben, f"parent {number}"))["message"] for number in range(5)]
    for parent in parents:
        await api.send(ben, parent["id"], "reply")
    conversation = parents[0]["conversationId"]
    threads = [thread_of(parent) for parent in parents[::-1]]
    page = (await api.data(anna, LIST, id=conversation, first=2))["threads"]
    assert [edge["node"]["id"] for edge in page["edges"]] == threads[:2] and page["pageInfo"]["hasNextPage"]
    # The last thread moves to the beginning. The pages after the first one repeat nothing.
    await api.send(ben, threads[0], "newest")
    after = page["pageInfo"]["endCursor"]
    rest = (await api.data(anna, LIST, id=conversation, first=50, after=after))["threads"]
    assert [edge["node"]["id"] for edge in rest["edges"]] == threads[2:] and not rest["pageInfo"]["hasNextPage"]
    await api.send(ben, threads[4], "to the top")
    assert await list_threads(api, anna, conversation) == [threads[4], *threads[:4]]
    assert await list_threads(api, anna, threads[0]) == []
    assert await api.expect_refusal(anna, LIST, id=conversation, first=0) == Refusal("INVALID_INPUT", "first")
    assert await api.expect_refusal(anna, LIST, id=conversation, after="x") == Refusal("INVALID_INPUT", "after")


async def test_the_list_of_threads_tells_nothing_of_replies_that_are_not_readable(api: Api, other_api: Api) -> None:
    anna, ben, cleo, dan = await api.create_users("anna", "ben", "cleo", "dan")
    group = await api.create_group(anna, ben, cleo, dan)
    parents = [(await api.send(anna, group, f"parent {number}"))["message"] for number in range(4)]
    threads = [thread_of(parent) for parent in parents]
    for parent in parents[:3]:
        await api.send(ben, parent["id"], "reply")
    for user in (cleo, dan):
        await api.leave(user, group)
    seen = await api.data(cleo, LIST, id=group, first=2)
    assert [edge["node"]["id"] for edge in seen["threads"]["edges"]] == [threads[2], threads[1]]
    await api.send(ben, threads[0], "not for cleo and dan")
    await api.send(ben, parents[3]["id"], "a thread that neither sees")
    await api.data(anna, LOCK, id=threads[1])
    assert await other_api.data(cleo, LIST, id=group, first=2) == seen
    after = seen["threads"]["pageInfo"]["endCursor"]
    rest = (await api.data(cleo, LIST, id=group, first=2, after=after))["threads"]
    assert [edge["node"]["id"] for edge in rest["edges"]] == [threads[0]] and not rest["pageInfo"]["hasNextPage"]
    # A person who is a member again sees the thread that has a reply since then, and nothing about the others.
    await api.invite(anna, group, dan)
    await api.send(anna, threads[1], "for dan")
    newest = (await api.send(anna, group, "newest"))["message"]
    await api.send(ben, newest["id"], "for dan")
    assert await list_threads(api, dan, group) == [thread_of(newest), *(threads[number] for number in (1, 3, 2, 0))]
    assert await list_threads(api, ben, group) == [thread_of(newest), *(threads[number] for number in (1, 3, 0, 2))]


async def test_threads_are_read_from_mongodb_after_redis_was_flushed(api: Api, deployments: Deployments) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(anna, group, "parent"))["message"]
    for user in (ben, cleo, ben):
        await api.send(user, parent["id"], f"by {user}")
    before = await find_thread(api, anna, thread_of(parent))
    await api.wait_until_idle()
    deployments.flush_redis("main")
    after = await find_thread(api, anna, thread_of(parent))
    assert after == before and after is not None and after["replyCount"] == 3
    assert [user["id"] for user in after["participants"]] == [ben, cleo]


async def test_followers_who_cannot_read_the_parent_message_any_more_get_nothing(api: Api) -> None:
    anna, ben, cleo, dan = await api.create_users("anna", "ben", "cleo", "dan")
    group = await api.create_group(anna, ben, cleo, historyVisibility="FULL")
    parent = (await api.send(anna, group, "parent"))["message"]
    thread = thread_of(parent)
    await api.send(ben, parent["id"], "first")
    await api.invite(anna, group, dan)
    await api.data(dan, FOLLOW, id=thread)
    device = await api.listen(dan)
    await api.send(ben, thread, "dan sees this")
    assert (await device.next())["message"]["content"] == "dan sees this"
    await api.update_group(anna, group, historyVisibility="SINCE_JOIN")
    assert await find_thread(api, dan, thread) is None
    await device.next()
    await api.send(ben, thread, "dan does not see this", mentions=[cleo])
    await device.expect_no_event()
    assert thread not in await api.all_sessions(dan)
    query = "query ($id: ID!) { session(conversationId: $id) { status conversation { title } } }"
    hidden = (await api.data(dan, query, id=thread))["session"]
    assert hidden == {"status": "INVALID", "conversation": {"title": "Thread"}}
    await api.update_group(anna, group, historyVisibility="FULL")
    assert await contents(api, dan, thread) == ["first", "dan sees this", "dan does not see this"]
