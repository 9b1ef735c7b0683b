"""Answers that would cost too much time, memory or CPU are cut off."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme

from resolvers.previews.fetching.connections import HEAD_BYTES
from resolvers.previews.fetching.fetcher import FetchBudget
from resolvers.previews.pages.page_reader import read_preview
from resolvers.web_requests.errors import FetchFailed, TooLarge
from tests.previews.site import Names, Site, answer, fetcher_for, open_site, redirect

MAX_BYTES = 1_048_576
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def endless(first: bytes, repeated: bytes, pause: float = 0.0) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Return an answer that ends only when the client closes the connection."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(repeated)
            await writer.drain()
            await asyncio.sleep(pause)

    return write


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


async def fetch(site: Site, *, seconds: float = 60.0, max_bytes: int = MAX_BYTES) -> bytes:
    content = bytearray()
    async with fetcher_for(site).get(site.url(), FetchBudget(max_bytes, seconds), "*/*") as response:
        try:
            async for piece in response.pieces:
                content += piece
        finally:
            assert len(content) <= max_bytes
    return bytes(content)


TOO_LONG = {
    "endless body": endless(HEAD + b"\r\n", b"x" * 65_536),
    "endless body in chunks": endless(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"
    ),
    "longer than announced limit": answer(b"x" * (MAX_BYTES + 1)),
    "endless headers": endless(HEAD, b"X-More: yes\r\n" * 1000),
    "one endless header": endless(HEAD + b"X-More: ", b"x" * 65_536),
    "endless interim answers": endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000),
    "gzip bomb": answer(gzip.compress(b"\0" * 30_000_000), Content_Encoding="gzip"),
    "endless trailers": endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-More: yes\r\n" * 1000),
}


@pytest.mark.parametrize("case", TOO_LONG)
async def test_an_answer_that_is_too_long_is_cut_off(site: Site, case: str) -> None:
    site.answers["/"] = TOO_LONG[case]
    with pytest.raises(FetchFailed):
        await fetch(site)


FAILS = {
    "tiny chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n",
    "shorter than announced": HEAD + b"Content-Length: 100\r\n\r\nx",
    "negative length": HEAD + b"Content-Length: -1\r\n\r\nx",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "unfinished chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
    "unknown encoding": answer("x", Content_Encoding="br"),
    "two encodings": answer(gzip.compress(gzip.compress(b"x")), Content_Encoding="gzip, gzip"),
    "not gzip": answer("x", Content_Encoding="gzip"),
    "truncated gzip": answer(gzip.compress(bytes(range(256)) * 100)[:-9], Content_Encoding="gzip"),
    "zlib called gzip": answer(zlib.compress(b"x"), Content_Encoding="gzip"),
    "no HTTP": b"SSH-2.0-OpenSSH_9.9\r\n",
    "closed at once": b"",
    "not found": answer("x", status="404 Not Found"),
    "server error": answer("x", status="503 Unavailable"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "switched protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "redirect without an address": answer("", status="302 Found"),
}


@pytest.mark.parametrize("case", FAILS)
async def test_an_answer_that_is_not_usable_fails(site: Site, case: str) -> None:
    site.answers["/"] = FAILS[case]
    with pytest.raises(FetchFailed):
        await fetch(site)


SLOW = {
    "no answer": endless(b"", b"", 0.01),
    "a byte at a time": endless(HEAD + b"Content-Length: 100000\r\n\r\n", b"x", 0.01),
    "a header at a time": endless(HEAD, b"X: y\r\n", 0.01),
    "slow redirects": endless(redirect("/")[:-2], b"X: y\r\n", 0.01),
}


@pytest.mark.parametrize("case", SLOW)
async def test_a_slow_answer_is_cut_off(site: Site, case: str) -> None:
    """Without the limit, these answers never end."""
    site.answers["/"] = SLOW[case]
    with pytest.raises(FetchFailed, match="time"):
        await fetch(site, seconds=0.2)


async def test_the_time_is_one_for_all_requests_of_a_fetch(site: Site) -> None:
    budget = FetchBudget(MAX_BYTES, 60.0)
    site.answers |= {"/": redirect("/slow"), "/slow": endless(HEAD, b"X: y\r\n", 0.01), "/end": answer("end")}
    fetcher = fetcher_for(site)
    async with fetcher.get(site.url("/end"), budget, "*/*"):
        await asyncio.sleep(0.01)
    assert budget.seconds < 60.0
    budget.seconds = 0.2
    with pytest.raises(FetchFailed, match="time"):
        async with fetcher.get(site.url(), budget, "*/*"):
            pass
    assert budget.seconds <= 0
    with pytest.raises(FetchFailed, match="time"):
        async with fetcher.get(site.url("/end"), budget, "*/*"):
            pass


async def test_the_bytes_are_counted_over_all_requests_of_a_fetch(site: Site) -> None:
    site.answers |= {"/": redirect("/end")[:-2] + b"X: " + b"x" * 3000 + b"\r\n\r\n", "/end": answer("x" * 8000)}
    assert len(await fetch(site, max_bytes=20_000)) == 8000
    with pytest.raises(TooLarge):
        await fetch(site, max_bytes=10_000)


async def test_a_page_that_takes_too_much_cpu_time_counts_as_far_as_it_was_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "<p>" * 5_000 + '<meta name="description" content="late">'
    site.answers["/"] = answer(f"<title>early</title>{late}")

    async def read() -> tuple[str | None, str | None]:
        embed = await read_preview(fetcher_for(site), site.url(), FetchBudget(MAX_BYTES, 60.0))
        assert embed is not None
        return embed.title, embed.description

    assert await read() == ("early", "late")
    monkeypatch.setattr("resolvers.previews.pages.page_reader._PARSING_SECONDS", -1.0)
    assert await read() == ("early", None)


async def test_a_name_that_is_never_resolved_is_given_up(site: Site) -> None:
    class Silent(Names):
        async def resolve(self, host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(FetchFailed, match="time"):
        async with fetcher_for(site, Silent()).get(site.url(), FetchBudget(MAX_BYTES, 0.1), "*/*"):
            pass


async def test_answers_within_the_limits_arrive_whole(site: Site) -> None:
    text = bytes(range(256)) * 4000
    compressed = gzip.compress(text)
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (compressed[:100], compressed[100:]))
    site.answers["/"] = answer(text)
    assert await fetch(site) == text
    site.answers["/"] = HEAD + b"\r\n" + text
    assert await fetch(site) == text
    encoded = HEAD + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n"
    site.answers["/"] = encoded
    assert await fetch(site) == text
    site.answers["/"] = HEAD + b"X: " + b"x" * (HEAD_BYTES - 20_000) + b"\r\nContent-Length: 1\r\n\r\nx"
    assert await fetch(site) == b"x"
    site.answers["/"] = answer(gzip.compress(b"x") + b"garbage", Content_Encoding="gzip")
    assert await fetch(site) == b"x"


# TLS.


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.mark.parametrize(
    ("certificate", "is_trusted", "is_accepted"),
    [
        ("site.example", True, True),
        ("other.example", True, False),
        ("127.0.0.1", True, False),
        ("site.example", False, False),
    ],
    ids=["right", "of another name", "of the address", "of an unknown authority"],
)
async def test_certificates_are_verified_against_the_name(
    authority: trustme.CA, certificate: str, is_trusted: bool, is_accepted: bool
) -> None:
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert(certificate).configure_cert(server)
    if is_trusted:
        authority.configure_trust(client)
    async with open_site(server) as site:
        site.answers["/"] = answer("secure")
        fetcher = fetcher_for(site, context=client)
        content = b""
        try:
            async with fetcher.get(site.url(scheme="https"), FetchBudget(MAX_BYTES, 60.0), "*/*") as response:
                content = b"".join([piece async for piece in response.pieces])
        except FetchFailed as error:
            assert "CERTIFICATE_VERIFY_FAILED" in str(error) or "certificate verify failed" in str(error)
        assert content == (b"secure" if is_accepted else b"")
        assert bool(site.requests) is is_accepted
