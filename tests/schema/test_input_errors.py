"""Inputs that GraphQL itself refuses have an error that names the field, as our own refusals do."""

from __future__ import annotations

import pytest

from tests.api.client import Api, Json, Refusal

SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { replayed } }"


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": {}}, "content"),
        ({"input": {"content": 5, "toUserId": "bob"}}, "content"),
        ({"input": {"content": "hello", "mentions": ["bob", {}]}}, "mentions"),
        ({"input": {"content": "hello", "subject": 1}}, "subject"),
    ],
    ids=str,
)
async def test_an_invalid_variable_names_the_field(api: Api, variables: Json, field: str) -> None:
    assert await api.expect_refusal("alice", SEND, **variables) == Refusal("INVALID_INPUT", field)


async def test_an_invalid_list_item_names_its_field(api: Api) -> None:
    query = "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id } }"
    refusal = await api.expect_refusal("alice", query, input=[{"id": "bob", "displayName": 1}])
    assert refusal == Refusal("INVALID_INPUT", "displayName")


async def test_a_missing_argument_is_named(api: Api) -> None:
    assert await api.expect_refusal("alice", "{ messages { edges { cursor } } }") == Refusal(
        "INVALID_INPUT", "conversationId"
    )
