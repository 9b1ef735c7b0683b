"""The life of a thread: the first reply makes it, and it is read like a conversation."""

from __future__ import annotations

from tests.api.client import EDIT, RECALL, Api, Refusal, private_id
from tests.api.threads.calls import contents, find_thread, list_threads, thread_of


async def test_the_first_reply_in_a_private_conversation_makes_the_thread(api: Api) -> None:
    anna, ben = await api.create_users("anna", "ben")
    parent = (await api.send(anna, ben, "  Where\n shall we   meet? "))["message"]
    thread = thread_of(parent)
    assert await find_thread(api, ben, thread) is None
    sent = await api.send(ben, parent["id"], "at the lake")
    assert sent["message"]["conversationId"] == thread and sent["message"]["seq"] == 1
    found = await find_thread(api, anna, thread)
    assert found is not None
    assert found | {"lastReplyAt": None} == {
        "id": thread,
        "type": "THREAD",
        "title": "Where shall we meet?",
        "replyCount": 1,
        "participantCount": 1,
        "participants": [{"id": ben}],
        "lastReplyAt": None,
        "followerCount": 1,
        "isLocked": False,
        "parent": {"id": parent["id"]},
        "lastMessage": {"id": sent["message"]["id"], "content": "at the lake"},
        "viewerFollows": False,
    }
    assert found["lastReplyAt"] == sent["message"]["createdAt"]
    await api.send(anna, sent["message"]["id"], "fine")
    await api.send(anna, thread, "at eight?")
    assert await contents(api, ben, thread) == ["at the lake", "fine", "at eight?"]
    found = await find_thread(api, anna, thread)
    assert found is not None
    assert (found["replyCount"], found["participantCount"], found["viewerFollows"]) == (3, 2, True)
    assert [user["id"] for user in found["participants"]] == [anna, ben]
    assert await list_threads(api, ben, private_id(anna, ben)) == [thread]
    assert await contents(api, ben, private_id(anna, ben)) == ["  Where\n shall we   meet? "]


async def test_replies_are_edited_and_recalled_like_messages_of_the_parent_conversation(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    parent = (await api.send(ben, group, "parent"))["message"]
    replies = [(await api.send(cleo, parent["id"], f"reply {number}"))["message"]["id"] for number in range(3)]
    assert await api.expect_refusal(ben, EDIT, id=replies[0], content="x") == Refusal("FORBIDDEN", "messageId")
    assert await api.expect_refusal(ben, RECALL, id=replies[0]) == Refusal("FORBIDDEN", "messageId")
    assert (await api.edit(cleo, replies[0], "edited"))["content"] == "edited"
    for by in (cleo, anna):
        # A repetition counts once.
        for _ in range(2):
            await api.recall(by, replies[2 if by == cleo else 1])
    found = await find_thread(api, ben, thread_of(parent))
    assert found is not None
    assert (found["replyCount"], found["participantCount"], found["lastMessage"]["content"]) == (1, 1, None)
    await api.wait_until_idle()
    assert api.database["conversations"].find_one({"_id": thread_of(parent)})["x"] == 2
    await api.recall(anna, parent["id"])
    found = await find_thread(api, cleo, thread_of(parent))
    assert found is not None and (found["title"], found["replyCount"]) == ("Thread", 1)
    await api.send(cleo, parent["id"], "the thread goes on")
    assert len(await contents(api, ben, thread_of(parent))) == 4


async def test_no_thread_begins_under_a_recalled_message(api: Api) -> None:
    anna, ben = await api.create_users("anna", "ben")
    parent = (await api.send(anna, ben, "parent"))["message"]
    await api.recall(anna, parent["id"])
    before = await api.stored_hashes()
    assert await api.expect_send_refusal(ben, parent["id"]) == Refusal("INVALID_INPUT", "threadOf")
    assert await api.stored_hashes() == before
