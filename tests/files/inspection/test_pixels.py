"""Pixels are stored as they are displayed: upright, in sRGB, with 8 bits per channel, in the original's quality."""

from __future__ import annotations

import struct
import zlib

import pytest
from PIL import Image, ImageChops, ImageCms, ImageOps, JpegImagePlugin

from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import Inspected, Scaled
from tests.files.inspection.conftest import Inspect
from tests.files.inspection.samples import assert_similar, decode, encode, gradient, png, read

ORIENTATION = 0x0112


def _oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


async def _inspect_image(inspect: Inspect, content: bytes) -> Image.Image:
    found = await inspect(content)
    assert isinstance(found, Inspected)
    image = decode(read(found))
    assert (found.width, found.height) == image.size
    return image


@pytest.mark.parametrize("orientation", range(10))
async def test_orientation_is_applied(inspect: Inspect, orientation: int) -> None:
    content = encode(gradient(48, 32), "JPEG", exif=_oriented(orientation), quality=95, subsampling=0)
    displayed = ImageOps.exif_transpose(decode(content))
    assert_similar(await _inspect_image(inspect, content), displayed, 3)


@pytest.mark.parametrize("name", ["PNG", "WEBP", "AVIF", "TIFF"])
async def test_orientation_is_applied_in_every_format(inspect: Inspect, name: str) -> None:
    content = encode(gradient(48, 32), name, exif=_oriented(6))
    assert_similar(await _inspect_image(inspect, content), gradient(48, 32).transpose(Image.Transpose.ROTATE_270), 4)


@pytest.mark.parametrize("quality", [30, 75, 98])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("orientation", [1, 6])
async def test_jpeg_keeps_its_quality(inspect: Inspect, quality: int, subsampling: int, orientation: int) -> None:
    settings = {"quality": quality, "subsampling": subsampling, "exif": _oriented(orientation)}
    original = decode(encode(gradient(64, 48), "JPEG", **settings))
    stored = await _inspect_image(inspect, encode(gradient(64, 48), "JPEG", **settings))
    assert isinstance(original, JpegImagePlugin.JpegImageFile)
    assert isinstance(stored, JpegImagePlugin.JpegImageFile)
    assert stored.quantization == original.quantization
    assert JpegImagePlugin.get_sampling(stored) == (0 if subsampling == 1 else subsampling)


def _swapped_profile() -> bytes:
    """Return a profile with the primaries of red and green exchanged: colours show that it was applied."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    at = {profile[start : start + 4].decode(): start for start in range(132, 132 + 12 * profile[131], 12)}
    red, green = at["rXYZ"], at["gXYZ"]
    profile[red : red + 4], profile[green : green + 4] = b"gXYZ", b"rXYZ"
    return bytes(profile).replace("sRGB".encode("utf-16-be"), "RGBs".encode("utf-16-be"))


@pytest.mark.parametrize(
    ("name", "mode"), [("JPEG", "RGB"), ("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("WEBP", "RGB")]
)
async def test_colours_are_converted_to_srgb(inspect: Inspect, name: str, mode: str) -> None:
    green = Image.new("RGB", (16, 16), (0, 200, 0)).convert(mode)
    stored = await _inspect_image(inspect, encode(green, name, icc_profile=_swapped_profile()))
    red, green_value, _ = stored.convert("RGB").getpixel((8, 8))
    assert red > 150
    assert green_value < 80


async def test_profile_of_grey_keeps_grey(inspect: Inspect) -> None:
    stored = await _inspect_image(
        inspect, encode(gradient(16, 16).convert("L"), "JPEG", icc_profile=_swapped_profile())
    )
    assert stored.mode == "L"


async def test_broken_profile_is_ignored(inspect: Inspect) -> None:
    stored = await _inspect_image(inspect, encode(gradient(32, 32), "PNG", icc_profile=b"no profile" * 20))
    assert_similar(stored, gradient(32, 32), 0)


async def test_cmyk_becomes_rgb(inspect: Inspect) -> None:
    stored = await _inspect_image(inspect, encode(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95))
    assert stored.mode == "RGB"
    assert_similar(stored, Image.new("RGB", (16, 16), (255, 0, 0)), 3)


async def test_16_bits_of_grey_become_8(inspect: Inspect) -> None:
    stored = await _inspect_image(inspect, encode(Image.new("I;16", (16, 16), 0x8000), "PNG"))
    assert_similar(stored, Image.new("L", (16, 16), 0x80), 1)


@pytest.mark.parametrize("name", ["PNG", "WEBP", "GIF", "AVIF"])
async def test_transparency_is_kept_also_in_thumbnails(inspect: Inspect, inspector: Inspector, name: str) -> None:
    image = Image.new("RGBA", (400, 400), (255, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 200, 400))
    found = await inspect(encode(image, name))
    assert isinstance(found, Inspected)
    assert found.path is not None
    scaled = await inspector.scale(found.path, 160)
    assert isinstance(scaled, Scaled)
    for result in (found, scaled):
        stored = decode(read(result)).convert("RGBA")
        left, right = stored.getpixel((stored.width // 4, 80)), stored.getpixel((stored.width * 3 // 4, 80))
        assert (left[3], right[3]) == (0, 255)
        assert right[0] > 240


async def test_transparent_colour_of_a_png_is_kept(inspect: Inspect) -> None:
    image = Image.new("RGB", (16, 16), (1, 2, 3))
    image.paste((200, 0, 0), (0, 0, 8, 16))
    stored = await _inspect_image(inspect, encode(image, "PNG", transparency=(1, 2, 3)))
    assert stored.convert("RGBA").getpixel((12, 8))[3] == 0
    assert stored.convert("RGBA").getpixel((4, 8)) == (200, 0, 0, 255)


async def test_palette_of_a_png_is_kept(inspect: Inspect) -> None:
    image = gradient(64, 64).quantize(16)
    stored = await _inspect_image(inspect, encode(image, "PNG"))
    assert stored.mode == "P"
    assert ImageChops.difference(stored.convert("RGB"), image.convert("RGB")).getbbox() is None


async def test_lossless_webp_stays_lossless(inspect: Inspect) -> None:
    noise = Image.effect_noise((64, 64), 90).convert("RGB")
    stored = await _inspect_image(inspect, encode(noise, "WEBP", lossless=True, exif=_oriented(1)))
    assert ImageChops.difference(stored.convert("RGB"), noise).getbbox() is None


@pytest.mark.long
async def test_large_webp_becomes_a_jpeg(inspect: Inspect) -> None:
    found = await inspect(encode(Image.new("RGB", (8000, 2001), (9, 99, 199)), "WEBP", method=0))
    assert isinstance(found, Inspected)
    assert (found.content_type, found.width, found.height) == ("image/jpeg", 8000, 2001)


async def test_narrow_image_has_a_thumbnail_of_its_own_width(inspect: Inspect, inspector: Inspector) -> None:
    found = await inspect(encode(Image.new("RGBA", (1, 20_000), (9, 9, 9, 9)), "PNG"))
    assert isinstance(found, Inspected)
    assert found.path is not None
    scaled = await inspector.scale(found.path, 160)
    assert isinstance(scaled, Scaled)
    assert decode(read(scaled)).size == (1, 20_000)


@pytest.mark.parametrize("pages", ["two pages", "a raw photograph"])
async def test_tiff_that_is_a_document_stays_as_it_is(inspect: Inspect, pages: str) -> None:
    image = gradient(16, 16)
    if pages == "two pages":
        content = encode(image, "TIFF", save_all=True, append_images=[image])
    else:
        content = encode(image, "TIFF", tiffinfo={50706: b"\1\4\0\0"})
    found = await inspect(content)
    assert found == Inspected("image/tiff", len(content))


async def test_interlaced_png_is_decoded(inspect: Inspect) -> None:
    content = png(struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 1), zlib.compress(b"\0\x0a\x14\x1e"))
    assert (await _inspect_image(inspect, content)).convert("RGB").getpixel((0, 0)) == (10, 20, 30)
