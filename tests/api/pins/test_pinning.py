"""Pinning and unpinning messages in private conversations and groups."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Refusal, gather_all, private_id
from tests.api.pins.calls import (
    PIN,
    PINNED,
    UNPIN,
    announcements,
    check_pins,
    pin,
    pinned,
    refused,
    unpin,
)
from tests.api.sample_group import create_sample_group
from tests.api.state_snapshot import take_snapshot


async def test_either_person_pins_in_a_private_conversation(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    sent = [(await api.send(alice, bob, text))["message"] for text in ("1", "2", "3")]
    for user, message in ((bob, sent[0]), (alice, sent[2]), (bob, sent[1])):
        assert (await pin(api, user, message["id"]))["isPinned"] is True
    for process in (api, other_api):
        assert await pinned(process, alice, conversation) == ["2", "3", "1"]
        for message in sent:
            found = await process.data(bob, "query ($id: ID!) { message(id: $id) { isPinned } }", id=message["id"])
            assert found["message"]["isPinned"] is True
    assert (await unpin(other_api, alice, sent[2]["id"]))["isPinned"] is False
    assert await pinned(api, bob, conversation) == ["2", "1"]
    # A message that is pinned again is the latest pin.
    await pin(api, alice, sent[0]["id"])
    await unpin(api, alice, sent[0]["id"])
    await pin(other_api, alice, sent[0]["id"])
    assert await pinned(api, bob, conversation) == ["1", "2"]
    await check_pins(api, conversation)


async def test_a_pin_is_announced_by_a_system_message(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "plan"))["message"]
    await pin(api, alice, message["id"])
    (system,) = await announcements(api, carol, group)
    assert system["contentType"] == "SYSTEM" and system["sender"]["id"] == alice
    assert system["systemEvent"] == {
        "kind": "MESSAGE_PINNED",
        "actor": {"id": alice},
        "targets": [{"id": bob}],
        "text": None,
    }
    assert system["replyTo"] == {"id": message["id"], "seq": message["seq"], "content": "plan"}
    assert (await api.own_session(carol, group))["unreadCount"] == 1
    assert (await api.own_session(bob, group))["unreadMentionCount"] == 0
    await unpin(api, alice, message["id"])
    assert len(await announcements(api, carol, group)) == 1


async def test_an_announcement_is_pinned_by_a_user_whose_target_has_left(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "plan"))["message"]
    await api.leave(bob, group)
    await pin(api, alice, message["id"])
    assert len(await announcements(api, carol, group)) == 1
    await check_pins(api, group)


async def test_repeating_changes_nothing(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "1"))["message"]["id"]
    listeners = [await process.listen(user) for process in (api, other_api) for user in (alice, bob)]
    first = await pin(api, alice, sent)
    for listener in listeners:
        await listener.take(2)
    before = await api.stored_hashes()
    assert await pin(other_api, bob, sent) == first
    assert await api.stored_hashes() == before
    last = await unpin(api, alice, sent)
    for listener in listeners:
        await listener.next()
    await api.wait_until_idle()
    before = await api.stored_hashes()
    assert await unpin(other_api, bob, sent) == last
    assert await api.stored_hashes() == before
    for listener in listeners:
        await listener.expect_no_event(0.03)


async def test_two_pins_of_one_message_at_once_are_one_pin(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "1"))["message"]["id"]
    calls = [pin(process, user, sent) for process in (api, other_api) for user in (alice, bob) for _ in range(3)]
    assert all(answer["isPinned"] for answer in await gather_all(*calls))
    assert len(await announcements(api, bob, private_id(alice, bob))) == 1
    assert all(not a["isPinned"] for a in await gather_all(*(unpin(p, alice, sent) for p in (api, other_api))))
    await check_pins(api, private_id(alice, bob))
    row = api.database["conversations"].find_one({"_id": private_id(alice, bob)})
    assert row is not None and row["pk"] == 2


@pytest.mark.parametrize("document", [PIN, UNPIN], ids=["pinning", "unpinning"])
async def test_only_owner_and_admin_pin_in_a_group(api: Api, document: str) -> None:
    sample = await create_sample_group(api)
    if document == UNPIN:
        await pin(api, sample.owner, sample.message)
        await pin(api, sample.owner, sample.later)
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    outcomes = {
        sample.member: Refusal("FORBIDDEN", "messageId"),
        sample.left: Refusal("NOT_A_MEMBER", "messageId"),
        sample.removed: Refusal("NOT_A_MEMBER", "messageId"),
        sample.outsider: Refusal("NOT_FOUND", "messageId"),
    }
    for user, expected in outcomes.items():
        assert await refused(api, user, document, sample.message) == expected
    assert await refused(api, sample.left, document, sample.later) == Refusal("NOT_FOUND", "messageId")
    await snapshot.assert_unchanged()
    for user, message in ((sample.owner, sample.message), (sample.admin, sample.later)):
        (changed,) = (await api.data(user, document, id=message)).values()
        assert changed["isPinned"] is (document == PIN)


@pytest.mark.parametrize("text", ["", "m_", "m_0", "nobody", "m_99999999999999999999", "\x00", "$x"])
async def test_unknown_messages_are_not_found(api: Api, text: str) -> None:
    (alice,) = await api.create_users("alice")
    for document in (PIN, UNPIN):
        assert await refused(api, alice, document, text) == Refusal("NOT_FOUND", "messageId")


async def test_system_and_recalled_messages_are_refused(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.update_group(alice, group, name="Other")
    system = (await api.history(alice, group))[-1]
    recalled = (await api.send(alice, group, "no"))["message"]["id"]
    await api.recall(alice, recalled)
    snapshot = await take_snapshot(api, group, alice, bob)
    for message in (system["id"], recalled):
        assert await refused(api, alice, PIN, message) == Refusal("INVALID_INPUT", "messageId")
    assert await refused(api, alice, UNPIN, system["id"]) == Refusal("INVALID_INPUT", "messageId")
    assert (await unpin(api, alice, recalled))["isPinned"] is False
    await snapshot.assert_unchanged()


async def test_readers_see_pins_of_messages_that_they_may_read(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    old, new = (await api.send(alice, group, "old"))["message"], (await api.send(alice, group, "kept"))["message"]
    await pin(api, alice, old["id"])
    await api.invite(alice, group, dave)
    seen = (await api.send(alice, group, "new"))["message"]
    await pin(api, alice, seen["id"])
    await pin(api, alice, new["id"])
    assert await pinned(api, bob, group) == ["kept", "new", "old"]
    assert await pinned(api, dave, group) == ["new"]
    await api.update_group(alice, group, historyVisibility="FULL")
    assert await pinned(api, dave, group) == ["kept", "new", "old"]
    await api.leave(bob, group)
    later = (await api.send(alice, group, "later"))["message"]
    await pin(api, alice, later["id"])
    assert await pinned(api, bob, group) == ["kept", "new", "old"]


async def test_pinned_messages_of_invisible_conversations_are_not_found(api: Api) -> None:
    sample = await create_sample_group(api)
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "private")
    for conversation in (sample.group, private_id(alice, bob), "g_1", "c_1.1", "b_x", "", "nobody", "\x00"):
        refusal = await api.expect_refusal(sample.outsider, PINNED, id=conversation)
        assert refusal == Refusal("NOT_FOUND", "conversationId")


async def test_pinned_messages_are_listed_in_pages(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    sent = [(await api.send(alice, bob, f"{n}"))["message"]["id"] for n in range(5)]
    for message in sent:
        await pin(api, alice, message)
    page = (await api.data(bob, PINNED, id=conversation, first=2))["pinnedMessages"]
    assert [edge["node"]["content"] for edge in page["edges"]] == ["4", "3"]
    info = page["pageInfo"]
    assert (info["hasNextPage"], info["hasPreviousPage"]) == (True, False)
    # A cursor stays valid when its message is unpinned.
    await unpin(api, alice, sent[3])
    page = (await api.data(bob, PINNED, id=conversation, first=10, after=info["endCursor"]))["pinnedMessages"]
    assert [edge["node"]["content"] for edge in page["edges"]] == ["2", "1", "0"]
    assert (page["pageInfo"]["hasNextPage"], page["pageInfo"]["hasPreviousPage"]) == (False, True)
    for first in (0, 101, -1):
        assert await api.expect_refusal(bob, PINNED, id=conversation, first=first) == Refusal("INVALID_INPUT", "first")
    for after in ("", "x", "bTE"):
        assert await api.expect_refusal(bob, PINNED, id=conversation, after=after) == Refusal("INVALID_INPUT", "after")


async def test_a_conversation_has_250_pins_at_most(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    first = (await api.send(alice, bob, "0"))["message"]
    extra = [(await api.send(alice, bob, f"extra {n}"))["message"]["id"] for n in range(4)]
    await api.wait_until_idle()
    # The list is at its limit but for two. These pins name messages that are not there.
    filled = [{"s": 10_000 + n, "v": n} for n in range(1, 249)]
    api.database["conversations"].update_one({"_id": conversation}, {"$set": {"pi": filled, "pk": 248}})
    await pin(api, alice, first["id"])
    outcomes = await gather_all(
        *((api, other_api)[n % 2].run((alice, bob)[n // 2], PIN, id=message) for n, message in enumerate(extra))
    )
    errors = [error for outcome in outcomes for error in outcome.get("errors", ())]
    assert [(e["extensions"]["code"], e["extensions"]["field"]) for e in errors] == [("LIMIT_REACHED", "messageId")] * 3
    row = api.database["conversations"].find_one({"_id": conversation})
    assert row is not None and len(row["pi"]) == 250 and row["pk"] == 250
    await api.wait_until_idle()
    before = await api.stored_hashes()
    failed = next(message for message, outcome in zip(extra, outcomes, strict=True) if "errors" in outcome)
    assert await refused(other_api, bob, PIN, failed) == Refusal("LIMIT_REACHED", "messageId")
    assert await api.stored_hashes() == before
    await unpin(api, bob, first["id"])
    assert (await pin(other_api, bob, failed))["isPinned"] is True


async def test_user_ids_that_look_like_expressions_are_stored_as_they_are(api: Api) -> None:
    alice, bob = await api.create_users("$pi", "$$ROOT")
    sent = (await api.send(alice, bob, "1"))["message"]["id"]
    await pin(api, alice, sent)
    (system,) = await announcements(api, bob, private_id(alice, bob))
    assert system["sender"]["id"] == alice
    await check_pins(api, private_id(alice, bob))
