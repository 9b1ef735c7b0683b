"""Links to a site on loopback, from the sent message to the preview with its picture."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.previews.pictures import Pictures
from resolvers.previews.preview_fetcher import PreviewFetcher
from tests.api.client import Api
from tests.api.previews.site import EVENTS, find, send, titles
from tests.previews.site import Site, answer, fetcher_for, open_site, png

PAGE = """<html><head><title>Tea</title>
    <meta property="og:title" content="All about tea"><meta property="og:site_name" content="Teas">
    <meta property="og:description" content="Green, black &amp; white."><meta property="og:image" content="/cup.png">
    <meta name="theme-color" content="#336699"></head><body>x</body></html>"""


@pytest.fixture
async def web(api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A site that the process may fetch from, although it is on loopback."""
    app = api.services.app
    async with open_site() as site:
        fetcher = fetcher_for(site)
        assert app.inspector is not None
        pictures = Pictures(app.store, app.inspector, fetcher, app.limits.max_file_bytes)
        previews = PreviewFetcher(app.store.preview_cache, fetcher, pictures)
        monkeypatch.setattr(app.previews, "is_enabled", True)
        monkeypatch.setattr(app.previews, "find_preview", previews.find_or_fetch)
        yield site
        await api.wait_until_idle()


async def test_a_page_is_shown_with_its_picture_and_fetched_once(api: Api, web: Site) -> None:
    web.answers |= {"/tea": answer(PAGE), "/cup.png": answer(png(640, 480), "image/png")}
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    await send(api, alice, group, f"look: {web.url('/tea')}, it is good")
    created, updated = await device.take(2)
    assert (created["message"]["embeds"], updated["__typename"]) == ([], "MessageUpdated")
    (embed,) = updated["message"]["embeds"]
    picture = embed.pop("image") or embed.pop("thumbnail")
    assert (embed["type"], embed["url"], embed["siteName"]) == ("LINK", web.url("/tea"), "Teas")
    assert (embed["title"], embed["description"]) == ("All about tea", "Green, black & white.")
    assert "/previews/" in picture["url"] and not picture["url"].startswith(web.url())
    assert (picture["width"], picture["height"]) == (640, 480)
    second = await send(api, bob, group, web.url("/tea"))
    assert titles(await find(api, alice, second)) == ["All about tea"]
    assert web.paths == ["/tea", "/cup.png"]


async def test_a_page_that_says_nothing_has_no_preview(api: Api, web: Site) -> None:
    web.answers["/empty"] = answer("<html></html>")
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    device = await api.listen(bob, EVENTS)
    sent = await send(api, alice, group, f"{web.url('/empty')} {web.url('/missing')}")
    assert (await device.next())["__typename"] == "MessageCreated"
    await device.expect_no_event(0.05)
    assert (await find(api, bob, sent))["embeds"] == [] and sorted(web.paths) == ["/empty", "/missing"]


async def test_addresses_that_are_not_public_are_not_connected_to(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.services.app.previews, "is_enabled", True)
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    async with open_site() as site:
        sent = await send(api, alice, group, f"http://127.0.0.1:{site.port}/ http://localhost:{site.port}/")
        assert (await find(api, bob, sent))["embeds"] == []
        assert site.connections == 0
