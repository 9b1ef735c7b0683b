"""Messages are found by their words, as they are now."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from tests.api.client import Api, make_caller, private_id
from tests.api.pins.calls import pin
from tests.api.search.calls import found, search
from tests.api.search.conftest import Settle

TEXTS = [
    "the green tea", "Green apples and TEA", "a café in Köln", "call foo_bar(10.0.0.1)", "会議は明日です", "tea time",
]  # fmt: skip


@pytest.fixture
async def people(api: Api) -> tuple[str, str]:
    alice, bob = await api.create_users("alice", "bob")
    for text in TEXTS:
        await api.send(alice, bob, text)
    return alice, bob


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", ["tea time", "Green apples and TEA", "the green tea"]),
        ("green tea", ["Green apples and TEA", "the green tea"]),
        ('"green tea"', ["the green tea"]),
        ("tea -green", ["tea time"]),
        ('tea -"green tea"', ["tea time", "Green apples and TEA"]),
        ("gre", ["Green apples and TEA", "the green tea"]),
        ("gre tea", []),
        ('"gre"', []),
        ("CAFE koln", ["a café in Köln"]),
        ("foo_bar", ["call foo_bar(10.0.0.1)"]),
        ("10.0.0.1", ["call foo_bar(10.0.0.1)"]),
        ("会議", ["会議は明日です"]),
        ("明日", ["会議は明日です"]),
        ("nothing", []),
    ],
)
async def test_words_phrases_and_beginnings_find_messages_and_exclusions_apply(
    api: Api, people: tuple[str, str], settle: Settle, query: str, expected: list[str]
) -> None:
    await settle()
    for user in people:
        assert await found(api, user, query) == expected


async def test_a_result_has_the_message_and_where_its_words_are(
    api: Api, people: tuple[str, str], settle: Settle
) -> None:
    alice, bob = people
    await settle()
    (edge,) = (await search(api, bob, '"green tea"'))["edges"]
    message = edge["node"]
    assert (message["content"], message["sender"]) == ("the green tea", {"id": alice})
    assert (message["conversationId"], message["seq"]) == (private_id(alice, bob), 1)
    start, end = edge["highlights"][0]["start"], edge["highlights"][-1]["end"]
    assert message["content"][start:end] == "green tea"


async def test_highlights_count_code_points(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "😀😀 straße straße")
    await settle()
    (edge,) = (await search(api, bob, "STRASSE"))["edges"]
    assert edge["highlights"] == [{"start": 3, "end": 9}, {"start": 10, "end": 16}]


async def test_an_edited_message_is_found_by_its_new_text_only(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "old walnut"))["message"]["id"]
    await settle()
    await api.edit(alice, message, "new hazelnut")
    await settle()
    for user in (alice, bob):
        assert await found(api, user, "hazelnut") == ["new hazelnut"]
        assert await found(api, user, "walnut") == []


async def test_a_recalled_message_is_not_found(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "a secret walnut"))["message"]["id"]
    await settle()
    assert await found(api, bob, "walnut") == ["a secret walnut"]
    await api.recall(alice, message)
    await settle()
    assert await found(api, alice, "walnut") == await found(api, bob, "walnut") == []


async def test_announcements_of_the_server_are_not_found(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol, name="walnut")
    message = (await api.send(alice, group, "walnut"))["message"]["id"]
    await pin(api, alice, message)
    await api.send(make_caller("service", CallerRole.SERVICE), group, "walnut news", contentType="SYSTEM")
    await settle()
    assert await found(api, bob, "walnut") == ["walnut"]


async def test_a_user_without_conversations_finds_nothing(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    page = await search(api, alice, "word")
    assert (page["edges"], page["totalAtLeast"], page["complete"]) == ([], 0, True)
    assert page["pageInfo"] == {
        "hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None,
    }  # fmt: skip
    assert page["indexedUpTo"] > 1_700_000_000_000


async def test_a_service_that_acts_for_a_user_finds_what_the_user_finds(api: Api, people: tuple[str, str]) -> None:
    alice, _ = people
    acting = make_caller(alice, CallerRole.SERVICE)
    assert await found(api, acting, "tea -green") == ["tea time"]
    other = make_caller("service", CallerRole.SERVICE)
    assert await found(api, other, "tea -green") == []
