"""Whatever stands where an id belongs: null in a query, NOT_FOUND in a mutation and for a subscription."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
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
NOTHING = dict.fromkeys(("node", "conversation", "group", "message", "session", "messages", "user"))

characters = st.characters(codec=None, exclude_categories=())
spellings = st.text(st.sampled_from("aZ09_~.-@:{}*$\\/ \n\x00pgsmcwb"), max_size=24)
numbers = st.integers(0, 10**25).map(str)
near_misses = st.one_of(
    st.builds("{}_{}".format, st.sampled_from("pgmscwbx"), st.one_of(numbers, spellings)),
    st.builds("p_{}_{}".format, spellings, spellings),
    st.builds("p_{}_{}~{}".format, spellings, spellings, spellings),
    st.builds("s_{}_{}".format, spellings, st.one_of(spellings, st.builds("g_{}".format, numbers))),
)
nonsense = st.one_of(
    st.text(characters, max_size=80), spellings, near_misses, st.builds(str.__mul__, near_misses, st.integers(0, 500))
)
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@dataclass(frozen=True)
class Place:
    api: Api
    alice: str
    group: str


@pytest.fixture(scope="module")
async def place(process: Api) -> Place:
    alice, bob, carol = await process.create_users("alice", "bob", "carol")
    group = await process.create_group(alice, bob, carol)
    await process.send(alice, group)
    await process.send(alice, bob)
    return Place(process, alice, group)


@few
@given(id=nonsense)
async def test_queries_answer_null_without_an_error(place: Place, id: str) -> None:
    assert await place.api.data(place.alice, EVERY_QUERY, id=id) == NOTHING


@few
@given(id=nonsense)
async def test_mutations_and_subscriptions_answer_not_found_and_store_nothing(place: Place, id: str) -> None:
    api, alice = place.api, place.alice
    stored = await api.stored_documents()
    for query in (MARK_READ, DELETE, MUTE, PIN, SET_UNREAD):
        asked = {"id": id} | ({"muted": True} if query is MUTE else {})
        assert await api.expect_refusal(alice, query, **asked) == Refusal("NOT_FOUND", "conversationId")
    refusal = await api.expect_refusal(alice, ASSIGN, ids=[place.group, id], category="work")
    assert refusal == Refusal("NOT_FOUND", "conversationIds")
    assert await api.expect_refusal(alice, INVITE, id=id, users=[alice]) == Refusal("NOT_FOUND", "groupId")
    assert await api.expect_refusal(alice, INVITE, id=place.group, users=[id]) == Refusal("NOT_FOUND", "userIds")
    for to in ("conversationId", "toUserId"):
        assert await api.expect_refusal(alice, SEND, input={to: id, "content": "x"}) == Refusal("NOT_FOUND", to)
    for key in (None, "key"):
        made = {"name": "x", "memberIds": [id, f"{id}x"], "idempotencyKey": key}
        assert await api.expect_refusal(alice, CREATE_GROUP, input=made) == Refusal("NOT_FOUND", "memberIds")
    with pytest.raises(RequestRefused) as caught:
        await api.subscribe(alice, LIVE_MESSAGES, id=id)
    assert parse_refusal(caught.value.errors[0]) == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_documents() == stored


@few
@given(text=nonsense)
async def test_no_cursor_makes_the_server_fail(place: Place, text: str) -> None:
    api, alice = place.api, place.alice
    delta = await api.data(alice, "query ($c: Cursor) { syncSessions(since: $c) { reset sessions { id } } }", c=text)
    assert delta["syncSessions"]["reset"] is True
    assert len(delta["syncSessions"]["sessions"]) == 2
    query = "query ($c: String) { sessions(after: $c) { cursor } }"
    assert await api.expect_refusal(alice, query, c=text) == Refusal("INVALID_INPUT", "after")


async def test_numbers_are_ids_as_graphql_has_it(place: Place) -> None:
    assert await place.api.data(place.alice, EVERY_QUERY, id=5) == NOTHING


@pytest.mark.parametrize("id", [None, 1.5, True, [], {}], ids=str)
async def test_what_is_no_id_at_all_is_invalid(place: Place, id: object) -> None:
    response = await place.api.run(place.alice, EVERY_QUERY, id=id)
    assert response.get("data") is None
    assert {error["extensions"]["code"] for error in response["errors"]} == {"INVALID_INPUT"}
