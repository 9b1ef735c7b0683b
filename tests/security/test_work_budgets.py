"""One work budget for all that a user does in a process, and results that are stopped when they grow too large."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from resolvers.base.errors import RateLimited
from resolvers.base.work_budgets import WorkBudgets
from resolvers.users.people import SEARCH_UNITS
from schema.execution.work import SELECTION_UNITS
from store.base.ids import UserId
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Json, Refusal, gather_all, parse_refusal
from tests.api.conftest import OpenApi
from tests.security.test_rate_limits import ManualSeconds
from tests.server.served_app import ServeApp

ALICE, BOB = UserId("alice"), UserId("bob")
ME = "{ me { id } }"
ME_UNITS = 102
RECEIPTS = """subscription { messageEvents { ... on MessageCreated { message { alias%s: receipts(first: 100) {
    edges { node { user { id displayName } } } } } } } }"""
CONTENT = "subscription { messageEvents { __typename ... on MessageCreated { message { content } cursor } } }"


@pytest.fixture
def seconds() -> ManualSeconds:
    return ManualSeconds()


@pytest.fixture
def budgets(seconds: ManualSeconds) -> WorkBudgets:
    """Budgets of 1,000 units, refilled with 100 a second."""
    return WorkBudgets(100, 1_000, seconds)


def test_work_is_admitted_after_the_stated_time_and_not_before(budgets: WorkBudgets, seconds: ManualSeconds) -> None:
    budgets.take(ALICE, 900)
    with pytest.raises(RateLimited) as caught:
        budgets.take(ALICE, 250)
    wait_ms = caught.value.retry_after_ms
    assert wait_ms == 1_501 and "250 units" in caught.value.message and "100 left" in caught.value.message
    seconds.now += 1.499
    with pytest.raises(RateLimited):
        budgets.take(ALICE, 250)
    seconds.now += 0.002
    budgets.take(ALICE, 250)
    assert budgets.remaining(ALICE) == 0


def test_a_refusal_takes_nothing_and_users_do_not_share(budgets: WorkBudgets) -> None:
    budgets.take(ALICE, 600)
    with pytest.raises(RateLimited):
        budgets.take(ALICE, 500)
    assert (budgets.remaining(ALICE), budgets.remaining(BOB)) == (400, 1_000)
    budgets.take(ALICE, 400)


def test_more_than_a_budget_is_taken_from_a_full_one(budgets: WorkBudgets, seconds: ManualSeconds) -> None:
    budgets.take(ALICE, 5_000)
    with pytest.raises(RateLimited) as caught:
        budgets.take(ALICE, 5_000)
    assert caught.value.retry_after_ms == 50_001
    seconds.now += 50.001
    budgets.take(ALICE, 5_000)


def test_units_that_were_not_used_are_given_back(budgets: WorkBudgets) -> None:
    budgets.take(ALICE, 900)
    budgets.charge(ALICE, -700)
    assert budgets.remaining(ALICE) == 800
    budgets.charge(ALICE, -7_000)
    assert budgets.remaining(ALICE) == 1_000


def test_operations_alone_do_not_end_subscriptions(budgets: WorkBudgets) -> None:
    budgets.take(ALICE, 1_000)
    budgets.check_events(ALICE)
    budgets.charge(ALICE, 1_001)
    with pytest.raises(RateLimited):
        budgets.check_events(ALICE)


def test_users_with_full_budgets_are_forgotten(budgets: WorkBudgets, seconds: ManualSeconds) -> None:
    for number in range(1_000):
        budgets.take(UserId(f"user{number}"), 100)
        seconds.now += 1
    assert len(budgets._full_at) < 10


def test_without_a_limit_nothing_is_counted() -> None:
    budgets = WorkBudgets()
    budgets.take(ALICE, 10**9)
    budgets.check_events(ALICE)
    assert budgets._full_at == {}


@pytest.fixture(scope="module")
async def small(open_api: OpenApi) -> AsyncIterator[Api]:
    """A process whose budgets are 2,000 units, refilled with 1,000 a second."""
    async with open_api("small", work_per_second=1_000, work_budget=2_000) as api:
        yield api


def stop_time(api: Api) -> WorkBudgets:
    """Return the process's budgets, which are not refilled from now on."""
    work = api.services.app.work
    now = work._clock()
    work._clock = lambda: now
    return work


async def test_operations_cost_one_unit_for_each_returned_value(small: Api) -> None:
    alice, bob = await small.create_users("alice", "bob")
    work = stop_time(small)
    await small.data(alice, ME)
    assert work.remaining(UserId(alice)) == 2_000 - ME_UNITS
    # 100 rows were taken, and given back.
    await small.data(bob, "{ sessions(first: 100) { edges { node { id } } totalUnread } }")
    assert work.remaining(UserId(bob)) == 2_000 - 103


async def test_an_operation_with_wrong_variables_costs_no_values(small: Api) -> None:
    (alice,) = await small.create_users("alice")
    work = stop_time(small)
    query = "query ($n: Int, $wrong: String) { sessions(first: $n, after: $wrong) { edges { node { id } } } }"
    answer = await small.run(alice, query, n=100, wrong=1)
    assert [parse_refusal(error).code for error in answer["errors"]] == ["INVALID_INPUT"]
    assert work.remaining(UserId(alice)) == 2_000 - 100


async def test_analysing_costs_is_paid_for_unless_the_result_is_remembered(small: Api) -> None:
    alice, bob = await small.create_users("alice", "bob")
    work = stop_time(small)
    receipts = "conversation { lastMessage { receipts(first: $n) { edges { cursor } } } }"
    too_complex = f"query ($n: Int) {{ sessions(first: $n) {{ edges {{ node {{ {receipts} }} }} }} }}"
    answer = await small.run(alice, too_complex, n=100)
    assert [error["extensions"]["limit"] for error in answer["errors"]] == ["max_nodes"]
    selections = 8
    assert work.remaining(UserId(alice)) == 2_000 - SELECTION_UNITS * selections
    for _ in range(2_000 // (SELECTION_UNITS * selections)):
        answer = await small.run(alice, too_complex, n=100)
    assert [parse_refusal(error).code for error in answer["errors"]] == ["RATE_LIMITED"]
    sent = "query ($n: Int) { sessions(first: $n) { edges { cursor } } }"
    await small.data(bob, sent, n=1)
    assert work.remaining(UserId(bob)) == 2_000 - 102


async def test_a_spent_budget_is_rate_limited_on_all_connections(small: Api) -> None:
    alice, bob = await small.create_users("alice", "bob")
    stop_time(small)
    answers = await gather_all(*(small.run(alice, ME) for _ in range(30)))
    refused = [parse_refusal(answer["errors"][0]) for answer in answers if "errors" in answer]
    assert {refusal.code for refusal in refused} == {"RATE_LIMITED"} and len(refused) == 30 - 2_000 // ME_UNITS
    extensions = next(answer for answer in answers if "errors" in answer)["errors"][0]["extensions"]
    assert extensions["retryable"] is True and 0 < extensions["retryAfterMs"] <= ME_UNITS
    await small.data(bob, ME)


async def expect_subscription_refusal(api: Api, user: str, query: str) -> tuple[Refusal, str]:
    with pytest.raises(RequestRefused) as caught:
        await api.subscribe(user, query)
    return parse_refusal(caught.value.errors[0]), caught.value.errors[0]["message"]


async def test_subscriptions_that_cost_too_much_together_are_refused(small: Api) -> None:
    (alice,) = await small.create_users("alice")
    first = await small.subscribe(alice, RECEIPTS % 1)
    refusal, message = await expect_subscription_refusal(small, alice, RECEIPTS % 2)
    assert refusal.code == "RATE_LIMITED" and "553" in message and "1,000 are allowed" in message
    # The same selection is rendered once, and costs nothing more.
    second = await small.subscribe(alice, RECEIPTS % 1)
    await small.subscribe(alice, CONTENT)
    await first.stop()
    await expect_subscription_refusal(small, alice, RECEIPTS % 2)
    await second.stop()
    await small.subscribe(alice, RECEIPTS % 2)


async def test_a_subscription_that_costs_too_much_alone_is_too_complex(small: Api) -> None:
    (alice,) = await small.create_users("alice")
    many = "id " + " ".join(f"a{number}: id" for number in range(8))
    refusal, message = await expect_subscription_refusal(small, alice, (RECEIPTS % 1).replace("id", many))
    assert refusal.code == "QUERY_TOO_COMPLEX" and "1,000 are allowed" in message


async def test_events_are_shared_by_users_and_charged_to_all_selections(small: Api) -> None:
    alice, bob = await small.create_users("alice", "bob")
    own = await small.subscribe(alice, CONTENT.replace("content", "c: content"))
    await own.next()
    work = stop_time(small)
    before = work.remaining(UserId(alice))
    await small.send(bob, alice)
    event = await own.next()
    assert event["message"] == {"c": "hello"}
    # 50 for the event, and messageEvents, __typename, message, content, cursor.
    assert 50 < before - work.remaining(UserId(alice)) <= 56


async def test_events_beyond_two_budgets_end_the_subscription(small: Api) -> None:
    alice, bob = await small.create_users("alice", "bob")
    stream = await small.subscribe(alice, CONTENT.replace("content", "d: content"))
    await stream.next()
    work = stop_time(small)
    work.charge(UserId(alice), 4_001)
    await small.send(bob, alice)
    with pytest.raises(RequestRefused) as caught:
        await stream.next()
    assert caught.value.errors[0]["extensions"]["code"] == "RATE_LIMITED"
    assert caught.value.errors[0]["extensions"]["retryAfterMs"] > 0


async def test_pages_of_messages_with_many_mentions_are_shorter(api: Api) -> None:
    """A document of 400 characters that would produce 100,000 values, which no static limit can know.

    Other people wrote the messages, so the reader gets a shorter page, and all messages page by page.
    """
    (owner,) = await api.create_users("owner")
    members = await api.create_many_users("mentioned", 1_000)
    reader = members[0]
    group = await api.create_group(owner, *members)
    message = None
    for number in range(8):
        more = {"replyToId": message} if message else {}
        sent = await api.send(owner, group, f"message {number}", mentions=members, **more)
        message = sent["message"]["id"]
    nested = "id"
    for _ in range(6):
        nested = f"mentions {{ id displayName avatarUrl }} replyTo {{ {nested} }}"
    query = f"""query ($before: String) {{ messages(conversationId: "{group}", last: 100, before: $before) {{
        edges {{ node {{ m: id {nested} }} }} pageInfo {{ hasPreviousPage startCursor }} }} }}"""
    read: list[str] = []
    info: Json = {"hasPreviousPage": True, "startCursor": None}
    while info["hasPreviousPage"]:
        page = (await api.data(reader, query, before=info["startCursor"]))["messages"]
        info, ids = page["pageInfo"], [edge["node"]["m"] for edge in page["edges"]]
        assert 1 <= len(ids) < 8
        read = ids + read
    everything = f'{{ messages(conversationId: "{group}", last: 100) {{ edges {{ node {{ m: id }} }} }} }}'
    edges = (await api.data(reader, everything))["messages"]["edges"]
    assert len(edges) == 8 and read == [edge["node"]["m"] for edge in edges]
    # One message with this selection is too large by itself.
    own = " ".join(f"x{number}: id" for number in range(5))
    wide = query.replace("m: id ", "").replace("{ id displayName", f"{{ {own} __typename id displayName")
    refused = await api.run(reader, wide)
    error = refused["errors"][0]
    assert error["extensions"]["code"] == "QUERY_TOO_COMPLEX", json.dumps(error)
    assert 50_000 < error["extensions"]["found"] < 60_000 and refused.get("data") is None


SLACK = 30
"""Units that a busy machine may add to a budget before the answer, and the seconds that this takes."""


def shown_budget(answer: httpx.Response) -> tuple[int, int]:
    """Return the remaining units, and the seconds until the budget is full."""
    shown = re.fullmatch(r'"work";r=(\d+);t=(\d+)', answer.headers["ratelimit"])
    assert shown is not None, answer.headers["ratelimit"]
    return int(shown[1]), int(shown[2])


async def test_http_responses_show_the_remaining_budget(serve_app: ServeApp) -> None:
    async with serve_app(work_per_second=1, work_budget=250) as app:
        answer = await app.ask(ME, "alice")
        assert answer.headers["ratelimit-policy"] == '"work";q=250;w=250'
        remaining, full_in = shown_budget(answer)
        assert 148 <= remaining <= 150 + SLACK and 250 <= remaining + full_in <= 251
        await app.data(ME, "alice")
        answer = await app.ask(ME, "alice", accept="application/graphql-response+json")
        assert answer.status_code == 429 and 55 - SLACK <= int(answer.headers["retry-after"]) <= 57
        remaining, full_in = shown_budget(answer)
        assert 46 <= remaining <= 48 + SLACK and 250 <= remaining + full_in <= 251
        # Without a valid token there is no budget.
        assert "ratelimit" not in (await app.ask(ME)).headers


async def test_without_a_limit_there_are_no_headers(serve_app: ServeApp) -> None:
    async with serve_app(work_per_second=0) as app:
        answer = await app.ask(ME, "alice")
        assert answer.status_code == 200 and "ratelimit" not in answer.headers


async def test_searches_cost_units_for_each_person_they_may_find(small: Api) -> None:
    alice, *others = await small.create_users("alice", *(f"member{number}" for number in range(60)))
    group = await small.create_group(alice, *others)
    work = stop_time(small)
    work._full_at.clear()
    found = await small.data(alice, '{ searchUsers(query: "member1", first: 1) { edges { node { id } } } }')
    assert len(found["searchUsers"]["edges"]) == 1
    spent = 2_000 - work.remaining(UserId(alice))
    assert 60 * SEARCH_UNITS + 100 < spent < 60 * SEARCH_UNITS + 200
    members = 'query ($id: ID!) { group(id: $id) { members(query: "member1", first: 1) { edges { node { role } } } } }'
    await small.data(alice, members, id=group)
    assert 2_000 - work.remaining(UserId(alice)) - spent > 61 * SEARCH_UNITS
    for query, variables in (('{ searchUsers(query: "member1") { edges { cursor } } }', {}), (members, {"id": group})):
        assert (await small.expect_refusal(alice, query, **variables)).code == "RATE_LIMITED"
    # A bystander and other operations are still served.
    await small.data(others[0], '{ searchUsers(query: "member1", first: 1) { edges { node { id } } } }')
    await small.data(alice, ME)
