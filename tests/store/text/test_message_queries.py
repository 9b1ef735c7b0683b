"""Queries for messages: what they find in a text, and where."""

from __future__ import annotations

import pytest

from store.text.message_query import NothingToFind, parse_message_query
from store.text.words import terms_of

CODE = "Use foo_bar on 10.0.0.1: C++, C# or .NET in #ubuntu, @bob (user@example.org) https://a.b/c?d=e :smile:"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
GERMANY, FRANCE = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"


def found_parts(query: str, text: str) -> list[str] | None:
    """Return the parts of a text that a query finds; also tests that the index would propose the text."""
    parsed = parse_message_query(query)
    ranges = parsed.find_in(text)
    if ranges is None:
        return None
    terms = terms_of(text)
    assert set(parsed.terms) <= terms
    assert any(term.startswith(parsed.beginning) for term in terms)
    assert parsed.terms or parsed.beginning
    return [text[start:end] for start, end in ranges]


@pytest.mark.parametrize(
    "query",
    ["foo_bar", "10.0.0.1", "C++", "C#", ".NET", "#ubuntu", "@bob", "user@example.org", "https://a.b/c?d=e", ":smile"],
)
def test_names_addresses_and_code_are_found_as_typed(query: str) -> None:
    assert found_parts(query, CODE) == [query]
    assert found_parts(f'"{query}"', CODE) == [query]
    assert found_parts(query.lower(), CODE.upper()) == [query.upper()]


@pytest.mark.parametrize(
    "query", ["foo", "bar", "ubuntu", "bob", "example", "example.org", "user", "net", "a.b", "smile"]
)
def test_parts_of_names_and_addresses_are_found(query: str) -> None:
    assert found_parts(f'"{query}"', CODE.lower())


@pytest.mark.parametrize("query", ["ubunt#", "oo_bar", "0.0.0.2", "@example.com", "c--", "b/d", "mile"])
def test_what_is_not_in_the_text_as_typed_is_not_found(query: str) -> None:
    assert found_parts(query, CODE) is None


@pytest.mark.parametrize(
    ("query", "text", "parts"),
    [
        ("hel", "Hello, shell", ["Hel"]),
        ('"hel"', "Hello", None),
        ("hel wor", "hello world", None),
        ("hello wor", "World: hello", ["Wor", "hello"]),
        ("hel -world", "hello", ["hel"]),
        ("hello -world", "hello world", None),
        ("hello -wor", "hello world", ["hello"]),
        ('hello -"big world"', "hello big, world", None),
        ('hello -"big world"', "hello world, big", ["hello"]),
        ("a-b", "a-b b", ["a-b"]),
        ("--help", "ls --help", ["--help"]),
        ("foo - & bar", "foo bar", ["foo", "bar"]),
        ('"foo bar"', "a foo, (bar)!", ["foo, (bar"]),
        ('"foo bar"', "foobar, bar foo", None),
        ('"foo bar', "foo bar baz", ["foo bar"]),
        ('"foo ba', "foo bar", None),
        ('foo"bar"', "bar foo", ["bar", "foo"]),
        ("\u201cfoo bar\u201d", "foo bar", ["foo bar"]),
        ('"C++ or C"', "in C++ or C", ["C++ or C"]),
        ("foo. (bar),", "foo bar", ["foo", "bar"]),
        ("foo foo", "foo foofoo foo", ["foo", "foo", "foo"]),
    ],
)
def test_words_and_phrases_are_found_and_exclusions_apply(query: str, text: str, parts: list[str] | None) -> None:
    assert found_parts(query, text) == parts


@pytest.mark.parametrize(
    ("query", "text", "parts"),
    [
        ("手机", "iPhone手机很好", ["手机"]),
        ("iphone", "iPhone手机很好", ["iPhone"]),
        ("iphone手", "iPhone手机很好", ["iPhone手"]),
        ("机", "iPhone手机", ["机"]),
        ('"机很"', "iPhone手机很好", ["机很"]),
        ("机手", "iPhone手机很好", None),
        ("手机 -很好", "iPhone手机很好", None),
        ("メの", "アニメの日本", ["メの"]),
        ("アニメ", "\uff71\uff86\uff92", ["\uff71\uff86\uff92"]),
        ("が", "か\u3099", ["か\u3099"]),
        ("か", "が", None),
        ("국어", "한국어를", ["국어"]),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8", ["\u1112\u1161\u11ab\u1100\u116e\u11a8"]),
        ("ㅠㅠ", "ㅋㅋㅠㅠ", ["ㅠㅠ"]),
        ("วัส", "สวัสดีครับ", ["วัส"]),
        ("люди", "людиHello", ["люди"]),
        ('"hello"', "людиHello", ["Hello"]),
        ("ДОМ", "дом", ["дом"]),
        ("οδός", "ΟΔΟΣ", ["ΟΔΟΣ"]),
        ("שלום", "שָׁלוֹם", ["שָׁלוֹם"]),
        ('צה"ל', "צה\u05f4ל", ["צה\u05f4ל"]),
        ('"צה"ל בא"', "ראו: צה\u05f4ל בא", ["צה\u05f4ל בא"]),
        ("कमल", "कमल है", ["कमल"]),
        ("मेरा", "मेरा", ["मेरा"]),
        ('"मर"', "मेर", None),
        ("cafe", "cafe\u0301!", ["cafe\u0301"]),
        ("CAFÉ", "cafe", ["cafe"]),
        ("strasse", "Straße", ["Straße"]),
        ("fi", "ﬁn", ["ﬁ"]),
        ("f", "ﬁn", ["ﬁ"]),
        ("abc", "\uff21\uff22\uff23", ["\uff21\uff22\uff23"]),
        ("oystein", "Øystein", ["Øystein"]),
        ("isik", "IŞIK \u0131ş\u0131k İşik", ["IŞIK", "\u0131ş\u0131k", "İşik"]),
        ("dont don't", "don\u2019t dont", ["don\u2019t", "dont"]),
        ("ab", "a\u200d\u00adb\u200f", ["a\u200d\u00adb\u200f"]),
        ("\u200fab\u200f", "ab", ["ab"]),
    ],
)
def test_words_of_many_scripts_are_found_and_highlighted(query: str, text: str, parts: list[str] | None) -> None:
    assert found_parts(query, text) == parts


@pytest.mark.parametrize(
    ("query", "text", "parts"),
    [
        (FAMILY, f"a{FAMILY}b", [FAMILY]),
        ("\U0001f44d", "\U0001f44d\U0001f3fd ok", ["\U0001f44d\U0001f3fd"]),
        ("\U0001f44d\U0001f3fd", "ok\U0001f44d", ["\U0001f44d"]),
        ("\u2764", "\u2764\ufe0f", ["\u2764\ufe0f"]),
        (GERMANY, GERMANY + FRANCE, [GERMANY]),
        (FRANCE, GERMANY + FRANCE, [FRANCE]),
        (GERMANY[1] + FRANCE[0], GERMANY + FRANCE, None),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3", ["1\ufe0f\u20e3"]),
    ],
)
def test_emoji_are_found_and_highlighted(query: str, text: str, parts: list[str] | None) -> None:
    assert found_parts(query, text) == parts


@pytest.mark.parametrize(
    "query",
    ["", " ", "\0", "\u200f", "-", '"', '""', '"-"', "-foo", '-"foo bar', "- - -", '"' * 256, "-" * 256, "->", "!"],
)
def test_a_query_without_words_is_refused(query: str) -> None:
    with pytest.raises(NothingToFind):
        parse_message_query(query)


@pytest.mark.parametrize(
    "query", ["$where", ".*", "a|b", "(?i)a+", "a\0b", "\ud800a", "[a", "a\\", "%s", " ".join(["a"] * 100)]
)
def test_operators_of_other_query_languages_are_plain_signs(query: str) -> None:
    if query == ".*":
        with pytest.raises(NothingToFind):
            parse_message_query(query)
    else:
        assert found_parts(query, f"x {query} y")
        assert found_parts(query, "xyz") is None
