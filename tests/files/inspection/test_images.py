"""Images: their pixels are kept, in the orientation and colours in which they are displayed."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import Inspected, RejectedFile, Scaled, is_displayed
from tests.files.inspection.conftest import Inspect
from tests.files.inspection.samples import assert_similar, decode, encode, gradient, png, read

STORED = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "AVIF": "image/avif",
    "BMP": "image/png",
    "TIFF": "image/png",
}


@pytest.mark.parametrize(("name", "content_type"), STORED.items())
async def test_image_keeps_its_pixels_in_a_format_that_browsers_display(
    inspect: Inspect, name: str, content_type: str
) -> None:
    image = gradient(96, 64)
    found = await inspect(encode(image, name))
    assert isinstance(found, Inspected)
    assert (found.content_type, found.width, found.height, found.is_image) == (content_type, 96, 64, True)
    assert is_displayed(found.content_type)
    content = read(found)
    assert found.size == len(content)
    stored = decode(content)
    assert stored.get_format_mimetype() == content_type
    assert_similar(stored, image, 4)
    assert found.thumb_hash is not None
    assert 15 <= len(base64.b64decode(found.thumb_hash)) <= 30


@pytest.mark.parametrize("width", [1, 160, 161, 320, 1280, 5000])
async def test_thumbnail_has_a_known_width_and_is_never_larger_than_the_image(
    inspect: Inspect, inspector: Inspector, width: int
) -> None:
    found = await inspect(encode(gradient(700, 350), "JPEG"))
    assert isinstance(found, Inspected)
    assert found.path is not None
    scaled = await inspector.scale(found.path, width)
    assert isinstance(scaled, Scaled)
    expected = {1: 160, 160: 160, 161: 320, 320: 320}.get(width, 700)
    assert decode(read(scaled)).size == (expected, expected // 2)
    assert scaled.size == len(read(scaled))
    assert is_displayed(scaled.content_type)


async def test_truncated_jpeg_is_rejected(inspect: Inspect) -> None:
    whole = encode(gradient(96, 64), "JPEG")
    for length in (3, 20, len(whole) // 2, len(whole) - 20):
        assert isinstance(await inspect(whole[:length]), RejectedFile)


async def test_png_bomb_is_rejected_before_it_is_decoded(inspect: Inspect) -> None:
    rows = zlib.compress(bytes(30_000 * (1 + 30_000 // 8)), 1)
    bomb = png(struct.pack(">IIBBBBB", 30_000, 30_000, 1, 0, 0, 0, 0), rows)
    assert len(bomb) < 1_000_000
    found = await inspect(bomb)
    assert isinstance(found, RejectedFile)
    assert "30000 x 30000" in found.reason


async def test_polyglot_of_png_and_html_keeps_only_its_pixels(inspect: Inspect) -> None:
    script = b"<html><script>alert(1)</script>"
    found = await inspect(encode(gradient(32, 32), "PNG") + script, hint="text/html", filename="photo.html")
    assert isinstance(found, Inspected)
    content = read(found)
    assert found.content_type == "image/png"
    assert b"script" not in content
    assert_similar(decode(content), gradient(32, 32), 0)
