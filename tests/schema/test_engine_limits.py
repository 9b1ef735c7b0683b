"""Limits on queries at the engine: they apply before anything else, to queries and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Json, Refusal, parse_refusal
from tests.api.conftest import OpenApi

TOO_COMPLEX = Refusal("QUERY_TOO_COMPLEX")

MEMBERS = "myGroups(first: %s) { edges { node { members(first: %s) { edges { node { user { id } } } } } } }"
MANY_MEMBERS = "query ($first: Int) { " + MEMBERS % (100, "$first") + " }"
LIVE_MEMBERS = """subscription ($first: Int) { messageEvents { ... on GroupChanged { group {
    members(first: $first) { edges { node { user { id } } } } } } } }"""


def nested_replies(levels: int) -> str:
    """Return a query with nested fields of this depth."""
    return '{ node(id: "m_1") { ... on Message { ' + "replyTo { " * (levels - 2) + "id" + " }" * (levels - 2) + " } } }"


def nested_live_replies(levels: int) -> str:
    between = levels - 3
    inside = "message { " + "replyTo { " * between + "id" + " }" * between + " }"
    return f"subscription {{ messageEvents {{ ... on MessageCreated {{ {inside} }} }} }}"


def aliases(count: int, field: str) -> str:
    """Return this many aliases of a field."""
    return " ".join(f"a{number}: {field}" for number in range(count))


@dataclass(frozen=True)
class LimitedDocument:
    """A document that would be executed if a limit did not refuse it, and the limit."""

    limit: str
    source: str
    variables: Json

    def __str__(self) -> str:
        return f"{self.limit} of a {self.source.split()[0].replace('{', 'query')} {self.variables or ''}".strip()


def document(limit: str, source: str, **variables: object) -> LimitedDocument:
    return LimitedDocument(limit, source, variables)


async def refused_by(api: Api, document_: LimitedDocument) -> str:
    """Return the limit that refuses a document."""
    (user,) = await api.create_users("user")
    if document_.source.startswith("subscription"):
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(user, document_.source, **document_.variables)
        (error,) = caught.value.errors
    else:
        (error,) = (await api.run(user, document_.source, **document_.variables))["errors"]
    assert parse_refusal(error) == TOO_COMPLEX
    limit: str = error["extensions"]["limit"]
    return limit


@pytest.mark.parametrize(
    "document_",
    [
        document("max_characters", "{ me { id } }" + " " * 50_000),
        document("max_tokens", "{ me { id } }" + "#\n" * 3_000),
        document("max_brackets", "{ me { id } " + "... { " * 64 + "__typename" + " }" * 64 + " }"),
        document("max_depth", nested_replies(16)),
        document("max_aliases", "{ me { " + aliases(31, "id") + " } }"),
        document("max_nodes", "{ " + MEMBERS % (100, 100) + " }"),
        document("max_nodes", MANY_MEMBERS, first=100),
        document("max_characters", "subscription { syncSession { cursor } }" + " " * 50_000),
        document("max_depth", nested_live_replies(16)),
        document("max_aliases", "subscription { syncSession { " + aliases(31, "cursor") + " } }"),
    ],
    ids=str,
)
async def test_a_document_past_a_limit_is_refused(api: Api, document_: LimitedDocument) -> None:
    assert await refused_by(api, document_) == document_.limit


async def test_a_document_within_the_limits_is_executed(api: Api) -> None:
    (user,) = await api.create_users("user")
    await api.data(user, MANY_MEMBERS, first=50)
    await api.data(user, nested_replies(15))
    await api.data(user, "{ me { " + aliases(30, "id") + " } }")
    await api.subscribe(user, nested_live_replies(15))
    await api.subscribe(user, "subscription { syncSession { " + aliases(30, "cursor") + " } }")


async def test_null_and_omitted_variables_are_judged_separately(api: Api) -> None:
    """A null variable takes the default of the field; an omitted variable takes its own default."""
    (user,) = await api.create_users("user")
    members = MANY_MEMBERS.replace("$first: Int", "$first: Int = 100")
    await api.data(user, members, first=None)
    assert await refused_by(api, document("max_nodes", members)) == "max_nodes"


async def test_lists_of_other_sizes_are_judged_separately(api: Api) -> None:
    (user,) = await api.create_users("user")
    read = """mutation ($ids: [ID!]) { markManyRead(conversationIds: $ids) { conversation { ... on Group {
        members(first: 100) { edges { node { user { id } } } } } } } }"""
    for _ in range(2):
        assert await api.data(user, read, ids=[]) == {"markManyRead": []}
        assert await refused_by(api, document("max_nodes", read, ids=["g_1"] * 100)) == "max_nodes"
        assert await refused_by(api, document("max_nodes", read)) == "max_nodes"


@pytest.fixture(scope="module")
async def strict(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("strict", max_query_depth=8, max_query_aliases=1, max_query_cost=10) as api:
        yield api


@pytest.mark.parametrize(
    "document_",
    [
        document("max_depth", nested_replies(9)),
        document("max_aliases", "{ me { " + aliases(2, "id") + " } }"),
        document("max_nodes", "{ sessions(first: 11) { totalUnread } }"),
        document("max_depth", nested_live_replies(9)),
        document("max_aliases", "subscription { syncSession { " + aliases(2, "cursor") + " } }"),
        document("max_nodes", LIVE_MEMBERS, first=11),
    ],
    ids=str,
)
async def test_the_limits_come_from_the_settings(strict: Api, document_: LimitedDocument) -> None:
    assert await refused_by(strict, document_) == document_.limit


async def test_a_document_within_the_configured_limits_is_executed(strict: Api) -> None:
    (user,) = await strict.create_users("user")
    await strict.data(user, nested_replies(8))
    await strict.data(user, "{ sessions(first: 10) { a: totalUnread } }")
    await strict.subscribe(user, nested_live_replies(8))
    await strict.subscribe(user, LIVE_MEMBERS, first=10)


async def test_the_comparison_of_overlapping_fields_is_limited(api: Api) -> None:
    """Each pair of equal fields is compared. 600 of them make 180,000 pairs, within all other limits."""
    (user,) = await api.create_users("user")

    def overlapping_fields(count: int) -> str:
        return "{ me { " + "... { id } " * count + "} }"

    await api.data(user, overlapping_fields(100))
    assert await api.expect_refusal(user, overlapping_fields(600)) == Refusal("INVALID_INPUT")
