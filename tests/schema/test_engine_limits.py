"""Limits on queries where clients meet them: in front of everything else, for queries and subscriptions alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from schema.execution import prepared_operations
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Json, Refusal, parse_refusal
from tests.api.conftest import OpenApi

TOO_COMPLEX = Refusal("QUERY_TOO_COMPLEX")

MEMBERS = "myGroups(first: %s) { edges { node { members(first: %s) { edges { node { user { id } } } } } } }"
MANY_MEMBERS = "query ($first: Int) { " + MEMBERS % (100, "$first") + " }"
LIVE_MEMBERS = """subscription ($first: Int) { syncSession { sessions { conversation { ... on Group {
    members(first: $first) { edges { node { user { id } } } } } } } } }"""


def replies(levels: int) -> str:
    """A message, what it replied to, and so on: fields so deep."""
    return '{ node(id: "m_1") { ... on Message { ' + "replyTo { " * (levels - 2) + "id" + " }" * (levels - 2) + " } } }"


def live_replies(levels: int) -> str:
    between = levels - 3
    inside = "message { " + "replyTo { " * between + "id" + " }" * between + " }"
    return f"subscription {{ messageEvents {{ ... on MessageCreated {{ {inside} }} }} }}"


def names(count: int, field: str) -> str:
    """A field by as many names."""
    return " ".join(f"a{number}: {field}" for number in range(count))


@dataclass(frozen=True)
class Document:
    """One that would be answered but for a limit, and the limit."""

    limit: str
    source: str
    variables: Json

    def __str__(self) -> str:
        return f"{self.limit} of a {self.source.split()[0].replace('{', 'query')} {self.variables or ''}".strip()


def document(limit: str, source: str, **variables: int) -> Document:
    return Document(limit, source, variables)


async def limit_met(api: Api, asked: Document) -> str:
    """The limit that a document is refused for, subscriptions included."""
    (user,) = await api.create_users("user")
    if asked.source.startswith("subscription"):
        with pytest.raises(RequestRefused) as caught:
            await api.subscribe(user, asked.source, **asked.variables)
        (error,) = caught.value.errors
    else:
        (error,) = (await api.run(user, asked.source, **asked.variables))["errors"]
    assert parse_refusal(error) == TOO_COMPLEX
    limit: str = error["extensions"]["limit"]
    return limit


@pytest.mark.parametrize(
    "asked",
    [
        document("max_characters", "{ me { id } }" + " " * 50_000),
        document("max_tokens", "{ me { id } }" + "#\n" * 3_000),
        document("max_brackets", "{ me { id } " + "... { " * 64 + "__typename" + " }" * 64 + " }"),
        document("max_depth", replies(16)),
        document("max_aliases", "{ me { " + names(31, "id") + " } }"),
        document("max_nodes", "{ " + MEMBERS % (100, 100) + " }"),
        document("max_nodes", MANY_MEMBERS, first=100),
        document("max_characters", "subscription { syncSession { cursor } }" + " " * 50_000),
        document("max_depth", live_replies(16)),
        document("max_aliases", "subscription { syncSession { " + names(31, "cursor") + " } }"),
    ],
    ids=str,
)
async def test_what_passes_a_limit_is_too_complex(api: Api, asked: Document) -> None:
    assert await limit_met(api, asked) == asked.limit


async def test_what_lies_within_the_limits_is_answered(api: Api) -> None:
    (user,) = await api.create_users("user")
    await api.data(user, MANY_MEMBERS, first=50)
    await api.data(user, replies(15))
    await api.data(user, "{ me { " + names(30, "id") + " } }")
    await api.subscribe(user, live_replies(15))
    await api.subscribe(user, "subscription { syncSession { " + names(30, "cursor") + " } }")


async def test_a_variable_that_was_null_says_nothing_of_one_that_is_left_out(api: Api) -> None:
    """Null takes the default of the field, a variable that is left out its own."""
    (user,) = await api.create_users("user")
    members = MANY_MEMBERS.replace("$first: Int", "$first: Int = 100")
    await api.data(user, members, first=None)
    assert await limit_met(api, document("max_nodes", members)) == "max_nodes"


async def test_documents_are_remembered_up_to_so_many_characters(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (user,) = await api.create_users("user")
    monkeypatch.setattr(prepared_operations, "_MAX_CACHED_CHARACTERS", 1_000)
    documents = ["{ me { " + names(count, "id") + " } }" for count in range(20, 30)]
    for asked in documents * 2:
        await api.data(user, asked)
    remembered = [query for query, _ in api.services.engine._operations._prepared]
    assert remembered[-1] == documents[-1]
    assert 700 < sum(map(len, remembered)) <= 1_000


@pytest.fixture(scope="module")
async def strict(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("strict", max_query_depth=8, max_query_aliases=1, max_query_cost=10) as api:
        yield api


@pytest.mark.parametrize(
    "asked",
    [
        document("max_depth", replies(9)),
        document("max_aliases", "{ me { " + names(2, "id") + " } }"),
        document("max_nodes", "{ sessions(first: 11) { totalUnread } }"),
        document("max_depth", live_replies(9)),
        document("max_aliases", "subscription { syncSession { " + names(2, "cursor") + " } }"),
        document("max_nodes", LIVE_MEMBERS, first=11),
    ],
    ids=str,
)
async def test_limits_are_what_the_settings_say(strict: Api, asked: Document) -> None:
    assert await limit_met(strict, asked) == asked.limit


async def test_what_lies_within_the_limits_of_the_settings_is_answered(strict: Api) -> None:
    (user,) = await strict.create_users("user")
    await strict.data(user, replies(8))
    await strict.data(user, "{ sessions(first: 10) { a: totalUnread } }")
    await strict.subscribe(user, live_replies(8))
    await strict.subscribe(user, LIVE_MEMBERS, first=10)


async def test_fields_that_overlap_are_compared_up_to_a_bound(api: Api) -> None:
    """Each pair of the same field is compared: a document within all other limits makes 180,000 pairs of 600."""
    (user,) = await api.create_users("user")

    def overlapping(count: int) -> str:
        return "{ me { " + "... { id } " * count + "} }"

    await api.data(user, overlapping(100))
    assert await api.expect_refusal(user, overlapping(600)) == Refusal("INVALID_INPUT")
