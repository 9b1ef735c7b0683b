"""Images made by the tests."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageChops

from resolvers.files.inspection.results import Inspected, Scaled


def gradient(width: int, height: int) -> Image.Image:
    """Return a picture without symmetries."""
    red = Image.linear_gradient("L").resize((width, height))
    green = Image.linear_gradient("L").rotate(90).resize((width, height))
    blue = Image.radial_gradient("L").resize((width, height))
    return Image.merge("RGB", (red, green, blue))


def encode(image: Image.Image, name: str, **settings: Any) -> bytes:
    """Return the image in a format of Pillow."""
    target = io.BytesIO()
    image.save(target, format=name, **settings)
    return target.getvalue()


def png(header: bytes, rows: bytes) -> bytes:
    """Return a PNG with this header, and these compressed rows."""
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    packed = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def gif(frames: int) -> bytes:
    """Return a GIF of one black pixel, which is repeated."""
    frame = b"!\xf9\x04\0\1\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0"
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6) + frame * frames + b";"


def decode(content: bytes) -> Image.Image:
    """Return the image, with all that Pillow reads of it."""
    image = Image.open(io.BytesIO(content))
    image.load()
    return image


def read(result: Inspected | Scaled) -> bytes:
    """Return the content of the new file."""
    assert result.path is not None
    return result.path.read_bytes()


def assert_similar(one: Image.Image, other: Image.Image, most: int) -> None:
    """Compare the pixels: the mean difference of channels is at most `most`."""
    assert one.size == other.size
    difference = ImageChops.difference(one.convert("RGBA"), other.convert("RGBA")).resize((1, 1), Image.Resampling.BOX)
    assert max(difference.getpixel((0, 0))) <= most
