"""Invalid messages: the error code and the field, and nothing is stored."""

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
class InvalidMessageCase:
    """alice owns a group with bob and carol and has a conversation with bob; dave is in neither."""

    api: Api
    alice: str
    bob: str
    carol: str
    dave: str
    group: str
    foreign_group: str
    stored: dict[str, str]

    async def expect_refused(self, sender: str, to: str, content: str = "hello", **fields: Any) -> Refusal:
        """Return the refusal. Nothing stored may change."""
        refusal = await self.api.expect_send_refusal(sender, to, content, **fields)
        assert await self.api.stored_hashes() == self.stored
        return refusal


@pytest.fixture(scope="module")
async def prepared(process: Api) -> AsyncIterator[InvalidMessageCase]:
    alice, bob, carol, dave = await process.create_users("alice", "bob", "carol", "dave")
    group = await process.create_group(alice, bob, carol)
    foreign_group = await process.create_group(dave, bob, carol)
    await process.send(alice, group, "first")
    await process.send(alice, bob, "first")
    await process.send(dave, foreign_group, "first")
    yield InvalidMessageCase(process, alice, bob, carol, dave, group, foreign_group, {})
    # The refused messages took no place.
    assert (await process.send(alice, group, "second"))["message"]["seq"] == 2
    assert (await process.send(alice, bob, "second"))["message"]["seq"] == 2


@pytest.fixture
async def case_(prepared: InvalidMessageCase, api: Api) -> InvalidMessageCase:
    return replace(prepared, stored=await api.stored_hashes())


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
async def test_blank_content_is_refused(case_: InvalidMessageCase, content: str) -> None:
    assert await case_.expect_refused(case_.alice, case_.group, content) == INVALID_CONTENT
    assert await case_.expect_refused(case_.alice, case_.bob, content) == INVALID_CONTENT


@pytest.mark.parametrize(
    "content", ["x" * 4_001, "é" * 4_001, "🙂" * 4_001, " " * 4_000 + "x", "x" * 1_000_000], ids=len
)
async def test_content_of_more_than_4000_characters_is_refused(case_: InvalidMessageCase, content: str) -> None:
    assert await case_.expect_refused(case_.alice, case_.group, content) == INVALID_CONTENT


@pytest.mark.parametrize("content", ["x", "x" * 4_000, "é" * 4_000, "🙂" * 4_000, " " * 3_999 + "x"], ids=len)
async def test_4000_code_points_of_content_are_accepted(api: Api, content: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    assert (await api.send(alice, bob, content))["message"]["content"] == content
    assert (await api.history(bob, private_id(alice, bob)))[0]["content"] == content


@pytest.mark.parametrize("content", ["\x00", "a\x00b", "trailing\x00", "a\ud800", "\udfff", "\ude00\ud83d"], ids=ascii)
async def test_content_that_cannot_be_stored_or_encoded_is_refused(case_: InvalidMessageCase, content: str) -> None:
    assert await case_.expect_refused(case_.alice, case_.group, content) == INVALID_CONTENT


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
async def test_an_unknown_recipient_is_not_found(case_: InvalidMessageCase, recipient: str) -> None:
    refusal = await case_.api.expect_refusal(case_.alice, SEND, input={"toUserId": recipient, "content": "hi"})
    assert refusal == Refusal("NOT_FOUND", "toUserId")
    assert await case_.api.stored_hashes() == case_.stored


async def test_recipient_ids_are_case_and_space_sensitive(case_: InvalidMessageCase) -> None:
    assert await case_.expect_refused(case_.alice, case_.bob.upper()) == Refusal("NOT_FOUND", "toUserId")
    assert await case_.expect_refused(case_.alice, f" {case_.bob}") == Refusal("NOT_FOUND", "toUserId")


async def test_users_cannot_send_to_themselves(case_: InvalidMessageCase) -> None:
    assert await case_.expect_refused(case_.alice, case_.alice) == Refusal("INVALID_INPUT", "toUserId")
    own_conversation = f"p_{case_.alice}_{case_.alice}"
    assert await case_.expect_refused(case_.alice, own_conversation) == Refusal("INVALID_INPUT", "conversationId")
    assert await case_.expect_refused(case_.bob, own_conversation) == NO_CONVERSATION


async def test_a_foreign_group_is_not_found(case_: InvalidMessageCase) -> None:
    assert await case_.expect_refused(case_.alice, case_.foreign_group) == NO_CONVERSATION
    assert await case_.expect_refused(case_.dave, case_.group, mentionAll=True) == NO_CONVERSATION
    assert await case_.expect_refused(case_.dave, case_.group, mentions=["nobody"]) == NO_CONVERSATION
    assert await case_.expect_refused(case_.dave, case_.group, replyToId="m_1") == NO_CONVERSATION


async def test_an_unknown_conversation_is_not_found(case_: InvalidMessageCase) -> None:
    alice, bob, carol, dave = case_.alice, case_.bob, case_.carol, case_.dave
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
        case_.group + "0",
        case_.group + "\n",
        "g_1",
        "g_",
        "g_-1",
        "g_99999999999999999999",
        "c_1",
        "w_1",
        "b_shop",
        f"s_{alice}_{case_.group}",
        dave,
        "",
        "\ud800",
        "x" * 10_000,
    ):
        refusal = await case_.api.expect_refusal(alice, SEND, input={"conversationId": conversation, "content": "hi"})
        assert refusal == NO_CONVERSATION, ascii(conversation[:80])
    assert await case_.api.stored_hashes() == case_.stored


async def test_exactly_one_destination_is_required(case_: InvalidMessageCase) -> None:
    both = {"toUserId": case_.bob, "conversationId": private_id(case_.alice, case_.bob)}
    for destination in (both, {}, {"toUserId": None, "conversationId": None}):
        refusal = await case_.api.expect_refusal(case_.alice, SEND, input={"content": "hi"} | destination)
        assert refusal.code == "INVALID_INPUT"
    assert await case_.api.stored_hashes() == case_.stored


async def test_clients_cannot_send_system_messages(case_: InvalidMessageCase) -> None:
    for to in (case_.group, case_.bob):
        refusal = await case_.expect_refused(case_.alice, to, contentType="SYSTEM")
        assert refusal == Refusal("INVALID_INPUT", "contentType")


@pytest.mark.parametrize("mentioned", ["an outsider", "nobody", "nonsense", "lone surrogate", "one of several"])
async def test_only_members_can_be_mentioned(case_: InvalidMessageCase, mentioned: str) -> None:
    mentions = {
        "an outsider": [case_.dave],
        "nobody": ["nobody"],
        "nonsense": ["not a user"],
        "lone surrogate": ["\ud800"],
        "one of several": [case_.bob, case_.dave],
    }[mentioned]
    for to in (case_.group, case_.bob):
        for key in (None, "k"):
            refusal = await case_.expect_refused(case_.alice, to, mentions=mentions, idempotencyKey=key)
            assert refusal == Refusal("INVALID_INPUT", "mentions")


async def test_only_owners_and_admins_can_mention_all(case_: InvalidMessageCase) -> None:
    assert await case_.expect_refused(case_.bob, case_.group, mentionAll=True) == Refusal("FORBIDDEN", "mentionAll")


async def test_mention_all_is_refused_in_a_private_conversation(case_: InvalidMessageCase) -> None:
    assert await case_.expect_refused(case_.alice, case_.bob, mentionAll=True) == Refusal("INVALID_INPUT", "mentionAll")


@pytest.mark.parametrize(
    "reply", ["unknown", "other conversation", "foreign", "malformed", "empty", "too long", "lone surrogate"]
)
async def test_replies_need_a_visible_message_of_the_same_conversation(case_: InvalidMessageCase, reply: str) -> None:
    api = case_.api
    message_id = (await api.history(case_.alice, case_.group))[0]["id"]
    reply_to = {
        "unknown": "m_1",
        "other conversation": (await api.history(case_.alice, private_id(case_.alice, case_.bob)))[0]["id"],
        "foreign": (await api.history(case_.dave, case_.foreign_group))[0]["id"],
        "malformed": message_id.replace("m_", "m_0"),
        "empty": "",
        "too long": "m_" + "9" * 19,
        "lone surrogate": "\ud800",
    }[reply]
    assert await case_.expect_refused(case_.alice, case_.group, replyToId=reply_to) == Refusal(
        "INVALID_INPUT", "replyToId"
    )
    if reply != "other conversation":
        assert await case_.expect_refused(case_.alice, case_.bob, replyToId=reply_to) == Refusal(
            "INVALID_INPUT", "replyToId"
        )
    # There is no conversation with carol, and the attempt does not create one.
    assert await case_.expect_refused(case_.alice, case_.carol, replyToId=message_id) == Refusal(
        "INVALID_INPUT", "replyToId"
    )


@pytest.mark.parametrize("key", ["", "k" * 129, "🔑" * 129, "\ud800"], ids=ascii)
async def test_an_idempotency_key_has_1_to_128_characters(case_: InvalidMessageCase, key: str) -> None:
    assert await case_.expect_refused(case_.alice, case_.group, idempotencyKey=key) == Refusal(
        "INVALID_INPUT", "idempotencyKey"
    )


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
async def test_an_input_of_the_wrong_shape_is_refused(case_: InvalidMessageCase, input_: Json) -> None:
    full_input = {"conversationId": case_.group} | input_ if "toUserId" not in input_ else input_
    response = await case_.api.run(case_.alice, SEND, input=full_input)
    assert response.get("data") is None
    assert {error["extensions"]["code"] for error in response["errors"]} == {"INVALID_INPUT"}
    assert await case_.api.stored_hashes() == case_.stored


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
async def test_an_invalid_document_is_refused(case_: InvalidMessageCase, document: str) -> None:
    response = await case_.api.run(case_.alice, document)
    assert response.get("data") is None
    assert {error["extensions"]["code"] for error in response["errors"]} == {"INVALID_INPUT"}
    assert await case_.api.stored_hashes() == case_.stored


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
async def test_errors_about_misspelt_names_suggest_no_other_names(
    case_: InvalidMessageCase, document: str, variables: Json
) -> None:
    errors = (await case_.api.run(case_.alice, document, **variables))["errors"]
    assert {error["extensions"]["code"] for error in errors} == {"INVALID_INPUT"}
    assert not [error["message"] for error in errors if "did you mean" in error["message"].lower()]


async def test_every_operation_needs_a_token(case_: InvalidMessageCase) -> None:
    unauthenticated = Refusal("UNAUTHENTICATED")
    assert await case_.expect_refused(None, case_.group) == unauthenticated  # type: ignore[arg-type]
    for query in (
        "{ me { id } }",
        '{ node(id: "x") { id } __typename }',
        "{ ...F } fragment F on Query { totalUnread }",
        "{ __typename }",
    ):
        response = await case_.api.run(None, query)
        assert response.get("data") is None
        assert [error["extensions"]["code"] for error in response["errors"]] == ["UNAUTHENTICATED"]


async def test_a_refusal_has_path_message_code_and_field(case_: InvalidMessageCase) -> None:
    response = await case_.api.run(case_.alice, SEND, input={"toUserId": case_.bob, "content": ""})
    assert response["data"] is None
    (error,) = response["errors"]
    assert error["path"] == ["sendMessage"]
    assert re.search("1 to 4000", error["message"])
    assert error["extensions"] == {"code": "INVALID_INPUT", "retryable": False, "field": "content"}


async def test_a_failed_root_field_does_not_affect_the_others(case_: InvalidMessageCase) -> None:
    query = """mutation ($bad: SendMessageInput!, $good: SendMessageInput!) {
        good: sendMessage(input: $good) { message { seq } } bad: sendMessage(input: $bad) { message { seq } } }"""
    alice, bob = await case_.api.create_users("alice", "bob")
    good = {"toUserId": bob, "content": "good"}
    response = await case_.api.run(alice, query, good=good, bad=good | {"content": ""})
    assert [error["path"] for error in response["errors"]] == [["bad"]]
    assert len(await case_.api.history(bob, private_id(alice, bob))) == 1
