"""An input that GraphQL itself refuses is named as one that we refuse is."""

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
async def test_a_variable_names_the_field_that_is_wrong(api: Api, variables: Json, field: str) -> None:
    assert await api.expect_refusal("alice", SEND, **variables) == Refusal("INVALID_INPUT", field)


async def test_a_list_names_the_field_inside_it(api: Api) -> None:
    query = "mutation ($input: [UserInput!]!) { upsertUsers(input: $input) { id } }"
    refused = await api.expect_refusal("alice", query, input=[{"id": "bob", "displayName": 1}])
    assert refused == Refusal("INVALID_INPUT", "displayName")


async def test_an_argument_that_is_missing_is_named(api: Api) -> None:
    assert await api.expect_refusal("alice", "{ messages { edges { cursor } } }") == Refusal(
        "INVALID_INPUT", "conversationId"
    )
