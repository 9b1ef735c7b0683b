"""Hostile queries and texts: words with a meaning for databases, floods of signs, long terms, forged cursors."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from random import Random

import pytest

from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.invariants.search.searching import SEARCH, search, search_all
from tests.user_ids import private_id


@pytest.fixture(scope="module")
async def api(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("hostile") as api:
        yield api
        await api.wait_until_idle()


OPERATORS = (
    "$where", "$gt", "{$ne: null}", '{"$gt": ""}', ".*", "^a", "a$", "(", "(a", "[", "0", "\\", "\\d+", "a|b", "*", "?",
    "a*", "%", "_", "' OR 1=1 --", "$regex", "\ue000", "\u0001s", "\u0001", "\x1f", "$", "{}", "null", "true",
)  # fmt: skip
"""Texts that a database, a regular expression or an index could take for operators."""

WITHOUT_A_WORD = (
    "",
    " ",
    "\u3000",
    '"',
    '""',
    '"" ""',
    "-",
    "- -",
    '-"',
    '-""',
    "-a",
    '-"a b"',
    "-a -b",
    "\u200f",
    "\t\n",
)

INVISIBLE = ("\u200f", "\u200e", "\u202e", "\u2066", "\u2069", "\ufeff", "\u200b", "\u00ad", "\u2060")


@pytest.mark.parametrize("query", OPERATORS)
async def test_a_query_has_no_other_meaning_than_its_words(api: Api, query: str) -> None:
    anna, ben = await api.create_users("anna", "ben")
    for text in ("an apple", "bare", "0", "null"):
        await api.send(anna, ben, text)
    response = await api.run(ben, SEARCH, query=query)
    if "errors" in response:
        (error,) = response["errors"]
        assert (error["extensions"]["code"], error["extensions"]["field"]) == ("INVALID_INPUT", "query")
        return
    words = [edge["node"]["content"] for edge in response["data"]["searchMessages"]["edges"]]
    # A beginning of one letter is all of the query that these texts could match.
    letters = "".join(char for char in query.casefold() if char.isalnum())
    assert all(letters and any(part.startswith(letters[:1]) for part in text.split()) for text in words), words
    assert len(words) <= 2


@pytest.mark.parametrize("query", OPERATORS)
async def test_a_text_with_operators_is_found_as_typed(api: Api, query: str) -> None:
    anna, ben = await api.create_users("anna", "ben")
    for text in (f"before {query} after", "a decoy"):
        await api.send(anna, ben, text)
    response = await api.run(ben, SEARCH, query=f"{query} after")
    assert "errors" not in response, response
    assert [edge["node"]["content"] for edge in response["data"]["searchMessages"]["edges"]] == [
        f"before {query} after"
    ]


@pytest.mark.parametrize("query", WITHOUT_A_WORD)
async def test_a_query_without_a_word_to_find_is_refused(api: Api, query: str) -> None:
    (anna,) = await api.create_users("anna")
    assert await api.expect_refusal(anna, SEARCH, query=query) == Refusal("INVALID_INPUT", "query")


@pytest.mark.parametrize("query", ["a" * 257, "\0", "a\0b", "\ud800", "a \udfff"])
async def test_too_long_queries_and_those_that_are_no_text_are_refused(api: Api, query: str) -> None:
    (anna,) = await api.create_users("anna")
    assert await api.expect_refusal(anna, SEARCH, query=query) == Refusal("INVALID_INPUT", "query")


@pytest.mark.parametrize(
    "query",
    [
        '"' * 256,
        "-" * 256,
        '"-' * 128,
        '-"' * 128,
        "a" * 256,
        "a " * 128,
        "-a " * 85 + "b",
        " ".join(chr(0x4E00 + n) for n in range(100)),
        "会" * 256,
        "🎉" * 256,
        "e" + "\u0301" * 255,
        "\u0301" * 256,
        "👨‍👩‍👧‍👦" * 36,
        "\u202e" * 255 + "a",
        "ﷺ" * 256,
        "़" * 256,
        "//" * 128,
        "a.b" * 85,
        "\U000e0041" * 256,
    ],
)
async def test_any_query_of_256_characters_is_answered_at_once(api: Api, query: str) -> None:
    anna, ben = await api.create_users("anna", "ben")
    for text in ("a b", "会" * 400, "a.b" * 300, "e\u0301" * 300, "🎉" * 100, "ﷺ" * 200, "-" * 4000, '"' * 4000):
        await api.send(anna, ben, text)
    started = time.process_time()
    response = await api.run(ben, SEARCH, query=query)
    assert time.process_time() - started < 1.5
    if "errors" in response:
        (error,) = response["errors"]
        assert (error["extensions"]["code"], error["extensions"]["field"]) == ("INVALID_INPUT", "query")


async def test_a_hundred_words_have_to_occur_all(api: Api) -> None:
    anna, ben = await api.create_users("anna", "ben")
    words = [f"{chr(97 + n % 26)}{n:x}" for n in range(65)]
    whole = (await api.send(anna, ben, " ".join(words)))["message"]["id"]
    await api.send(anna, ben, " ".join(words[1:]))
    query = " ".join(reversed(words))
    assert len(query) <= 256
    assert (await search_all(api, ben, query)).ids == [whole]


@pytest.mark.parametrize("mark", INVISIBLE)
async def test_invisible_characters_around_words_change_nothing(api: Api, mark: str) -> None:
    anna, ben = await api.create_users("anna", "ben")
    plain = (await api.send(anna, ben, "salaam friend"))["message"]["id"]
    marked = (await api.send(anna, ben, f"{mark}salaam{mark} friend{mark}"))["message"]["id"]
    for query in ("salaam friend", f"{mark}salaam{mark} {mark}friend{mark}"):
        assert (await search_all(api, ben, query)).ids == [marked, plain]


@pytest.mark.parametrize("length", [24, 25, 60, 250])
async def test_long_words_are_found_whole_and_not_by_others_with_the_same_beginning(api: Api, length: int) -> None:
    anna, ben = await api.create_users("anna", "ben")
    for char in ("x", "会", "स", "-"):
        word = char * (length - 1)
        one, other = [(await api.send(anna, ben, f"w {word}{end} w"))["message"]["id"] for end in "ab"]
        assert (await search_all(api, ben, f'"{word}a"')).ids == [one]
        assert (await search_all(api, ben, f'"{word}b"')).ids == [other]


async def test_a_cursor_belongs_to_one_user_one_query_and_one_filter(api: Api) -> None:
    anna, ben, cleo = await api.create_users("anna", "ben", "cleo")
    group = await api.create_group(anna, ben, cleo)
    for number in range(5):
        await api.send(anna, group, f"apple pie {number}")
    page = await search(api, ben, "apple", None, 2)
    cursor = page["pageInfo"]["endCursor"]
    assert len((await search(api, ben, "apple", None, 2, cursor))["edges"]) == 2
    refused = Refusal("INVALID_INPUT", "after")
    others = (
        (cleo, "apple", None),
        (ben, "pie", None),
        (ben, "apple pie", None),
        (ben, "apple", {"senderIds": [anna]}),
        (ben, "apple", {"conversationIds": [group]}),
    )
    for user, query, filter_ in others:
        assert await api.expect_refusal(user, SEARCH, query=query, filter=filter_, after=cursor) == refused
    last = cursor[-2]
    for forged in (
        "",
        "x",
        cursor[:-1],
        cursor + "A",
        cursor.swapcase(),
        cursor[:-2] + chr(ord(last) ^ 1) + cursor[-1],
    ):
        assert await api.expect_refusal(ben, SEARCH, query="apple", after=forged) == refused


@pytest.mark.parametrize("first", [0, -1, 101])
async def test_pages_have_1_to_100_results(api: Api, first: int) -> None:
    (anna,) = await api.create_users("anna")
    assert await api.expect_refusal(anna, SEARCH, query="a", first=first) == Refusal("INVALID_INPUT", "first")


async def test_texts_of_4000_random_characters_have_a_bounded_index(api: Api) -> None:
    random, (anna, ben) = Random(25), await api.create_users("anna", "ben")
    texts = ["".join(chr(random.randint(0x4E00, 0x9FA0)) for _ in range(4_000)) for _ in range(60)]
    sent = await gather_all(*(api.send(anna, ben, text) for text in texts))
    ids = [answer["message"]["id"] for answer in sent]
    for number in (0, 30, 59):
        for start in (0, 1_999, 3_998):
            part = texts[number][start : start + 2]
            found = await search_all(api, ben, texts[number][start : start + 6] + " " + part)
            assert ids[number] in found.ids and found.complete
    await api.wait_until_idle()
    rows = list(api.database["search"].find({"c": private_id(anna, ben)}))
    # A Mongo document has at most 16 MiB. A pair of characters takes about 20 bytes, with its place in an index 60.
    assert sum(len(str(row)) for row in rows) < 60 * 4_000 * 80
