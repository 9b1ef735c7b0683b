"""Replies: what is refused, and what happens to replies that are sent twice or at the same time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resolvers.users.callers import CallerRole
from store.base.ids import MessageId, UserId
from tests.api.client import SEND, Api, Json, Refusal, gather_all, make_caller, message_input
from tests.api.sample_channels import create_sample_channels
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.threads.calls import FOLLOW, LOCK, contents, find_thread, thread_of

INVALID = "INVALID_INPUT"


@pytest.fixture
async def sample(api: Api) -> SampleGroup:
    return await create_sample_group(api)


async def expect_nothing(api: Api, user: str, input: Json, code: str, field: str | None = None) -> None:
    """Check that a message is refused, and that nothing is stored."""
    before = await api.stored_hashes()
    assert await api.expect_refusal(user, SEND, input=input) == Refusal(code, field)
    assert await api.stored_hashes() == before


async def test_exactly_one_destination_is_given(api: Api, sample: SampleGroup) -> None:
    for more in (
        {"toUserId": "@admin"},
        {"conversationId": "@group"},
        {"toUserId": "@admin", "conversationId": "@group"},
    ):
        input = sample.fill_in({"threadOf": "@message", "content": "x", **more}, sample.member)
        await expect_nothing(api, sample.member, input, INVALID)
    await expect_nothing(api, sample.member, {"content": "x"}, INVALID)
    await expect_nothing(
        api, sample.member, {"threadOf": sample.message, "content": "x", "subBiz": "a"}, INVALID, "subBiz"
    )


async def test_an_unknown_message_has_no_thread(api: Api, sample: SampleGroup) -> None:
    for message in ("", "m_", "m_1", "m_99999999999999999999", "g_1", "x\x00"):
        await expect_nothing(api, sample.member, {"threadOf": message, "content": "x"}, "NOT_FOUND", "threadOf")


async def test_an_unknown_thread_is_not_found(api: Api, sample: SampleGroup) -> None:
    for thread in ("t_", "t_0_@", "t_1_", "t_999_@", "t_1_t_1_@", "t_01_@", "t_1_b_@threads"):
        input = {"conversationId": thread.replace("@", sample.group), "content": "x"}
        await expect_nothing(api, sample.member, input, "NOT_FOUND", "conversationId")


async def test_a_system_message_has_no_thread(api: Api, sample: SampleGroup) -> None:
    history = await api.history(sample.owner, sample.group)
    (announcement, *_) = [message for message in history if message["contentType"] == "SYSTEM"]
    await expect_nothing(api, sample.owner, {"threadOf": announcement["id"], "content": "x"}, INVALID, "threadOf")


async def test_the_thread_of_a_reply_is_the_one_it_is_in(api: Api, sample: SampleGroup) -> None:
    first = (await api.send(sample.member, sample.message, "first"))["message"]
    second = (await api.send(sample.owner, first["id"], "second"))["message"]
    assert second["conversationId"] == first["conversationId"] and second["seq"] == 2


async def test_the_content_of_replies_has_the_limits_of_other_messages(api: Api, sample: SampleGroup) -> None:
    for content in ("", "  ", "x" * 4001, "a\x00b"):
        await expect_nothing(api, sample.member, {"threadOf": sample.message, "content": content}, INVALID, "content")
    input = {"threadOf": sample.message, "content": "x", "contentType": "SYSTEM"}
    await expect_nothing(api, sample.member, input, INVALID, "contentType")


async def test_mentions_and_answers_stay_inside_the_thread(api: Api, sample: SampleGroup) -> None:
    thread = (await api.send(sample.member, sample.message, "first"))["message"]["conversationId"]
    cases: list[tuple[str, Json, str, str]] = [
        (sample.member, {"mentions": [sample.outsider]}, INVALID, "mentions"),
        (sample.member, {"mentions": [sample.left]}, INVALID, "mentions"),
        (sample.member, {"mentionAll": True}, "FORBIDDEN", "mentionAll"),
        (sample.member, {"mentionRoleIds": ["r_1.1"]}, INVALID, "mentionRoleIds"),
        (sample.member, {"replyToId": sample.message}, INVALID, "replyToId"),
        (sample.member, {"replyToId": "m_1"}, INVALID, "replyToId"),
    ]
    for user, more, code, field in cases:
        for to in (thread, sample.message):
            await expect_nothing(api, user, message_input(to, "x", **more), code, field)
    sent = await api.send(
        sample.admin,
        thread,
        "all of you",
        mentionAll=True,
        replyToId=(await api.history(sample.admin, thread))[0]["id"],
    )
    assert sent["message"]["mentionsAll"] is True and sent["message"]["replyTo"]["seq"] == 1


async def test_a_member_who_cannot_read_the_parent_message_cannot_be_mentioned(api: Api, sample: SampleGroup) -> None:
    await api.invite(sample.owner, sample.group, sample.outsider)
    input = {"threadOf": sample.message, "content": "x", "mentions": [sample.outsider]}
    await expect_nothing(api, sample.member, input, INVALID, "mentions")
    later = (await api.send(sample.member, sample.group, "later"))["message"]
    await api.send(sample.member, later["id"], "x", mentions=[sample.outsider])


async def test_in_channels_people_who_cannot_see_the_parent_message_cannot_be_mentioned(api: Api) -> None:
    channels = await create_sample_channels(api)
    parent = (await api.send(channels.moderator, channels.staff, "parent"))["message"]
    input = {"threadOf": parent["id"], "content": "x", "mentions": [channels.other]}
    await expect_nothing(api, channels.moderator, input, INVALID, "mentions")
    for user in (channels.other, channels.outsider):
        await expect_nothing(api, user, {"threadOf": parent["id"], "content": "x"}, "NOT_FOUND", "threadOf")


async def test_in_private_conversations_only_the_two_people_are_mentioned(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    parent = (await api.send(anna, ben, "parent"))["message"]
    base = {"threadOf": parent["id"], "content": "x"}
    await expect_nothing(api, ben, base | {"mentions": [cleo]}, INVALID, "mentions")
    await expect_nothing(api, ben, base | {"mentionAll": True}, INVALID, "mentionAll")
    await expect_nothing(api, cleo, base, "NOT_FOUND", "threadOf")
    await expect_nothing(
        api, cleo, {"conversationId": thread_of(parent), "content": "x"}, "NOT_FOUND", "conversationId"
    )


async def test_the_same_key_stores_one_reply_and_another_input_conflicts(api: Api, sample: SampleGroup) -> None:
    input = {"threadOf": sample.message, "content": "once", "idempotencyKey": f"k {sample.group}"}
    first = (await api.data(sample.member, SEND, input=input))["sendMessage"]
    again = (await api.data(sample.member, SEND, input=input))["sendMessage"]
    by_id = input | {"threadOf": None, "conversationId": first["message"]["conversationId"]}
    same_place = (await api.data(sample.member, SEND, input=by_id))["sendMessage"]
    assert (first["replayed"], again["replayed"], same_place["replayed"]) == (False, True, True)
    assert again["message"] == first["message"] == same_place["message"]
    assert again["session"]["conversation"]["id"] == first["message"]["conversationId"]
    for other in ({"content": "twice"}, {"threadOf": sample.later}):
        await expect_nothing(api, sample.member, input | other, "IDEMPOTENCY_CONFLICT", "idempotencyKey")


async def test_every_call_made_twice_at_once_has_the_effect_of_one(api: Api, sample: SampleGroup) -> None:
    input = {"threadOf": sample.message, "content": "once", "idempotencyKey": f"k {sample.group}"}
    sent = await gather_all(*(api.data(sample.member, SEND, input=input) for _ in range(5)))
    thread = sent[0]["sendMessage"]["message"]["conversationId"]
    assert sorted(each["sendMessage"]["replayed"] for each in sent) == [False, True, True, True, True]
    await gather_all(*(api.data(sample.owner, FOLLOW, id=thread) for _ in range(5)))
    await gather_all(*(api.data(sample.owner, LOCK, id=thread) for _ in range(5)))
    found = await find_thread(api, sample.owner, thread)
    assert found is not None
    assert (found["replyCount"], found["followerCount"], found["isLocked"]) == (1, 2, True)
    row = api.database["conversations"].find_one({"_id": thread})
    assert row is not None and row["gv"] == 3, "the first reply, one follow, one lock"


async def test_many_first_replies_at_once_make_one_thread(api: Api, sample: SampleGroup) -> None:
    users = [sample.owner, sample.admin, sample.member, sample.other_admin, sample.other_member]
    calls = [api.send(user, sample.message, f"{user} {number}") for number in range(3) for user in users]
    await asyncio.gather(*calls)
    thread = thread_of({"seq": 1, "conversationId": sample.group})
    found = await find_thread(api, sample.owner, thread)
    assert found is not None
    assert (found["replyCount"], found["participantCount"], found["followerCount"]) == (15, 5, 5)
    assert len(set(await contents(api, sample.owner, thread))) == 15


async def test_services_write_system_messages_into_threads(api: Api, sample: SampleGroup) -> None:
    thread = (await api.send(sample.member, sample.message, "first"))["message"]["conversationId"]
    service = make_caller(f"service-{sample.group}", CallerRole.SERVICE)
    for to in (thread, sample.message):
        input: dict[str, Any] = message_input(to, "by the service", contentType="SYSTEM")
        sent = (await api.data(service, SEND, input=input))["sendMessage"]
        assert sent["message"]["conversationId"] == thread
    found = await find_thread(api, sample.owner, thread)
    assert found is not None and (found["replyCount"], found["participantCount"]) == (1, 1)
    assert await contents(api, sample.owner, thread) == ["first", "by the service", "by the service"]


async def test_a_system_message_begins_no_thread(api: Api, sample: SampleGroup) -> None:
    service = make_caller(f"service-{sample.group}", CallerRole.SERVICE)
    # The first request of a user stores them.
    assert await find_thread(api, service, "t_1") is None
    input = {"threadOf": sample.message, "content": "x", "contentType": "SYSTEM"}
    await expect_nothing(api, service, input, INVALID, "threadOf")
    # An empty thread, as a first reply leaves it whose sender was refused afterwards.
    store = api.services.app.store
    (parent,) = (await store.messages.find_by_ids([MessageId(int(sample.message.removeprefix("m_")))])).values()
    thread = await store.threads.open(parent, UserId(sample.member), store.clock.now_ms())
    await expect_nothing(api, service, input, INVALID, "threadOf")
    by_id = {"conversationId": thread, "content": "x", "contentType": "SYSTEM"}
    await expect_nothing(api, service, by_id, "NOT_FOUND", "conversationId")


async def test_a_conversation_is_not_deleted_by_the_id_of_its_thread(api: Api, sample: SampleGroup) -> None:
    thread = (await api.send(sample.member, sample.message, "first"))["message"]["conversationId"]
    before = await api.stored_hashes()
    for name, argument, code in (
        ("deleteConversation", "conversationId", INVALID),
        ("leaveGroup", "groupId", "NOT_FOUND"),
        ("dismissGroup", "groupId", "NOT_FOUND"),
    ):
        query = f"mutation ($id: ID!) {{ {name}({argument}: $id) }}"
        assert await api.expect_refusal(sample.owner, query, id=thread) == Refusal(code, argument)
    query = "mutation ($id: ID!) { inviteMembers(groupId: $id, userIds: []) { id } }"
    assert await api.expect_refusal(sample.owner, query, id=thread) == Refusal("NOT_FOUND", "groupId")
    query = "mutation ($id: ID!) { followChannel(channelId: $id) { id } }"
    assert await api.expect_refusal(sample.owner, query, id=thread) == Refusal("NOT_FOUND", "channelId")
    assert await api.stored_hashes() == before
