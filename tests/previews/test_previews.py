"""Previews: what a page says, cached for a day, fetched once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
import pytest

from store.previews.embed import Embed, EmbedImage, EmbedKind
from tests.clock import DAY_MS, ManualClock
from tests.previews.conftest import Server
from tests.previews.site import Site, answer, png, redirect

HOUR_MS = 3_600_000
PAGE = """<!doctype html><html><head><meta charset="utf-8"><title>Fallback</title>
<meta property="og:title" content="A &amp; B"><meta property="og:description" content="Two
lines"><meta property="og:site_name" content="Site"><meta name="author" content="Ann">
<meta name="theme-color" content="#0AF"><meta property="og:image" content="/wide.png">
<meta property="article:published_time" content="2026-01-02T03:04:05+01:00"></head><body>"""


async def test_a_preview_has_what_the_page_says_and_the_size_of_its_picture(site: Site, server: Server) -> None:
    site.answers |= {"/a?q=1": answer(PAGE), "/wide.png": answer(png(400, 200), "image/png")}
    link = site.url("/a?q=1#part")
    assert await server.previews.find_or_fetch(link) == Embed(
        EmbedKind.LINK,
        True,
        link,
        title="A & B",
        description="Two lines",
        site_name="Site",
        author_name="Ann",
        color="#00aaff",
        image=EmbedImage(site.url("/wide.png"), 400, 200),
        published_ms=1_767_319_445_000,
    )
    assert site.paths == ["/a?q=1", "/wide.png"]


async def test_a_result_is_kept_for_a_day_and_a_failure_for_an_hour(
    site: Site, server: Server, new_server: Callable[[], Server], clock: ManualClock
) -> None:
    site.answers["/page"] = answer("<title>Page</title>")
    other = new_server()
    for _ in range(2):
        for one in (server, other):
            found = await one.previews.find_or_fetch(site.url("/page"))
            assert found is not None
            assert found.title == "Page"
            assert await one.previews.find_or_fetch(site.url("/missing")) is None
    assert site.paths == ["/page", "/missing"]
    clock.ms += HOUR_MS + 1
    site.answers["/missing"] = answer("<title>Found</title>")
    assert await other.previews.find_or_fetch(site.url("/page#other"))
    assert await other.previews.find_or_fetch(site.url("/missing"))
    assert site.paths == ["/page", "/missing", "/missing"]
    clock.ms += DAY_MS
    del site.answers["/page"]
    assert await other.previews.find_or_fetch(site.url("/page")) is None
    assert site.paths[3:] == ["/page"]


async def test_a_page_is_fetched_once_however_many_ask_for_it(site: Site, server: Server) -> None:
    site.answers["/page"] = answer("<title>Page</title>")
    found = await asyncio.gather(*(server.previews.find_or_fetch(site.url("/page")) for _ in range(20)))
    assert all(found)
    assert site.paths == ["/page"]


async def test_a_link_to_a_picture_is_a_picture(site: Site, server: Server) -> None:
    site.answers |= {"/": redirect("/small"), "/small": answer(png(40, 20), "image/png")}
    link = site.url()
    expected = Embed(EmbedKind.IMAGE, True, link, image=EmbedImage(site.url("/small"), 40, 20))
    assert await server.previews.find_or_fetch(link) == expected


@pytest.mark.parametrize(
    ("head", "place"),
    [
        ('<meta property="og:image" content="/400">', "image"),
        ('<meta property="og:image" content="/200">', "thumbnail"),
        ('<meta name="twitter:card" content="summary"><meta name="twitter:image" content="/400">', "thumbnail"),
        ('<base href="/sub/"><link rel="image_src" href="../400">', "image"),
        ('<meta property="og:image" content="/missing">', None),
        ('<meta property="og:image" content="/page">', None),
        ('<meta property="og:image" content="/svg">', None),
        ('<meta property="og:image" content="/long">', None),
        ('<meta property="og:image" content="http://10.0.0.1/p.png">', None),
        ('<meta property="og:image" content="file:///p.png">', None),
        ('<meta property="og:image" content="data:image/png;base64,AAAA">', None),
    ],
)
async def test_a_picture_is_shown_only_if_it_can_be_served(
    site: Site, server: Server, head: str, place: str | None
) -> None:
    site.answers |= {f"/{width}": answer(png(width, 50), "image/png") for width in (200, 400)}
    site.answers |= {
        "/page": answer(f"<title>Page</title>{head}<body>"),
        "/svg": answer("<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        "/long": answer(b"\x89PNG\r\n\x1a\n" + b"x" * 2_000_000, "image/png"),
    }
    found = await server.previews.find_or_fetch(site.url("/page"))
    assert found is not None
    assert found.title == "Page"
    pictures = {"image": found.image, "thumbnail": found.thumbnail}
    assert {name for name, picture in pictures.items() if picture} == ({place} if place else set())


async def test_a_picture_without_a_page_that_cannot_be_served_is_no_preview(site: Site, server: Server) -> None:
    site.answers["/"] = answer("no picture", "image/png")
    assert await server.previews.find_or_fetch(site.url()) is None


async def test_data_of_oembed_complete_a_page(site: Site, server: Server) -> None:
    page = '<title>T</title><link rel="alternate" type="application/json+oembed" href="/o?url=x&amp;format=json"><body>'
    data = {
        "type": "video",
        "title": "Film",
        "author_name": "Bea",
        "provider_name": "Films",
        "thumbnail_url": "/400",
        "html": "<script>alert(1)</script>",
    }
    site.answers |= {
        "/film": answer(page),
        "/o?url=x&format=json": answer(orjson.dumps(data), "application/json"),
        "/400": answer(png(400, 50), "image/png"),
    }
    found = await server.previews.find_or_fetch(site.url("/film"))
    assert found is not None
    assert (found.kind, found.title, found.author_name, found.site_name) == (EmbedKind.VIDEO, "Film", "Bea", "Films")
    assert found.image == EmbedImage(site.url("/400"), 400, 50)


@pytest.mark.parametrize("body", [b"{", b"[1]", b"null", b"\xff", b"{" * 2000, b'"' + b"x" * 100_000 + b'"'])
async def test_broken_data_of_oembed_are_ignored(site: Site, server: Server, body: bytes) -> None:
    page = '<title>T</title><link rel="alternate" type="application/json+oembed" href="/o"><body>'
    site.answers |= {"/film": answer(page), "/o": answer(body, "application/json")}
    found = await server.previews.find_or_fetch(site.url("/film"))
    assert found is not None
    assert found.title == "T"


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/pdf", "video/mp4", ""])
async def test_other_types_have_no_preview(site: Site, server: Server, kind: str) -> None:
    site.answers["/"] = answer("<title>T</title>", kind)
    assert await server.previews.find_or_fetch(site.url()) is None


@pytest.mark.parametrize("link", ["", "http://", "http://[::1", "ftp://site.example/", "\ud800", "http://10.0.0.1/"])
async def test_links_that_cannot_be_fetched_have_no_preview(site: Site, server: Server, link: str) -> None:
    assert await server.previews.find_or_fetch(link) is None
    assert site.connections == 0


async def test_fetched_links_are_counted_by_outcome(site: Site, server: Server) -> None:
    site.answers |= {"/page": answer("<title>Page</title>"), "/film": answer("x", "video/mp4")}
    links = [site.url("/page"), site.url("/page"), site.url("/film"), site.url("/missing"), "http://10.0.0.1/"]
    for link in links:
        await server.previews.find_or_fetch(link)
    assert server.previews.outcomes == {"found": 1, "none": 1, "failed": 1, "refused": 1}
