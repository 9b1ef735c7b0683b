"""Nothing but pixels remains of an image: no tag of a camera, no place, no comment, no thumbnail, no further bytes."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import ExifTags, Image, ImageCms, PngImagePlugin

from resolvers.files.inspection.results import Inspected
from tests.files.inspection.conftest import Inspect
from tests.files.inspection.samples import decode, encode, gradient, read

MARK = "SECRET7"
"""Part of everything that must not remain."""

BASE, EXIF, GPS = ExifTags.Base, ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo

APPLE_NOTE = b"Apple iOS\0\0\1MM" + struct.pack(">HHHII", 1, 17, 2, 8, 40) + MARK.encode() + b"\0"
CANON_NOTE = struct.pack("<HHHII", 1, 7, 2, 8, 0) + MARK.encode() + b"\0"
NIKON_NOTE = b"Nikon\0\2\x11\0\0MM\0*\0\0\0\x08" + struct.pack(">HHHII", 1, 0x1D, 2, 8, 26) + MARK.encode() + b"\0"

CAMERAS: dict[str, tuple[int | None, int, Any]] = {
    "maker": (None, BASE.Make, f"Apple {MARK}"),
    "model": (None, BASE.Model, f"iPhone 15 Pro {MARK}"),
    "software": (None, BASE.Software, f"17.1 {MARK}"),
    "author": (None, BASE.Artist, MARK),
    "rights": (None, BASE.Copyright, MARK),
    "description": (None, BASE.ImageDescription, MARK),
    "computer": (None, BASE.HostComputer, MARK),
    "title of Windows": (None, BASE.XPTitle, MARK.encode("utf-16-le")),
    "time": (EXIF, BASE.DateTimeOriginal, f"2026:01:02 {MARK}"),
    "time zone": (EXIF, BASE.OffsetTimeOriginal, MARK),
    "lens": (EXIF, BASE.LensModel, f"back triple camera {MARK}"),
    "serial number": (EXIF, BASE.BodySerialNumber, MARK),
    "serial number of the lens": (EXIF, BASE.LensSerialNumber, MARK),
    "owner": (EXIF, BASE.CameraOwnerName, MARK),
    "comment": (EXIF, BASE.UserComment, b"ASCII\0\0\0" + MARK.encode()),
    "unique id": (EXIF, BASE.ImageUniqueID, MARK),
    "note of Apple": (EXIF, BASE.MakerNote, APPLE_NOTE),
    "note of Canon": (EXIF, BASE.MakerNote, CANON_NOTE),
    "note of Nikon": (EXIF, BASE.MakerNote, NIKON_NOTE),
    "date of the place": (GPS, ExifTags.GPS.GPSDateStamp, MARK),
    "name of the place": (GPS, ExifTags.GPS.GPSAreaInformation, b"ASCII\0\0\0" + MARK.encode()),
}
"""Tags that cameras write: directory, number and value."""

EXIF_FORMATS = ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"]


def _tags(*names: str) -> Image.Exif:
    exif = Image.Exif()
    for directory, number, value in (CAMERAS[name] for name in names or CAMERAS):
        (exif if directory is None else exif.get_ifd(directory))[number] = value
    if not names:
        exif.get_ifd(GPS).update({1: "N", 2: (48.0, 8.0, 30.0), 3: "E", 4: (11.0, 34.0, 0.0)})
    return exif


def _is_marked(content: bytes) -> bool:
    """Return whether the mark is anywhere, also in compressed chunks of a PNG."""
    found = [content]
    at = 8
    while content.startswith(b"\x89PNG") and at + 8 <= len(content):
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        if kind in {b"zTXt", b"iTXt", b"iCCP"}:
            body = content[at + 8 : at + 8 + length]
            for start in range(len(body)):
                if body[start] == 0x78:
                    try:
                        found.append(zlib.decompress(body[start:]))
                    except zlib.error:
                        continue
        at += 12 + length
    return any(MARK.encode(code) in part for part in found for code in ("utf-8", "utf-16-le", "utf-16-be"))


async def _clean(inspect: Inspect, content: bytes) -> bytes:
    """Return the cleaned image. Fails if anything but pixels is left."""
    assert _is_marked(content)
    found = await inspect(content)
    assert isinstance(found, Inspected)
    cleaned = read(found)
    assert not _is_marked(cleaned)
    image = decode(cleaned)
    assert dict(image.getexif()) == {}
    assert not {"exif", "xmp", "icc_profile", "comment", "photoshop", "XML:com.adobe.xmp"} & image.info.keys()
    assert not getattr(image, "text", {})
    return cleaned


@pytest.mark.parametrize("camera", CAMERAS)
async def test_tag_of_a_camera_is_removed_from_a_jpeg(inspect: Inspect, camera: str) -> None:
    await _clean(inspect, encode(gradient(32, 24), "JPEG", exif=_tags(camera)))


@pytest.mark.parametrize("name", EXIF_FORMATS)
async def test_all_tags_together_are_removed_from_every_format(inspect: Inspect, name: str) -> None:
    cleaned = await _clean(inspect, encode(gradient(32, 24), name, exif=_tags()))
    assert b"Exif" not in cleaned


def _segment(marker: int, body: bytes) -> Callable[[bytes], bytes]:
    return lambda jpeg: jpeg[:2] + struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body + jpeg[2:]


XMP = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>{MARK}</rdf:RDF></x:xmpmeta>'.encode()
IPTC = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x0c\x1c\x02\x50\0\x07" + MARK.encode()
THUMBNAIL = encode(gradient(16, 16), "JPEG", comment=MARK)
EXIF_THUMBNAIL = (
    *(b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\x0e\0\x02", struct.pack(">HHII", 0x201, 4, 1, 44)),
    *(struct.pack(">HHII", 0x202, 4, 1, len(THUMBNAIL)), b"\0\0\0\0", THUMBNAIL),
)
MPF = b"MPF\0II*\0\x08\0\0\0\x01\0\x01\xb0\x04\0\x01\0\0\0\x02\0\0\0\0\0\0\0"

JPEG_PARTS = {
    "XMP": _segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP),
    "extended XMP": _segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + bytes(40) + XMP),
    "IPTC": _segment(0xED, IPTC),
    "comment": _segment(0xFE, MARK.encode()),
    "thumbnail in EXIF": _segment(0xE1, b"".join(EXIF_THUMBNAIL)),
    "unknown segment": _segment(0xEB, b"JP\0\0" + MARK.encode()),
    "extension of JFIF": _segment(0xE0, b"JFXX\0\x10" + THUMBNAIL),
    "bytes after the image": lambda jpeg: jpeg + MARK.encode(),
    "second picture": lambda jpeg: _segment(0xE2, MPF)(jpeg) + THUMBNAIL,
    "video of a phone": lambda jpeg: jpeg + b"\0\0\0\x18ftypmp42\0\0\0\0isom" + MARK.encode(),
}


@pytest.mark.parametrize("part", JPEG_PARTS)
async def test_part_of_a_jpeg_that_is_no_pixel_is_removed(inspect: Inspect, part: str) -> None:
    await _clean(inspect, JPEG_PARTS[part](encode(gradient(32, 24), "JPEG")))


def _png_text() -> PngImagePlugin.PngInfo:
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", MARK)
    text.add_text("Author", MARK, zip=True)
    text.add_itxt("XML:com.adobe.xmp", MARK, zip=True)
    text.add(b"prVt", MARK.encode())
    return text


OTHER_PARTS = {
    "texts in a PNG": lambda: encode(gradient(32, 24), "PNG", pnginfo=_png_text()),
    "bytes after a PNG": lambda: encode(gradient(32, 24), "PNG") + MARK.encode(),
    "comment in a GIF": lambda: encode(gradient(32, 24), "GIF", comment=MARK),
    "comment in an animated GIF": lambda: encode(
        gradient(32, 24), "GIF", comment=MARK, save_all=True, append_images=[gradient(32, 24).rotate(90)]
    ),
    "bytes after a GIF": lambda: encode(gradient(32, 24), "GIF") + MARK.encode(),
    "XMP in a WebP": lambda: encode(gradient(32, 24), "WEBP", xmp=XMP),
    "bytes after a WebP": lambda: encode(gradient(32, 24), "WEBP") + MARK.encode(),
    "XMP in an AVIF": lambda: encode(gradient(32, 24), "AVIF", xmp=XMP),
    "bytes after a BMP": lambda: encode(gradient(32, 24), "BMP") + MARK.encode(),
    "EXIF of an animated WebP": lambda: encode(
        gradient(32, 24), "WEBP", exif=_tags(), save_all=True, append_images=[gradient(32, 24).rotate(90)]
    ),
    "EXIF of an animated PNG": lambda: encode(
        gradient(32, 24), "PNG", exif=_tags(), save_all=True, append_images=[gradient(32, 24).rotate(90)]
    ),
}


@pytest.mark.parametrize("part", OTHER_PARTS)
async def test_part_of_another_image_that_is_no_pixel_is_removed(inspect: Inspect, part: str) -> None:
    await _clean(inspect, OTHER_PARTS[part]())


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
async def test_colour_profile_is_removed(inspect: Inspect, name: str) -> None:
    profile = (
        ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
        .tobytes()
        .replace("sRGB built-in".encode("utf-16-be"), f"sRGB {MARK} ".encode("utf-16-be"))
    )
    await _clean(inspect, encode(gradient(32, 24), name, icc_profile=profile))


async def test_broken_tags_do_no_harm(inspect: Inspect) -> None:
    for body in (
        b"Exif\0\0MM\0*\xff\xff\xff\xff",
        b"Exif\0\0" + MARK.encode(),
        b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(30),
    ):
        found = await inspect(_segment(0xE1, body)(encode(gradient(32, 24), "JPEG")))
        assert isinstance(found, Inspected)
        assert dict(Image.open(io.BytesIO(read(found))).getexif()) == {}
