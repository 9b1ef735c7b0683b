"""Arbitrary strings as ids: null in a query, NOT_FOUND in a mutation and a subscription."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriptions.transport.engine import RequestRefused
from tests.api.client import CREATE_GROUP, INVITE, LIVE_MESSAGES, SEND, Api, Refusal, parse_refusal
from tests.api.session_calls import ASSIGN, DELETE, MARK_READ, MUTE, PIN, SET_UNREAD

EVERY_QUERY = """query ($id: ID!) {
    node(id: $id) { __typename id }
    conversation(id: $id) { id }
    group(id: $id) { id }
    message(id: $id) { id }
    session(conversationId: $id) { id }
    messages(conversationId: $id) { edges { cursor } }
    user(id: $id) { id }
}"""
ALL_NULL = dict.fromkeys(("node", "conversation", "group", "message", "session", "messages", "user"))

characters = st.characters(codec=None, exclude_categories=())
spellings = st.text(st.sampled_from("aZ09_~.-@:{}*$\\/ \n\x00pgsmcwb"), max_size=24)
numbers = st.integers(0, 10**25).map(str)
near_misses = st.one_of(
    st.builds("{}_{}".format, st.sampled_from("pgmscwbx"), st.one_of(numbers, spellings)),
    st.builds("p_{}_{}".format, spellings, spellings),
    st.builds("p_{}_{}~{}".format, spellings, spellings, spellings),
    st.builds("s_{}_{}".format, spellings, st.one_of(spellings, st.builds("g_{}".format, numbers))),
)
arbitrary_ids = st.one_of(
    st.text(characters, max_size=80), spellings, near_misses, st.builds(str.__mul__, near_misses, st.integers(0, 500))
)
few_examples = settings(max_examples=60)


@dataclass(frozen=True)
class IdCase:
    api: Api
    alice: str
    group: str


@pytest.fixture(scope="module")
async def case_(process: Api) -> IdCase:
    alice, bob, carol = await process.create_users("alice", "bob", "carol")
    group = await process.create_group(alice, bob, carol)
    await process.send(alice, group)
    await process.send(alice, bob)
    return IdCase(process, alice, group)


@few_examples
@given(id=arbitrary_ids)
async def test_queries_return_null_without_an_error(case_: IdCase, id: str) -> None:
    assert await case_.api.data(case_.alice, EVERY_QUERY, id=id) == ALL_NULL


@few_examples
@given(id=arbitrary_ids)
async def test_mutations_and_subscriptions_return_not_found(case_: IdCase, id: str) -> None:
    api, alice = case_.api, case_.alice
    stored = await api.stored_hashes()
    for query in (MARK_READ, DELETE, MUTE, PIN, SET_UNREAD):
        variables = {"id": id} | ({"muted": True} if query is MUTE else {})
        assert await api.expect_refusal(alice, query, **variables) == Refusal("NOT_FOUND", "conversationId")
    refusal = await api.expect_refusal(alice, ASSIGN, ids=[case_.group, id], category="work")
    assert refusal == Refusal("NOT_FOUND", "conversationIds")
    assert await api.expect_refusal(alice, INVITE, id=id, users=[alice]) == Refusal("NOT_FOUND", "groupId")
    assert await api.expect_refusal(alice, INVITE, id=case_.group, users=[id]) == Refusal("NOT_FOUND", "userIds")
    for to in ("conversationId", "toUserId"):
        assert await api.expect_refusal(alice, SEND, input={to: id, "content": "x"}) == Refusal("NOT_FOUND", to)
    for key in (None, "key"):
        group_input = {"name": "x", "memberIds": [id, f"{id}x"], "idempotencyKey": key}
        assert await api.expect_refusal(alice, CREATE_GROUP, input=group_input) == Refusal("NOT_FOUND", "memberIds")
    with pytest.raises(RequestRefused) as caught:
        await api.subscribe(alice, LIVE_MESSAGES, id=id)
    assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == stored


@few_examples
@given(text=arbitrary_ids)
async def test_arbitrary_cursors_cause_no_internal_error(case_: IdCase, text: str) -> None:
    api, alice = case_.api, case_.alice
    delta = await api.data(alice, "query ($c: Cursor) { syncSessions(since: $c) { reset sessions { id } } }", c=text)
    assert delta["syncSessions"]["reset"] is True
    assert len(delta["syncSessions"]["sessions"]) == 2
    query = "query ($c: String) { sessions(after: $c) { cursor } }"
    assert await api.expect_refusal(alice, query, c=text) == Refusal("INVALID_INPUT", "after")


async def test_numbers_are_accepted_as_ids(case_: IdCase) -> None:
    assert await case_.api.data(case_.alice, EVERY_QUERY, id=5) == ALL_NULL


@pytest.mark.parametrize("id", [None, 1.5, True, [], {}], ids=str)
async def test_values_of_other_types_are_refused_as_ids(case_: IdCase, id: object) -> None:
    response = await case_.api.run(case_.alice, EVERY_QUERY, id=id)
    assert response.get("data") is None
    assert {error["extensions"]["code"] for error in response["errors"]} == {"INVALID_INPUT"}
