"""Messages that can't be: the right code, the field at fault, and nothing stored."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.api.client import SEND, Api, Json, Refusal, private_id

INVALID_CONTENT = Refusal("INVALID_INPUT", "content")
NO_CONVERSATION = Refusal("NOT_FOUND", "conversationId")


@dataclass(frozen=True)
class Room:
    """Alice owns a group with bob and carol, has a conversation with bob, and dave is in neither."""

    api: Api
    alice: str
    bob: str
    carol: str
    dave: str
    group: str
    foreign: str
    stored: dict[str, dict[Any, Json]]

    async def refused(self, sender: str, to: str, content: str = "hello", **more: Any) -> Refusal:
        """The refusal, having stored nothing."""
        refusal = await self.api.expect_send_refusal(sender, to, content, **more)
        assert await self.api.stored_documents() == self.stored
        return refusal


@pytest.fixture(scope="module")
async def furnished(process: Api) -> AsyncIterator[Room]:
    alice, bob, carol, dave = await process.create_users("alice", "bob", "carol", "dave")
    group = await process.create_group(alice, bob, carol)
    foreign = await process.create_group(dave, bob, carol)
    await process.send(alice, group, "first")
    await process.send(alice, bob, "first")
    await process.send(dave, foreign, "first")
    yield Room(process, alice, bob, carol, dave, group, foreign, {})
    # After all that was refused, no place was used up either.
    assert (await process.send(alice, group, "second"))["message"]["seq"] == 2
    assert (await process.send(alice, bob, "second"))["message"]["seq"] == 2


@pytest.fixture
async def room(furnished: Room, api: Api) -> Room:
    return replace(furnished, stored=await api.stored_documents())


@pytest.mark.parametrize(
    "content",
    [
        "",
        " ",
        "\n\t \r\n",
        "\u00a0",
        "\u2003\u2002",
        "\u3000",
        "\u2028\u2029",
        "\u1680",
        "\u205f\u202f",
        "\u0085",
        " " * 4_000,
    ],
    ids=ascii,
)
async def test_blank_content_is_refused(room: Room, content: str) -> None:
    assert await room.refused(room.alice, room.group, content) == INVALID_CONTENT
    assert await room.refused(room.alice, room.bob, content) == INVALID_CONTENT


@pytest.mark.parametrize(
    "content", ["x" * 4_001, "é" * 4_001, "🙂" * 4_001, " " * 4_000 + "x", "x" * 1_000_000], ids=len
)
async def test_content_of_more_than_4000_characters_is_refused(room: Room, content: str) -> None:
    assert await room.refused(room.alice, room.group, content) == INVALID_CONTENT


@pytest.mark.parametrize("content", ["x", "x" * 4_000, "é" * 4_000, "🙂" * 4_000, " " * 3_999 + "x"], ids=len)
async def test_characters_are_code_points_and_4000_of_them_are_well(api: Api, content: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    assert (await api.send(alice, bob, content))["message"]["content"] == content
    assert (await api.history(bob, private_id(alice, bob)))[0]["content"] == content


@pytest.mark.parametrize("content", ["\x00", "a\x00b", "trailing\x00", "a\ud800", "\udfff", "\ude00\ud83d"], ids=ascii)
async def test_content_that_no_database_or_encoding_keeps_is_refused(room: Room, content: str) -> None:
    assert await room.refused(room.alice, room.group, content) == INVALID_CONTENT


@pytest.mark.parametrize(
    "recipient",
    [
        "nobody",
        "",
        " ",
        "with space",
        "under_score",
        "-dash",
        "x" * 65,
        "a\x00",
        "\ud800",
        "日本",
        "../etc",
        "*",
        "user\n",
    ],
    ids=ascii,
)
async def test_a_recipient_who_does_not_exist_is_not_found(room: Room, recipient: str) -> None:
    refusal = await room.api.expect_refusal(room.alice, SEND, input={"toUserId": recipient, "content": "hi"})
    assert refusal == Refusal("NOT_FOUND", "toUserId")
    assert await room.api.stored_documents() == room.stored


async def test_the_recipient_is_looked_for_as_spelt(room: Room) -> None:
    assert await room.refused(room.alice, room.bob.upper()) == Refusal("NOT_FOUND", "toUserId")
    assert await room.refused(room.alice, f" {room.bob}") == Refusal("NOT_FOUND", "toUserId")


async def test_nobody_sends_to_themselves(room: Room) -> None:
    assert await room.refused(room.alice, room.alice) == Refusal("INVALID_INPUT", "toUserId")
    oneself = f"p_{room.alice}_{room.alice}"
    assert await room.refused(room.alice, oneself) == Refusal("INVALID_INPUT", "conversationId")
    assert await room.refused(room.bob, oneself) == NO_CONVERSATION


async def test_a_group_one_was_never_in_is_not_found(room: Room) -> None:
    assert await room.refused(room.alice, room.foreign) == NO_CONVERSATION
    assert await room.refused(room.dave, room.group, mentionAll=True) == NO_CONVERSATION
    assert await room.refused(room.dave, room.group, mentions=["nobody"]) == NO_CONVERSATION
    assert await room.refused(room.dave, room.group, replyToId="m_1") == NO_CONVERSATION


async def test_a_conversation_that_does_not_exist_is_not_found(room: Room) -> None:
    alice, bob, carol, dave = room.alice, room.bob, room.carol, room.dave
    first, second = sorted((alice, bob))
    for conversation in (
        private_id(alice, carol),
        private_id(bob, carol),
        f"p_{second}_{first}",
        f"{private_id(alice, bob)}~shop",
        f"{private_id(alice, bob)}~",
        private_id(alice, "nobody"),
        private_id(alice, bob) + " ",
        private_id(alice, bob) + "\x00",
        private_id(alice, bob).upper(),
        room.group + "0",
        room.group + "\n",
        "g_1",
        "g_",
        "g_-1",
        "g_99999999999999999999",
        "c_1",
        "w_1",
        "b_shop",
        f"s_{alice}_{room.group}",
        dave,
        "",
        "\ud800",
        "x" * 10_000,
    ):
        refusal = await room.api.expect_refusal(alice, SEND, input={"conversationId": conversation, "content": "hi"})
        assert refusal == NO_CONVERSATION, ascii(conversation[:80])
    assert await room.api.stored_documents() == room.stored


async def test_exactly_one_destination_is_given(room: Room) -> None:
    both = {"toUserId": room.bob, "conversationId": private_id(room.alice, room.bob)}
    for destination in (both, {}, {"toUserId": None, "conversationId": None}):
        refusal = await room.api.expect_refusal(room.alice, SEND, input={"content": "hi"} | destination)
        assert refusal.code == "INVALID_INPUT"
    assert await room.api.stored_documents() == room.stored


async def test_clients_write_no_system_messages(room: Room) -> None:
    for to in (room.group, room.bob):
        refusal = await room.refused(room.alice, to, contentType="SYSTEM")
        assert refusal == Refusal("INVALID_INPUT", "contentType")


@pytest.mark.parametrize("who", ["an outsider", "nobody", "nonsense", "half a character", "one of several"])
async def test_only_members_can_be_mentioned(room: Room, who: str) -> None:
    mentions = {
        "an outsider": [room.dave],
        "nobody": ["nobody"],
        "nonsense": ["not a user"],
        "half a character": ["\ud800"],
        "one of several": [room.bob, room.dave],
    }[who]
    for to in (room.group, room.bob):
        for key in (None, "k"):
            refusal = await room.refused(room.alice, to, mentions=mentions, idempotencyKey=key)
            assert refusal == Refusal("INVALID_INPUT", "mentions")


async def test_only_owners_and_admins_mention_everybody(room: Room) -> None:
    assert await room.refused(room.bob, room.group, mentionAll=True) == Refusal("FORBIDDEN", "mentionAll")


async def test_nobody_mentions_everybody_in_a_private_conversation(room: Room) -> None:
    assert await room.refused(room.alice, room.bob, mentionAll=True) == Refusal("INVALID_INPUT", "mentionAll")


@pytest.mark.parametrize(
    "reply", ["unknown", "elsewhere", "foreign", "malformed", "empty", "too long", "half a character"]
)
async def test_only_a_visible_message_of_the_same_conversation_is_replied_to(room: Room, reply: str) -> None:
    api = room.api
    here = (await api.history(room.alice, room.group))[0]["id"]
    reply_to = {
        "unknown": "m_1",
        "elsewhere": (await api.history(room.alice, private_id(room.alice, room.bob)))[0]["id"],
        "foreign": (await api.history(room.dave, room.foreign))[0]["id"],
        "malformed": here.replace("m_", "m_0"),
        "empty": "",
        "too long": "m_" + "9" * 19,
        "half a character": "\ud800",
    }[reply]
    assert await room.refused(room.alice, room.group, replyToId=reply_to) == Refusal("INVALID_INPUT", "replyToId")
    if reply != "elsewhere":
        assert await room.refused(room.alice, room.bob, replyToId=reply_to) == Refusal("INVALID_INPUT", "replyToId")
    # There is no conversation with carol yet, so nothing in it to reply to; nor does the attempt open it.
    assert await room.refused(room.alice, room.carol, replyToId=here) == Refusal("INVALID_INPUT", "replyToId")


@pytest.mark.parametrize("key", ["", "k" * 129, "🔑" * 129, "\ud800"], ids=ascii)
async def test_a_key_has_1_to_128_characters(room: Room, key: str) -> None:
    assert await room.refused(room.alice, room.group, idempotencyKey=key) == Refusal("INVALID_INPUT", "idempotencyKey")


@pytest.mark.parametrize(
    "input_",
    [
        {},
        {"content": None},
        {"content": 5},
        {"content": ["x"]},
        {"content": "x", "contentType": "IMAGE"},
        {"content": "x", "mentions": [None]},
        {"content": "x", "mentions": [{}]},
        {"content": "x", "mentionAll": "yes"},
        {"content": "x", "idempotencyKey": 1},
        {"content": "x", "unknown": 1},
        {"content": "x", "toUserId": {}},
        {"content": "x", "toUserId": 1.5},
        {"content": "x", "toUserId": True},
    ],
    ids=str,
)
async def test_an_input_of_another_shape_is_invalid(room: Room, input_: Json) -> None:
    given = {"conversationId": room.group} | input_ if "toUserId" not in input_ else input_
    response = await room.api.run(room.alice, SEND, input=given)
    assert response.get("data") is None
    assert {error["extensions"]["code"] for error in response["errors"]} == {"INVALID_INPUT"}
    assert await room.api.stored_documents() == room.stored


@pytest.mark.parametrize(
    "document",
    [
        'mutation { sendMessage(input: {toUserId: "bob", content: "\\ud800"}) { replayed } }',
        "mutation { sendMessage }",
        'mutation { sendMessage(input: {content: "x", toUserId: "bob"}) }',
        "mutation { sendMessages(input: {}) { replayed } }",
        '{ sendMessage(input: {content: "x"}) { replayed } }',
        "mutation {",
        "",
        "\x00",
        "query A { me { id } } query B { me { id } }",
        "fragment F on User { id }",
        "{ me { ...F } } fragment F on User { id ...F }",
        "query ($x: Nonsense) { me { id } }",
        "query ($x: ID!) { user(id: $x) { id } }",
        "{ me { id } } \ud800",
    ],
    ids=ascii,
)
async def test_a_document_that_makes_no_sense_is_invalid(room: Room, document: str) -> None:
    response = await room.api.run(room.alice, document)
    assert response.get("data") is None
    assert {error["extensions"]["code"] for error in response["errors"]} == {"INVALID_INPUT"}
    assert await room.api.stored_documents() == room.stored


@pytest.mark.parametrize(
    ("document", "variables"),
    [
        ("{ mee { id } }", {}),
        ("{ me { idd } }", {}),
        ("{ sessions(frist: 1) { totalUnread } }", {}),
        ("query ($input: SendMessageInputt) { me { id } }", {}),
        ('mutation { sendMessage(input: {content: "x", contnt: "x"}) { replayed } }', {}),
        (SEND, {"input": {"content": "x", "contnt": "x"}}),
        (SEND, {"input": {"content": "x", "contentType": "TEX"}}),
    ],
    ids=["root field", "field", "argument", "type", "input field", "input field of a variable", "enum of a variable"],
)
async def test_a_misspelt_name_brings_no_suggestion_of_others(room: Room, document: str, variables: Json) -> None:
    errors = (await room.api.run(room.alice, document, **variables))["errors"]
    assert {error["extensions"]["code"] for error in errors} == {"INVALID_INPUT"}
    assert not [error["message"] for error in errors if "did you mean" in error["message"].lower()]


async def test_without_a_token_nothing_is_sent_or_told(room: Room) -> None:
    unauthenticated = Refusal("UNAUTHENTICATED")
    assert await room.refused(None, room.group) == unauthenticated  # type: ignore[arg-type]
    for query in (
        "{ me { id } }",
        '{ node(id: "x") { id } __typename }',
        "{ ...F } fragment F on Query { totalUnread }",
    ):
        response = await room.api.run(None, query)
        assert response.get("data") is None
        assert [error["extensions"]["code"] for error in response["errors"]] == ["UNAUTHENTICATED"]
    assert await room.api.data(None, "{ __typename }") == {"__typename": "Query"}


async def test_a_refusal_says_where_and_can_be_told_from_a_failure(room: Room) -> None:
    response = await room.api.run(room.alice, SEND, input={"toUserId": room.bob, "content": ""})
    assert response["data"] is None
    (error,) = response["errors"]
    assert error["path"] == ["sendMessage"]
    assert re.search("1 to 4000", error["message"])
    assert error["extensions"] == {"code": "INVALID_INPUT", "retryable": False, "field": "content"}


async def test_the_good_half_of_a_request_with_a_bad_half_is_carried_out(room: Room) -> None:
    query = """mutation ($bad: SendMessageInput!, $good: SendMessageInput!) {
        good: sendMessage(input: $good) { message { seq } } bad: sendMessage(input: $bad) { message { seq } } }"""
    alice, bob = await room.api.create_users("alice", "bob")
    good = {"toUserId": bob, "content": "good"}
    response = await room.api.run(alice, query, good=good, bad=good | {"content": ""})
    assert [error["path"] for error in response["errors"]] == [["bad"]]
    assert len(await room.api.history(bob, private_id(alice, bob))) == 1
