"""The type of a file comes from its bytes. Active content is never displayed."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from importlib.util import find_spec

import pytest

from resolvers.files.inspection.results import Inspected, RejectedFile, is_displayed
from tests.files.inspection.conftest import Inspect
from tests.files.inspection.media_samples import HEIC, MEDIA
from tests.files.inspection.samples import encode, gradient, read

OFFICE = "application/vnd.openxmlformats-officedocument"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
SCRIPT = "<script>alert(1)</script>"


def _zip(**files: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return content.getvalue()


def _office(folder: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr(f"{folder}/document.xml", "<document/>")
    return content.getvalue()


BYTES = {
    "PDF": (b"%PDF-1.7\n\xe2\xe3\n1 0 obj", "application/pdf"),
    "ZIP": (_zip(a="text"), "application/zip"),
    "broken ZIP": (b"PK\3\4" + bytes(50), "application/zip"),
    "Word": (_office("word"), f"{OFFICE}.wordprocessingml.document"),
    "Excel": (_office("xl"), f"{OFFICE}.spreadsheetml.sheet"),
    "PowerPoint": (_office("ppt"), f"{OFFICE}.presentationml.presentation"),
    "OpenDocument": (
        _zip(mimetype="application/vnd.oasis.opendocument.text"),
        "application/vnd.oasis.opendocument.text",
    ),
    "archive that calls itself a page": (_zip(mimetype="text/html"), "application/zip"),
    "EPUB": (_zip(mimetype="application/epub+zip"), "application/epub+zip"),
    "Android app": (_zip(**{"AndroidManifest.xml": "x"}), "application/vnd.android.package-archive"),
    "Java archive": (_zip(**{"META-INF__MANIFEST.MF": "x"}), "application/java-archive"),
    "gzip": (gzip.compress(b"text"), "application/gzip"),
    "Windows program": (b"MZ\x90\0" + bytes(60) + b"PE\0\0", "application/vnd.microsoft.portable-executable"),
    "Linux program": (b"\x7fELF\2\1\1" + bytes(60), "application/octet-stream"),
    "icon": (encode(gradient(16, 16), "ICO"), "image/x-icon"),
    "JPEG 2000": (encode(gradient(16, 16), "JPEG2000"), "application/octet-stream"),
    "random bytes": (bytes(range(256)), "application/octet-stream"),
    "text in Latin-1": ("Grüße".encode("latin-1"), "application/octet-stream"),
    "text in UTF-16": ("Grüße".encode("utf-16"), "application/octet-stream"),
    "page in UTF-16": (f"<html>{SCRIPT}".encode("utf-16"), "application/octet-stream"),
    "text in Shift JIS": ("こんにちは".encode("shift_jis"), "application/octet-stream"),
    "text with NUL": (b"text\0text", "application/octet-stream"),
    "page with NUL": (b"<html>\0" + SCRIPT.encode(), "application/octet-stream"),
    "brand of a video without a track": (
        struct.pack(">I", 24) + b"ftypisom\0\0\2\0isommp41",
        "application/octet-stream",
    ),
}

TEXTS = {
    "nothing": ("", "text/plain"),
    "words": ("Grüße, 世界 🙂\r\n\tEnde\n", "text/plain"),
    "words after a byte order mark": ("\ufeffGrüße", "text/plain"),
    "a program": ("if a < b: print(a)\n", "text/plain"),
    "words that begin like an image": ("BM is the code of Bermuda", "text/plain"),
    "words that begin like a GIF": ("GIF89a is a format", "text/plain"),
    "words that begin like a PDF": ("%PDF is a format", "text/plain"),
    "a page": ("<!DOCTYPE html><p>hello", "text/html"),
    "a fragment": (f" \n{SCRIPT}", "text/html"),
    "a paragraph": ("<p onclick=alert(1)>hello", "text/html"),
    "a page after a byte order mark": ("\ufeff<html>", "text/html"),
    "a page after words": ("hello\n" * 1000 + f"<html>{SCRIPT}", "text/html"),
    "an SVG": (SVG, "image/svg+xml"),
    "an SVG after a declaration": (f'<?xml version="1.0"?>\n{SVG}', "image/svg+xml"),
    "an SVG after a comment": (f"<!-- hello -->{SVG}", "image/svg+xml"),
    "XML": ('<?xml version="1.0"?><a/>', "application/xml"),
    "RTF": ("{\\rtf1 hello}", "application/rtf"),
}


@pytest.mark.parametrize("kind", BYTES)
async def test_type_comes_from_the_bytes(inspect: Inspect, kind: str) -> None:
    content, expected = BYTES[kind]
    for hint, filename in ((None, None), ("text/html", "a.html"), ("image/png", "a.png"), ("text/plain", "a.txt")):
        assert await inspect(content, hint, filename) == Inspected(expected, len(content))


@pytest.mark.parametrize("kind", TEXTS)
async def test_type_of_text_comes_from_its_content(inspect: Inspect, kind: str) -> None:
    text, expected = TEXTS[kind]
    content = text.encode()
    assert await inspect(content, "image/png", "a.png") == Inspected(expected, len(content))
    assert is_displayed(expected) == (expected == "text/plain")


@pytest.mark.parametrize(
    ("hint", "filename", "expected"),
    [
        ("text/csv", None, "text/csv"),
        ("Text/CSV; charset=utf-8", None, "text/csv"),
        (None, "table.csv", "text/csv"),
        (None, "note.md", "text/markdown"),
        (None, "script.JS", "text/javascript"),
        ("application/json", "a.txt", "application/json"),
        ("text/html", None, "text/html"),
        ("image/svg+xml", None, "image/svg+xml"),
        ("image/png", "a.png", "text/plain"),
        ("application/pdf", "a.pdf", "text/plain"),
        ("audio/mpeg", "a.mp3", "text/plain"),
        ("text/x-unknown", "a.unknown", "text/plain"),
        ("", "", "text/plain"),
    ],
)
async def test_hint_makes_plain_text_a_download_at_most(
    inspect: Inspect, hint: str | None, filename: str | None, expected: str
) -> None:
    found = await inspect(b"a,b\n1,2\n", hint, filename)
    assert found == Inspected(expected, 8)
    assert is_displayed(expected) == (expected == "text/plain")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mp4", "video/mp4"),
        ("mov", "video/quicktime"),
        ("webm", "video/webm"),
        ("mkv", "video/x-matroska"),
        ("avi", "video/x-msvideo"),
        ("3gp", "video/3gpp"),
    ],
)
async def test_video_keeps_its_bytes_and_has_a_size(inspect: Inspect, name: str, expected: str) -> None:
    content = MEDIA[name]
    assert await inspect(content, "image/png", "a.png") == Inspected(expected, len(content), width=64, height=48)
    assert is_displayed(expected)


async def test_size_of_a_video_is_the_displayed_one(inspect: Inspect) -> None:
    upright = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    rotated = struct.pack(">9i", 0, 0x10000, 0, -0x10000, 0, 0, 48 << 16, 0, 0x40000000)
    for name in ("mp4", "mov"):
        header, found, track = MEDIA[name].rpartition(upright)
        assert found
        result = await inspect(header + rotated + track)
        assert isinstance(result, Inspected)
        assert (result.width, result.height) == (48, 64)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m4a", "audio/mp4"),
        ("sound.mp4", "audio/mp4"),
        ("mp3", "audio/mpeg"),
        ("ogg", "audio/ogg"),
        ("weba", "audio/webm"),
        ("flac", "audio/flac"),
        ("wav", "audio/wav"),
        ("aac", "audio/aac"),
    ],
)
async def test_sound_has_no_size(inspect: Inspect, name: str, expected: str) -> None:
    assert await inspect(MEDIA[name]) == Inspected(expected, len(MEDIA[name]))
    assert is_displayed(expected)


async def test_truncated_video_is_no_video_or_has_its_size(inspect: Inspect) -> None:
    for name in ("mp4", "webm"):
        for length in range(12, len(MEDIA[name]), 97):
            found = await inspect(MEDIA[name][:length])
            assert isinstance(found, Inspected)
            assert found.content_type in {
                "video/mp4",
                "video/webm",
                "audio/mp4",
                "audio/webm",
                "application/octet-stream",
            }


@pytest.mark.parametrize("rest", [b"", bytes(100)])
async def test_broken_heic_is_rejected_rather_than_stored_with_its_metadata(inspect: Inspect, rest: bytes) -> None:
    content = struct.pack(">I", 24) + b"ftypheic\0\0\0\0mif1heic" + rest
    assert isinstance(await inspect(content), RejectedFile)


async def test_heic_becomes_a_jpeg_or_is_rejected_without_its_decoder(inspect: Inspect) -> None:
    assert b"SECRET7" in HEIC
    found = await inspect(HEIC)
    if find_spec("pi_heif") is None:
        assert found == RejectedFile("HEIC images need confab[heif]")
        return
    assert isinstance(found, Inspected)
    assert (found.content_type, found.width, found.height) == ("image/jpeg", 64, 48)
    assert b"SECRET7" not in read(found)


@pytest.mark.parametrize(
    "content", [b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a\1\0\1\0\0", b"RIFF\4\0\0\0WEBP", b"II*\0"]
)
async def test_broken_header_of_an_image_is_rejected(inspect: Inspect, content: bytes) -> None:
    for rest in (b"", bytes(50), b"<html>" + bytes(8)):
        assert isinstance(await inspect(content + rest), RejectedFile)
