"""The client that sends pushes and webhooks: it connects to judged addresses only, whatever a name resolves to."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trustme

from resolvers.web_requests.addresses import AddressRules, outgoing_rules
from resolvers.web_requests.errors import AddressRefused
from resolvers.web_requests.public_client import PublicTransport, open_public_client
from tests.previews.site import Names, Site, answer, open_site, redirect

PUBLIC = "93.184.215.14"
RULES = outgoing_rules(allow_loopback=True)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        opened.answers["/"] = answer("here")
        yield opened


@asynccontextmanager
async def open_client(
    rules: AddressRules = RULES, names: Names | None = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    resolver = names or Names({"site.example": [["127.0.0.1"]]})
    transport = PublicTransport(rules, resolver.resolve, ssl_context=context)
    async with open_public_client(transport, user_agent="test agent", seconds=20.0) as client:
        yield client


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.1.2.3"],
        ["169.254.169.254"],
        ["::1"],
        ["fe80::1%lo"],
        ["::ffff:127.0.0.1"],
        [PUBLIC, "10.1.2.3"],
    ],
)
async def test_a_name_with_a_private_address_is_refused_before_a_connection(site: Site, addresses: list[str]) -> None:
    async with open_client(outgoing_rules(allow_loopback=False), Names({"site.example": [addresses]})) as client:
        with pytest.raises(httpx.ConnectError, match="refused"):
            await client.get(site.url())
    assert site.connections == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.0.0.1", "127.1", "[::ffff:127.0.0.1]"])
async def test_loopback_in_every_form_is_refused(site: Site, host: str) -> None:
    async with open_client(outgoing_rules(allow_loopback=False)) as client:
        with pytest.raises(httpx.ConnectError, match="refused"):
            await client.get(f"https://{host}:{site.port}/")
    assert site.connections == 0


async def test_each_new_connection_is_judged_again(site: Site) -> None:
    names = Names({"site.example": [["127.0.0.1"], ["10.0.0.1"]]})
    async with open_client(names=names) as client:
        await client.get(site.url(), headers={"Connection": "close"})
        with pytest.raises(httpx.ConnectError, match="refused"):
            await client.get(site.url())
    assert (len(names.asked), site.connections) == (2, 1)


async def test_the_next_address_of_a_host_is_tried_if_one_does_not_answer(site: Site) -> None:
    names = Names({"site.example": [["127.255.255.254", "127.0.0.1"]]})
    async with open_client(names=names) as client:
        assert (await client.get(site.url())).text == "here"


async def test_redirects_are_not_followed_and_cookies_not_kept(site: Site) -> None:
    first = answer("", status="302 Found", Location="/next", Set_Cookie="session=1; Path=/")
    site.answers |= {"/": first, "/next": redirect("/")}
    async with open_client() as client:
        assert (await client.get(site.url())).status_code == 302
        await client.get(site.url("/next"))
    assert site.paths == ["/", "/next"]
    assert all("cookie" not in request.lower() for request in site.requests)


async def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    async with open_client() as client:
        assert (await client.get(site.url())).text == "here"


@pytest.mark.parametrize(
    ("is_trusted", "host"), [(True, "site.example"), (False, "site.example"), (True, "other.example")]
)
async def test_certificates_are_verified_against_the_name_of_the_host(is_trusted: bool, host: str) -> None:
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("site.example").configure_cert(serving)
    if is_trusted:
        authority.configure_trust(trusting)
    names = Names({name: [["127.0.0.1"]] for name in ("site.example", "other.example")})
    async with open_site(serving) as site, open_client(names=names, context=trusting) as client:
        site.answers["/"] = answer("here")
        if is_trusted and host == "site.example":
            assert (await client.get(site.url(host=host, scheme="https"))).text == "here"
            return
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(site.url(host=host, scheme="https"))
        assert site.requests == []


@pytest.mark.parametrize(
    ("url", "allow_loopback", "is_allowed"),
    [
        ("https://hooks.example/x", False, True),
        ("https://hooks.example:8443/x?y=1", False, True),
        ("http://hooks.example/x", False, False),
        ("http://hooks.example/x", True, False),
        ("http://127.0.0.1:9000/x", False, False),
        ("http://127.0.0.1:9000/x", True, True),
        ("http://localhost:9000/x", True, True),
        ("http://[::1]:9000/x", True, True),
        ("http://10.0.0.1/x", True, False),
        ("https://user:pw@hooks.example/", False, False),
        ("https://user@hooks.example/", False, False),
        ("ftp://hooks.example/", False, False),
        ("https:///x", False, False),
        ("hooks.example", False, False),
        ("", False, False),
        (f"https://hooks.example/{'x' * 5000}", False, False),
    ],
)
def test_addresses_must_be_https_unless_they_are_on_an_allowed_loopback(
    url: str, allow_loopback: bool, is_allowed: bool
) -> None:
    rules = outgoing_rules(allow_loopback=allow_loopback)
    if is_allowed:
        assert rules.parse(url).host
        return
    with pytest.raises(AddressRefused):
        rules.parse(url)
