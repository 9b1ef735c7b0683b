"""Signed addresses: what is accepted, for how long, and by which servers."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvers.base.file_addresses import FileAddresses, end_of_validity, picture_name
from server.settings import load_settings
from server.settings.public_url import public_url
from store.base.errors import Unreachable
from store.files.file import FileId
from tests.clock import START_MS, ManualClock

KEY, OTHER_KEY = b"a" * 32, b"b" * 32
FILE = FileId(7)


class Issuer(FileAddresses):
    """Addresses with a clock and keys that a test changes."""

    def __init__(self, *keys: bytes) -> None:
        self.clock, self.keys = ManualClock(), list(keys)
        super().__init__("https://chat.example.org", self.clock, lambda: self.keys)


def parts_of(address: str) -> dict[str, str]:
    """Return the arguments of `accepts_file` for an address."""
    split = urlsplit(address)
    _, files, file, variant, name = split.path.split("/")
    assert files == "files"
    query = {key: value for key, (value,) in parse_qs(split.query, strict_parsing=True).items()}
    number = file.removeprefix("f_")
    return {
        "file": number,
        "variant": variant,
        "filename": unquote(name),
        "until": query["until"],
        "signature": query["sig"],
    }


@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_an_issued_address_is_accepted_with_any_filename(name: str) -> None:
    issuer = Issuer(KEY)
    address = issuer.file(FILE, name, 320)
    assert address.isascii() and address.isprintable() and " " not in address
    parts = parts_of(address)
    assert issuer.accepts_file(**parts)
    assert parts["filename"] == (name if name.strip(".") else "file")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("file", "8"),
        ("file", "07"),
        ("file", ""),
        ("variant", "640"),
        ("variant", "file"),
        ("variant", "0320"),
        ("filename", "page.html"),
        ("filename", ""),
        ("until", str(end_of_validity(START_MS) + 1)),
        ("until", "9999999999"),
        ("until", ""),
        ("until", "soon"),
        ("until", "٣"),
        ("signature", ""),
        ("signature", "A" * 43),
        ("signature", "ä"),
        ("signature", "\ud800"),
    ],
)
def test_an_address_with_another_part_is_refused(part: str, value: str) -> None:
    issuer = Issuer(KEY)
    parts = parts_of(issuer.file(FILE, "photo.jpg", 320))
    assert not issuer.accepts_file(**parts | {part: value})


def test_every_character_of_the_signature_counts() -> None:
    issuer = Issuer(KEY)
    parts = parts_of(issuer.file(FILE, "photo.jpg"))
    signature = parts["signature"]
    for place, character in enumerate(signature):
        changed = signature[:place] + ("A" if character != "A" else "B") + signature[place + 1 :]
        assert not issuer.accepts_file(**parts | {"signature": changed})
    assert not issuer.accepts_file(**parts | {"signature": signature + "="})
    assert not issuer.accepts_file(**parts | {"signature": signature[:-1]})


def test_parts_cannot_be_moved_into_each_other() -> None:
    issuer = Issuer(KEY)
    parts = parts_of(issuer.file(FILE, "1800000000\nphoto.jpg"))
    until = parts["until"]
    moved = {"file": "7\nfile", "variant": until, "until": "1800000000", "filename": "photo.jpg"}
    assert not issuer.accepts_file(signature=parts["signature"], **moved)


def test_an_address_serves_one_purpose() -> None:
    issuer = Issuer(KEY)
    upload = {key: value for key, (value,) in parse_qs(urlsplit(issuer.upload(FILE, START_MS + 1)).query).items()}
    assert issuer.accepts_upload("7", upload["until"], upload["sig"])
    assert not issuer.accepts_upload("8", upload["until"], upload["sig"])
    assert not issuer.accepts_file("7", "file", "photo.jpg", upload["until"], upload["sig"])
    parts = parts_of(issuer.file(FILE, "photo.jpg"))
    assert not issuer.accepts_upload("7", parts["until"], parts["signature"])


def test_a_picture_has_the_address_that_was_signed() -> None:
    issuer, source = Issuer(KEY), "https://example.org/a b.png?x=1&y=2#top"
    split = urlsplit(issuer.picture(source))
    query = {key: value for key, (value,) in parse_qs(split.query).items()}
    assert split.path == f"/previews/{picture_name(source)}"
    assert query["url"] == source
    assert issuer.accepts_picture(source, query["until"], query["sig"])
    assert not issuer.accepts_picture(f"{source}x", query["until"], query["sig"])


@given(now=st.integers(min_value=0, max_value=4_000_000_000_000))
def test_an_address_is_valid_for_an_hour_and_five_minutes_more_at_most(now: int) -> None:
    until = end_of_validity(now)
    assert until % 300 == 0
    assert 3600 * 1000 <= until * 1000 - now < 3900 * 1000


def test_an_address_ends_with_its_time() -> None:
    issuer = Issuer(KEY)
    parts = parts_of(issuer.file(FILE, "photo.jpg"))
    end = int(parts["until"]) * 1000
    issuer.clock.ms = end - 1
    assert issuer.accepts_file(**parts)
    issuer.clock.ms = end
    assert not issuer.accepts_file(**parts)


def test_answers_within_five_minutes_have_the_same_address() -> None:
    issuer = Issuer(KEY)
    issuer.clock.ms = 1_800_000_000_001
    first = issuer.file(FILE, "photo.jpg")
    issuer.clock.ms = 1_800_000_300_000
    assert issuer.file(FILE, "photo.jpg") == first
    issuer.clock.ms += 1
    assert issuer.file(FILE, "photo.jpg") != first


def test_keys_are_replaced_without_refusing_addresses() -> None:
    before, both, after = Issuer(KEY), Issuer(OTHER_KEY, KEY), Issuer(OTHER_KEY)
    old, new = (parts_of(issuer.file(FILE, "photo.jpg")) for issuer in (before, both))
    assert both.accepts_file(**old) and both.accepts_file(**new) and after.accepts_file(**new)
    assert not after.accepts_file(**old)
    assert not before.accepts_file(**new)


def test_without_a_key_nothing_is_issued_or_accepted() -> None:
    parts, issuer = parts_of(Issuer(KEY).file(FILE, "photo.jpg")), Issuer()
    with pytest.raises(Unreachable):
        issuer.file(FILE, "photo.jpg")
    with pytest.raises(Unreachable):
        issuer.accepts_file(**parts)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"host": "0.0.0.0", "port": 9000}, "http://localhost:9000"),
        ({"host": "::"}, "http://localhost:8000"),
        ({"host": "::1"}, "http://[::1]:8000"),
        ({"host": "chat.example.org", "port": 80}, "http://chat.example.org:80"),
        ({"host": "0.0.0.0", "public_url": "https://chat.example.org/"}, "https://chat.example.org"),
        ({"public_url": "http://[::1]:8000/confab/"}, "http://[::1]:8000/confab"),
    ],
)
def test_addresses_begin_with_the_public_url(given: dict[str, str], url: str) -> None:
    assert public_url(load_settings(**given)) == url
