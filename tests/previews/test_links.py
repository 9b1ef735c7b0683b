"""Links are found as people write them."""

from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.previews.links import MAX_LINKS, find_links, has_link

TEXTS: dict[str, list[str]] = {
    "no link": [],
    "http://xn-- and http://xn--a": [],
    "https://a.example": ["https://a.example"],
    "See https://a.example/b.": ["https://a.example/b"],
    "(https://a.example/b), and": ["https://a.example/b"],
    "https://en.wikipedia.org/wiki/A_(B)_(C)": ["https://en.wikipedia.org/wiki/A_(B)_(C)"],
    "(see https://a.example/x_(y))": ["https://a.example/x_(y)"],
    "[title](https://a.example/p_(1)/) more": ["https://a.example/p_(1)/"],
    "[https://a.example/]": ["https://a.example/"],
    "**https://a.example/** _https://b.example/_": ["https://a.example/", "https://b.example/"],
    "~~https://a.example/~~ ||https://b.example/||": ["https://a.example/", "https://b.example/"],
    "> https://a.example/?q=a&b=c#part!": ["https://a.example/?q=a&b=c#part"],
    '"https://a.example/" “https://b.example/” «https://c.example/»': [
        "https://a.example/",
        "https://b.example/",
        "https://c.example/",
    ],
    "it's https://a.example/it's'": ["https://a.example/it's"],
    "HTTPS://A.EXAMPLE/Path": ["HTTPS://A.EXAMPLE/Path"],
    "http://münchen.example/ü, http://例え.example/パス、日本": [
        "http://münchen.example/ü",
        "http://例え.example/パス",
    ],
    "見てhttps://a.example/。次": ["https://a.example/"],
    "https://a.example:8443/x https://a.example:8443/x": ["https://a.example:8443/x"],
    "https://a.example/\u202egpj.exe": ["https://a.example/"],
    "https://[2606:4700::1]/x": ["https://[2606:4700::1]/x"],
    "<https://a.example/> https://b.example/": ["https://b.example/"],
    "`https://a.example/` ``x ` https://b.example/`` https://c.example/": ["https://c.example/"],
    "```\nhttps://a.example/\n``` https://b.example/": ["https://b.example/"],
    "https://a.example/ ```https://b.example/": ["https://a.example/"],
    "a ` b https://a.example/": ["https://a.example/"],
    "xhttps://a.example/ ftp://b.example/ //c.example/ d.example javascript://e.example/": [],
    "https:// http:///x https://user:pw@a.example/ https://user@a.example/": [],
    "http://a.example:99999/ http://[::1/ http://a..example:x/": [],
    "https://a.example/" + "x" * 2048: [],
    " ".join(f"https://a.example/{n}" for n in range(9)): [f"https://a.example/{n}" for n in range(MAX_LINKS)],
}


@pytest.mark.parametrize("text", TEXTS)
def test_links_are_found_as_people_write_them(text: str) -> None:
    assert find_links(text) == TEXTS[text]


PIECES = st.lists(st.sampled_from([*"a.:/@?#[](){}<>`*\\ \0%é", "http://", "xn--", "```", "\ud800"])).map("".join)


@given(PIECES, PIECES)
def test_any_text_around_a_link_raises_nothing(before: str, after: str) -> None:
    assert len(find_links(f"{before}http://a.example/{after}")) <= MAX_LINKS


def test_links_take_time_in_proportion_to_the_length_of_the_text() -> None:
    """Compares texts of one and of eight times the longest length, so that no machine is too slow."""
    pieces = [
        "http://",
        "http://a",
        "http://a.",
        "http://a.b/(",
        "a",
        "(",
        ")",
        "`",
        "``",
        "` `` ",
        ".",
        "<",
        "h",
        "[]",
    ]
    for first, second in product(["", "http://a.b/", "`"], pieces):
        seconds = []
        for length in (4_000, 32_000):
            text = (first + second * length)[:length]
            runs = []
            for _ in range(3):
                start = time.thread_time()
                find_links(text)
                runs.append(time.thread_time() - start)
            seconds.append(min(runs))
        assert seconds[1] < max(40 * seconds[0], 0.05), (first, second, seconds)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_with_previews_has_a_link(text: str) -> None:
    assert has_link(text) or not TEXTS[text]


def test_an_address_without_a_preview_is_a_link_unless_it_is_code() -> None:
    assert find_links("<https://a.example/>") == []
    assert has_link("<https://a.example/>")
    for text in ("`https://a.example/`", "https://", "<https://user@a.example/>", "a.example"):
        assert not has_link(text)
