"""recallMessages: rights, order, input, and what follows a recall."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.recalls import message_recalls
from tests.api.client import RECALL, Api, Json, Refusal, gather_all, private_id
from tests.api.moderation.calls import RECALL_MANY, entries
from tests.api.moderation.conftest import People
from tests.api.pins.calls import PIN
from tests.api.threads.calls import find_thread, thread_of
from tests.api.workspaces.role_calls import set_roles


async def recall_many(api: Api, actor: str, conversation: str, *messages: str, reason: str | None = None) -> list[Json]:
    answer = await api.data(actor, RECALL_MANY, id=conversation, messages=list(messages), reason=reason)
    recalled: list[Json] = answer["recallMessages"]
    return recalled


async def send_many(api: Api, sender: str, conversation: str, count: int) -> list[str]:
    return [(await api.send(sender, conversation, f"text {n}"))["message"]["id"] for n in range(count)]


async def test_messages_are_recalled_for_all_and_returned_in_the_order_asked(
    api: Api, other_api: Api, people: People
) -> None:
    one, two, three = await send_many(api, people.member, people.channel, 3)
    kept = (await api.send(people.owner, people.channel, "kept"))["message"]["id"]
    await api.data(people.member, RECALL, id=two)
    before = [m for m in await api.history(people.owner, people.channel) if m["id"] == two]
    recalled = await recall_many(other_api, people.moderator, people.channel, three, one, two, three, reason="spam")
    assert [message["id"] for message in recalled] == [three, one, two, three]
    assert all(message["content"] is None and message["recalledAt"] for message in recalled)
    shown = {m["id"]: m for m in await api.history(people.owner, people.channel)}
    assert [shown[id]["content"] for id in (one, two, three, kept)] == [None, None, None, "kept"]
    assert shown[two] == before[0]
    (entry,) = entries(api, people.workspace, "recallMessages")
    assert (entry["u"], entry["t"], entry["r"]) == (people.moderator, people.member, "spam")
    assert entry["f"] == {"conversationId": people.channel, "messageIds": [three, one]}
    hashes = await api.stored_hashes()
    assert await recall_many(api, people.moderator, people.channel, one) == [shown[one]]
    assert await api.stored_hashes() == hashes


@pytest.mark.parametrize(
    ("messages", "refusal"),
    [
        ([], Refusal("INVALID_INPUT", "messageIds")),
        (["@own"] * 101, Refusal("INVALID_INPUT", "messageIds")),
        (["@own", "m_1"], Refusal("NOT_FOUND", "messageIds")),
        (["@own", "nonsense"], Refusal("NOT_FOUND", "messageIds")),
        (["@own", "@elsewhere"], Refusal("NOT_FOUND", "messageIds")),
        (["@own", "@system"], Refusal("INVALID_INPUT", "messageIds")),
    ],
)
async def test_bad_input_recalls_nothing(api: Api, messages: list[str], refusal: Refusal) -> None:
    owner, bob, carol, dave = await api.create_users("owner", "bob", "carol", "dave")
    group = await api.create_group(owner, bob, carol)
    await api.invite(owner, group, dave)
    (system,) = await api.history(owner, group)
    ids = {
        "@own": (await api.send(bob, group))["message"]["id"],
        "@elsewhere": (await api.send(bob, owner))["message"]["id"],
        "@system": system["id"],
    }
    before = await api.stored_hashes()
    named = [ids.get(message, message) for message in messages]
    assert await api.expect_refusal(owner, RECALL_MANY, id=group, messages=named) == refusal
    assert await api.expect_refusal(owner, RECALL_MANY, id="g_1", messages=[ids["@own"]]) == Refusal(
        "NOT_FOUND", "conversationId"
    )
    assert await api.stored_hashes() == before


async def test_rights_in_channels_groups_and_private_conversations(api: Api, people: People) -> None:
    (in_channel,) = await send_many(api, people.member, people.channel, 1)
    group = await api.create_group(people.owner, people.member, people.outsider)
    (in_group,) = await send_many(api, people.member, group, 1)
    private = private_id(people.owner, people.member)
    in_private = (await api.send(people.owner, people.member))["message"]["id"]
    before = await api.stored_hashes()
    refused: list[tuple[str, str, str, str]] = [
        (people.member, people.channel, in_channel, "FORBIDDEN"),
        (people.outsider, people.channel, in_channel, "NOT_FOUND"),
        (people.member, group, in_group, "FORBIDDEN"),
        (people.helper, group, in_group, "NOT_FOUND"),
        (people.owner, private, in_private, "FORBIDDEN"),
        (people.helper, private, in_private, "NOT_FOUND"),
    ]
    for user, conversation, message, code in refused:
        variables: dict[str, Any] = {"id": conversation, "messages": [message]}
        assert await api.expect_refusal(user, RECALL_MANY, **variables) == Refusal(code, "conversationId")
    assert await api.stored_hashes() == before
    await recall_many(api, people.owner, group, in_group)
    (entry,) = [entry for entry in entries(api, None, "recallMessages") if entry["u"] == people.owner]
    assert entry["f"] == {"conversationId": group, "messageIds": [in_group]}


async def test_replies_are_counted_and_copies_and_pins_follow(api: Api, other_api: Api, people: People) -> None:
    root = (await api.send(people.owner, people.channel, "root"))["message"]
    replies = [
        (await api.send(people.member, root["id"], f"reply {n}", broadcast=n == 0))["message"]["id"] for n in range(4)
    ]
    thread = thread_of(root)
    copy = (await api.history(people.owner, people.channel))[-1]["id"]
    pinned = (await api.send(people.member, people.channel, "pinned"))["message"]["id"]
    await api.data(people.owner, PIN, id=pinned)
    assert copy not in replies
    recalled = await recall_many(other_api, people.moderator, people.channel, copy, pinned)
    assert [(message["id"], message["content"]) for message in recalled] == [(copy, None), (pinned, None)]
    await recall_many(api, people.moderator, thread, *replies[1:3])
    found = await find_thread(api, people.owner, thread)
    assert found is not None and found["replyCount"] == 1
    texts = [message["content"] for message in await other_api.history(people.owner, thread)]
    assert texts == [None, None, None, "reply 3"]


async def test_a_hundred_messages_are_recalled_with_few_round_trips(api: Api, people: People) -> None:
    messages = [
        m["message"]["id"] for m in await gather_all(*(api.send(people.member, people.channel) for _ in range(100)))
    ]
    await api.wait_until_idle()
    recalled = await recall_many(api, people.moderator, people.channel, *messages)
    assert [message["id"] for message in recalled] == messages
    assert all(message["content"] is None for message in recalled)


async def test_a_moderator_who_loses_the_right_recalls_nothing_more(api: Api, people: People) -> None:
    messages = await send_many(api, people.member, people.channel, 3)
    answers = await gather_all(
        api.run(people.helper, RECALL_MANY, id=people.channel, messages=messages),
        set_roles(api, people.owner, people.workspace, people.helper),
    )
    before = [message["content"] for message in await api.history(people.owner, people.channel)]
    if "errors" in answers[0]:
        assert answers[0]["errors"][0]["extensions"]["code"] == "FORBIDDEN"
    else:
        assert before == [None] * 3
    assert (
        await api.expect_refusal(people.helper, RECALL_MANY, id=people.channel, messages=messages)
    ).code == "FORBIDDEN"
    assert [message["content"] for message in await api.history(people.owner, people.channel)] == before


async def test_a_recall_that_was_refused_after_its_entry_leaves_no_entry(
    api: Api, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = await send_many(api, people.member, people.channel, 2)
    recall_all = message_recalls.recall_all

    async def recall_without_the_right(*arguments: Any) -> Any:
        await set_roles(api, people.owner, people.workspace, people.helper)
        return await recall_all(*arguments)

    monkeypatch.setattr(message_recalls, "recall_all", recall_without_the_right)
    refusal = await api.expect_refusal(people.helper, RECALL_MANY, id=people.channel, messages=messages)
    assert refusal == Refusal("FORBIDDEN", "conversationId")
    assert [message["content"] for message in await api.history(people.owner, people.channel)] == ["text 0", "text 1"]
    assert entries(api, people.workspace, "recallMessages") == []
