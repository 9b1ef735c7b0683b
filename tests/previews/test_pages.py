"""Contents of previews, whatever a page contains."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.previews.pages.charsets import PageDecoder
from resolvers.previews.pages.cleaning import clean_color, clean_pixels, clean_text, clean_time, clean_url
from resolvers.previews.pages.head_parser import HeadParser
from resolvers.previews.pages.metadata import embed_from_page
from store.previews.embed import MAX_DESCRIPTION, MAX_NAME, MAX_TITLE, Embed, EmbedKind

LINK = "https://site.example/a/page"


def read(page: str, oembed: dict[str, Any] | None = None) -> Embed | None:
    parser = HeadParser()
    for start in range(0, len(page), 7):
        parser.feed(page[start : start + 7])
    return embed_from_page(LINK, LINK, parser.head, oembed or {})


def meta(**values: str) -> str:
    return "".join(f'<meta property="{name.replace("_", ":", 1)}" content="{value}">' for name, value in values.items())


def test_a_page_without_anything_to_show_has_no_preview() -> None:
    for page in (
        "",
        "text",
        "<html><body><p>text",
        "<title> \n</title>",
        "<title>\u202e\u200b</title>",
        meta(og_type="x"),
    ):
        assert read(page) is None


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title>A &lt;b&gt; &amp; c</title>", "A <b> & c"),
        ("<title>first</title><title>second</title>", "first"),
        ("<svg><title>drawing</title></svg><title>page</title>", "page"),
        ("<title>tag</title>" + meta(twitter_title="card"), "card"),
        (meta(twitter_title="card", og_title="graph"), "graph"),
        ('<meta property="og:title" content=""><meta property="og:title" content="second">', "second"),
        ('<META NAME="OG:Title" CONTENT="upper case">', "upper case"),
        ("<title>\tline\r\n\x00\x07break\u2028s </title>", "line break s"),
        ("<title>a\u202eb\u2066c\u200fd\ufeffe</title>", "abcde"),
        (
            "<title>family \U0001f468\u200d\U0001f469 \u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645</title>",
            "family \U0001f468\u200d\U0001f469 \u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("<title>unclosed", None),
        ("<title>a</title><script>'<title>b</title>'</script>", "a"),
        ("<p>body first<meta property=og:title content=late>", "late"),
        ("<title>" + "x" * 5000 + "</title>", "x" * (MAX_TITLE - 1) + "…"),
    ],
)
def test_titles_are_plain_text_in_one_line(page: str, title: str | None) -> None:
    found = read(page)
    assert (found.title if found else None) == title


def test_every_text_has_a_limit() -> None:
    long = "y" * 20_000
    found = read(
        meta(og_title=long, og_description=long, og_site_name=long, author=long), {"author_name": long, "type": "rich"}
    )
    assert found is not None
    lengths = [len(text or "") for text in (found.title, found.description, found.site_name, found.author_name)]
    assert lengths == [MAX_TITLE, MAX_DESCRIPTION, MAX_NAME, MAX_NAME]
    assert found.kind is EmbedKind.RICH


def test_the_address_of_a_preview_is_the_link_whatever_the_page_claims() -> None:
    found = read(
        '<title>T</title><link rel="canonical" href="https://bank.example/">' + meta(og_url="https://bank.example/")
    )
    assert found is not None
    assert found.url == LINK


def test_a_site_that_names_an_address_as_its_author_has_none() -> None:
    found = read(meta(og_title="T", article_author="https://site.example/ann"))
    assert found is not None
    assert found.author_name is None


@pytest.mark.parametrize(
    ("metadata", "oembed", "kind"),
    [
        ({"og_type": "article"}, {}, EmbedKind.LINK),
        ({"og_type": "video.other"}, {}, EmbedKind.VIDEO),
        ({"og_video": "/v.mp4"}, {}, EmbedKind.VIDEO),
        ({}, {"type": "video"}, EmbedKind.VIDEO),
        ({}, {"type": "photo", "url": "/p.jpg"}, EmbedKind.LINK),
        ({}, {"type": ["video"]}, EmbedKind.LINK),
    ],
)
def test_the_type_follows_from_the_metadata(metadata: dict[str, str], oembed: dict[str, Any], kind: EmbedKind) -> None:
    found = read(meta(og_title="T", **metadata), oembed)
    assert found is not None
    assert found.kind is kind


def test_values_of_wrong_types_are_ignored() -> None:
    names = ("title", "author_name", "provider_name", "thumbnail_url", "url")
    wrong: dict[str, Any] = {name: {"a": [1]} for name in names}
    found = read("<title>T</title>", wrong | {"type": "photo", "width": "9" * 99, "height": -1})
    assert found == Embed(EmbedKind.LINK, True, LINK, title="T")


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("b.png", "https://site.example/a/b.png"),
        ("//cdn.example/b", "https://cdn.example/b"),
        (" /x y ", "https://site.example/x%20y"),
        ("javascript:alert(1)", None),
        ("data:image/png;base64,AA", None),
        ("file:///etc/passwd", None),
        ("https://u:p@site.example/", None),
        ("http://[::1", None),
        ("", None),
        ("x" * 3000, None),
        (None, None),
    ],
)
def test_addresses_are_absolute_and_of_the_web(value: object, url: str | None) -> None:
    assert clean_url(value, LINK) == url


def test_colours_numbers_and_times_have_one_form() -> None:
    colours = {"#ABC": "#aabbcc", "#012345": "#012345", "rgb(1, 2,255)": "#0102ff", "red": None, "#12": None, 7: None}
    assert {given: clean_color(given) for given in colours} == colours
    pixels = {
        "640": 640,
        "640px": 640,
        640: 640,
        "0": None,
        "-1": None,
        "9999999": None,
        "٣": None,
        "": None,
        1.5: None,
    }
    assert {given: clean_pixels(given) for given in pixels} == pixels
    times = {
        "2026-01-02T03:04:05Z": 1_767_323_045_000,
        "2026-01-02T03:04:05.678+00:00": 1_767_323_045_678,
        "2026-01-02": 1_767_312_000_000,
        "1960-01-01": None,
        "0001-01-01T00:00:00+14:00": None,
        "yesterday": None,
    }
    assert {given: clean_time(given) for given in times} == times
    assert clean_text("\ud800a", 5) == "a"


@pytest.mark.parametrize(
    ("page", "header"),
    [
        ("é 日本".encode(), None),
        ("é 日本".encode(), "utf-8"),
        ("\ufeffé 日本".encode("utf-16-le"), None),
        ("é 日本".encode("utf-16-be"), "utf-16be"),
        (b"<meta charset=gb2312>" + "é 日本".encode("gb18030"), None),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS">'
            + "日本 é".encode("cp932", "replace"),
            None,
        ),
        ("日本".encode("euc-jp"), "EUC-JP"),
        (b"<meta charset=utf-16>" + "é 日本".encode(), None),
        (b"<meta charset=zip>" + "é 日本".encode(), "rot13"),
        ("é".encode("latin-1"), None),
        ("é".encode("latin-1"), "iso-8859-1"),
    ],
)
def test_pages_are_decoded_as_they_declare(page: bytes, header: str | None) -> None:
    text = PageDecoder(header).decode(page)
    assert "日本" in text or text == "é"


def test_a_character_between_two_pieces_is_decoded() -> None:
    decoder, page = PageDecoder("utf-8"), "日本".encode()
    assert "".join(decoder.decode(page[at : at + 1]) for at in range(len(page))) == "日本"


def test_wrong_bytes_become_replacement_characters() -> None:
    assert PageDecoder("utf-8").decode(b"a\xff\xed\xa0\x80b").strip("\ufffd") in ("a" + "\ufffd" * 4 + "b",)


@pytest.mark.parametrize(
    "unit", ["<b><p>", "<a x=1>", "<table>", "<svg>", "</p>", "<!--", "<meta name=n%d content=x>", "&"]
)
def test_any_nesting_is_read_within_bounds(unit: str) -> None:
    page = "".join(unit % number if "%d" in unit else unit for number in range(3000))
    parser = HeadParser()
    parser.feed(f"<title>T</title>{page}")
    assert parser.head.title == "T"
    assert len(parser.head.metadata) <= 500


@pytest.mark.parametrize("element", ["script", "style", "p", "title"])
def test_a_long_text_does_not_break_a_page(element: str) -> None:
    parser = HeadParser()
    parser.feed(f"<{element}>")
    for _ in range(400):
        parser.feed('{"a": [1, 2, 3]}' * 64)
    parser.feed(f"</{element}>" + meta(og_title="late"))
    assert parser.head.metadata == {"og:title": "late"}


@pytest.mark.parametrize("content", ["x=y ", 'x=">" ', "x='>' "])
def test_a_tag_without_end_breaks_a_page(content: str) -> None:
    parser = HeadParser()
    parser.feed("<title>T</title><meta ")
    for _ in range(300):
        parser.feed(content * 256)
    assert parser.is_complete
    parser.feed("><title>U</title>" + meta(og_title="late"))
    assert (parser.head.title, parser.head.metadata) == ("T", {})
