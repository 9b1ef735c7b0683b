"""The SSRF table: addresses that are refused before one byte was sent, not even a request for a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.previews.fetching.fetcher import FetchBudget
from resolvers.web_requests.errors import AddressRefused, FetchFailed
from tests.previews.site import Names, Site, answer, fetcher_for, open_site, redirect

PUBLIC = "93.184.215.14"

NAMES = {
    "localhost": [["127.0.0.1"]],
    "localhost.localdomain": [["::1"]],
    "private.example": [["10.1.2.3"]],
    "metadata.google.internal": [["169.254.169.254"]],
    "one-of-several.example": [[PUBLIC, "127.0.0.1"]],
    "first-of-several.example": [["127.0.0.1", PUBLIC]],
    "zone.example": [["fe80::1%lo"]],
}

REFUSED = [
    # Loopback in every form that a resolver understands.
    "http://127.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://\uff11\uff12\uff17.0.0.1:{port}/",
    "http://127\u30020\u30020\u30021:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://[::]:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::ffff:0:127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b:1::127.0.0.1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST:{port}/",
    "http://localhost.localdomain:{port}/",
    # Other addresses that are not public.
    "http://169.254.169.254/latest/meta-data/",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/",
    "http://metadata.google.internal/",
    "http://[::ffff:10.0.0.1]/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://private.example/",
    "http://zone.example/",
    # One private address among several is enough.
    "http://one-of-several.example:{port}/",
    "http://first-of-several.example:{port}/",
    # Other schemes, ports and forms.
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/",
    "ftp://127.0.0.1:{port}/",
    "//127.0.0.1:{port}/",
    "http:///",
    "http://public.example:22/",
    "http://public.example:8080/",
    "https://public.example:6379/",
    "http://user:pw@public.example/",
    "http://public.example:80@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@public.example/",
    "http://public.example\r\nHost: 127.0.0.1/",
]

NOT_RESOLVED = ["http://127.0.0.1.:{port}/", "http://%31%32%37.0.0.1:{port}/", "http://[::1%25lo]:{port}/"]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        opened.answers["/"] = answer("<title>internal</title>")
        yield opened


async def fetch(site: Site, url: str, names: Names | None = None, *, allowed: bool = False) -> bytes:
    content = b""
    async with fetcher_for(site, names, allowed=allowed).get(url, FetchBudget(1_048_576, 60.0), "*/*") as response:
        async for piece in response.pieces:
            content += piece
    return content


@pytest.mark.parametrize("url", REFUSED)
async def test_an_address_is_refused_before_a_connection(site: Site, url: str) -> None:
    with pytest.raises(AddressRefused):
        await fetch(site, url.format(port=site.port), Names(NAMES | {"public.example": [[PUBLIC]]}))
    assert (site.connections, site.requests) == (0, [])


@pytest.mark.parametrize("url", NOT_RESOLVED)
async def test_an_unusual_form_that_is_not_resolved_fails_before_a_connection(site: Site, url: str) -> None:
    with pytest.raises(FetchFailed, match="not resolved"):
        await fetch(site, url.format(port=site.port))
    assert site.connections == 0


async def test_the_listener_of_this_table_is_reached_when_loopback_is_allowed(site: Site) -> None:
    for host in ("127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"):
        assert await fetch(site, f"http://{host}:{site.port}/", Names(NAMES), allowed=True)
    assert site.connections == 4


async def test_a_name_is_resolved_once_and_the_connection_goes_to_the_judged_address(site: Site) -> None:
    """The second answer of the resolver would lead elsewhere."""
    names = Names({"rebinding.example": [["127.0.0.1"], ["10.0.0.1"]]})
    assert await fetch(site, site.url(host="rebinding.example"), names, allowed=True)
    assert names.asked == ["rebinding.example"]
    assert f"Host: rebinding.example:{site.port}\r\n" in site.requests[0]


async def test_a_name_that_is_private_the_second_time_is_refused_then(site: Site) -> None:
    names = Names({"rebinding.example": [["127.0.0.1"], ["10.0.0.1"]]})
    site.answers["/"] = redirect("/again")
    with pytest.raises(AddressRefused):
        await fetch(site, site.url(host="rebinding.example"), names, allowed=True)
    assert (names.asked, site.connections) == (["rebinding.example"] * 2, 1)


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "data:text/html,x",
        "http://10.0.0.1/",
        "http://[::ffff:10.0.0.1]/",
        "//10.0.0.1/",
        "http://private.example/",
        "http://169.254.169.254/latest/",
        "http://site.example:22/",
        "http://site.example:1/",
        "http://user:pw@site.example:{port}/target",
        "http://[::1/",
    ],
)
async def test_a_redirect_to_a_refused_address_is_refused(site: Site, location: str) -> None:
    site.answers |= {"/": redirect(location.format(port=site.port)), "/target": answer("reached")}
    with pytest.raises(FetchFailed):
        await fetch(site, site.url(), Names(NAMES | {"site.example": [["127.0.0.1"]]}), allowed=True)
    assert site.paths == ["/"]


async def test_three_redirects_are_followed_and_no_fourth(site: Site) -> None:
    site.answers = {f"/{step}": redirect(f"{step + 1}") for step in range(4)} | {"/4": answer("end")}
    with pytest.raises(FetchFailed, match="redirects"):
        await fetch(site, site.url("/0"), allowed=True)
    assert site.paths == ["/0", "/1", "/2", "/3"]
    assert await fetch(site, site.url("/1"), allowed=True) == b"end"


async def test_a_redirect_loop_ends(site: Site) -> None:
    site.answers["/"] = redirect("/")
    with pytest.raises(FetchFailed, match="redirects"):
        await fetch(site, site.url(), allowed=True)
    assert site.connections == 4


async def test_a_request_carries_no_cookies_and_no_credentials(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    first = answer("", status="302 Found", Location="/next", Set_Cookie="session=1; Path=/")
    site.answers |= {"/": first, "/next": answer("end")}
    assert await fetch(site, site.url(), allowed=True) == b"end"
    names = {line.split(":")[0] for request in site.requests for line in request.split("\r\n")[1:] if line}
    assert names == {"Host", "User-Agent", "Accept", "Accept-Encoding", "Connection"}
