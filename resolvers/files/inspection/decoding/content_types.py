"""The type of a file, from its bytes.

puremagic knows the signatures. Text and the images that are decoded are recognised here: puremagic takes a text that
begins with `BM` for an image.
"""

from __future__ import annotations

import codecs
import mimetypes
import re
from typing import BinaryIO

import puremagic

from resolvers.files.inspection.decoding import archive_types

UNKNOWN = "application/octet-stream"
TEXT = "text/plain"

_MIN_CONFIDENCE = 0.3
"""A signature of three bytes. Pictures, sounds and videos are confirmed by decoding them."""

_PIECE_BYTES = 1 << 20
_HEAD_BYTES = 4096

_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")
_FIRST_TAG = re.compile(r"\ufeff?\s*<[a-z!?/]", re.IGNORECASE)
_ACTIVE_TAG = re.compile(r"<(?:!doctype|html|script|svg|iframe|object|embed|\?xml)[\s>/]", re.IGNORECASE)
_SVG = re.compile(r"<(?:\w+:)?svg[\s>/]", re.IGNORECASE)
_HTML = re.compile(r"<(?:!doctype\s+html|html|head|body)[\s>/]", re.IGNORECASE)

_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "image/heic"),
    **dict.fromkeys((b"M4A ", b"M4B ", b"M4P "), "audio/mp4"),
    b"qt  ": "video/quicktime",
    **dict.fromkeys((b"3gp4", b"3gp5", b"3gp6", b"3g2a"), "video/3gpp"),
}
"""Types of ISO media files, by the brand in their first box."""

_USUAL_NAMES = {
    "application/x-gzip": "application/gzip",
    "application/x-iso9660-appimage": UNKNOWN,
    "application/x-matroska": "video/x-matroska",
    "audio/wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/x-opus+ogg": "audio/ogg",
    "audio/x-wav": "audio/wav",
    "application/ogg": "audio/ogg",
    "text/rtf": "application/rtf",
    "video/avi": "video/x-msvideo",
    "video/dvd": "video/mpeg",
}
"""Usual names of types that have several."""

_BITMAP_HEADERS = frozenset(size.to_bytes(4, "little") for size in (12, 40, 52, 56, 64, 108, 124))
"""Lengths of the second header of bitmaps."""

_DECODED = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp", "image/avif", "image/svg+xml"})
"""Types that browsers display, and SVG: never given to a file by its signature alone."""

_TEXT_FORMATS = frozenset({"application/pdf", "application/postscript", "application/rtf"})
"""Formats that may consist of text only."""

_TEXT_HINTS = frozenset(
    {
        *("application/javascript", "application/json", "application/xml", "image/svg+xml", "text/calendar"),
        *("text/css", "text/csv", "text/html", "text/javascript", "text/markdown", "text/vcard", "text/xml"),
    }
)
"""Types that an owner or a name may give to text. Files of all of them are served as downloads only."""


def load_libraries() -> None:
    """Read the tables of types, and the codecs that are imported when they are used."""
    mimetypes.init()
    for codec in ("ascii", "cp437", "latin-1"):
        codecs.lookup(codec)


def find_type(source: BinaryIO, hint: str | None, filename: str | None) -> str:
    """Return the type of a file.

    The hint, and then the name, refine plain text to another type that is served as a download. For all other files
    only the bytes count.
    """
    head = source.read(_HEAD_BYTES)
    source.seek(0)
    found = _find_image(head)
    if found is not None:
        return found
    known = _find_known(source, head, filename)
    is_text, is_markup = _read_text(source)
    if not is_text:
        # Text formats have no confirmation by their bytes if these are not text.
        return UNKNOWN if known.startswith("text/") else known
    if known in _TEXT_FORMATS:
        return known
    text = head.decode(errors="replace")
    if is_markup:
        return _markup_type(text)
    for refined in (hint, mimetypes.guess_type(filename or "")[0]):
        if refined is not None and refined.split(";")[0].strip().lower() in _TEXT_HINTS:
            return refined.split(";")[0].strip().lower()
    return TEXT


def _find_image(head: bytes) -> str | None:
    """Return the type of an image that is decoded, and of other ISO media files with a known brand."""
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")) and _CONTROL.search(head.decode("latin-1")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith((b"II*\0", b"MM\0*")):
        return "image/tiff"
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0" and head[14:18] in _BITMAP_HEADERS:
        return "image/bmp"
    return _find_brand(head) if head[4:8] == b"ftyp" else None


def _find_brand(head: bytes) -> str | None:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = [head[8:12], *(head[at : at + 4] for at in range(16, end, 4))]
    if any(_BRANDS.get(brand) == "image/avif" for brand in brands) and _BRANDS.get(brands[0], "").startswith("image/"):
        return "image/avif"
    return _BRANDS.get(brands[0])


def _find_known(source: BinaryIO, head: bytes, filename: str | None) -> str:
    archive = archive_types.find_type(source, head, filename)
    if archive is not None:
        return archive
    if head.startswith(b"%PDF-"):
        return "application/pdf"
    try:
        matches = puremagic.magic_stream(source)
    except (puremagic.PureError, ValueError):
        matches = []
    source.seek(0)
    for match in matches:
        if match.mime_type and match.confidence >= _MIN_CONFIDENCE:
            found = _USUAL_NAMES.get(match.mime_type, match.mime_type)
            # An image with the signature of no decoded format: never displayed as one.
            return UNKNOWN if found in _DECODED or found == "application/pdf" else found
    # Two frames of sound without a header: their signature has eleven bits.
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return "audio/aac" if head[1] & 0x06 == 0 else "audio/mpeg"
    return UNKNOWN


def _read_text(source: BinaryIO) -> tuple[bool, bool]:
    """Return whether the file is UTF-8 without control characters, and whether it has tags that browsers execute."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_markup, end = False, ""
    try:
        while piece := source.read(_PIECE_BYTES):
            text = decoder.decode(piece)
            if _CONTROL.search(text):
                return False, False
            is_first = source.tell() == len(piece)
            is_markup = is_markup or bool(is_first and _FIRST_TAG.match(text)) or bool(_ACTIVE_TAG.search(end + text))
            end = text[-64:]
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False, False
    return True, is_markup


def _markup_type(head: str) -> str:
    html, svg = _HTML.search(head), _SVG.search(head)
    if svg is not None and (html is None or svg.start() < html.start()):
        return "image/svg+xml"
    if html is None and head.lstrip("\ufeff \t\r\n").startswith("<?xml"):
        return "application/xml"
    return "text/html"
