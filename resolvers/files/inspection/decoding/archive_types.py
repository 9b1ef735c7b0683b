"""Types of archives, and of documents that are archives: ZIP, and OLE, the format of old Office documents."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import PurePath
from typing import BinaryIO

_ZIP, _OLE = b"PK\3\4", bytes.fromhex("d0cf11e0a1b11ae1")
_MAX_ZIP_NAMES, _MAX_TYPE_BYTES = 10_000, 100

_OFFICE_TYPES = {
    "word/": "wordprocessingml.document",
    "xl/": "spreadsheetml.sheet",
    "ppt/": "presentationml.presentation",
}
"""Types of Office documents, by a folder in them."""

_ZIP_TYPES = frozenset(
    {
        "application/epub+zip",
        *(f"application/vnd.oasis.opendocument.{kind}" for kind in ("text", "spreadsheet", "presentation", "graphics")),
    }
)
"""Types that archives may name themselves."""

_OLE_TYPES = {
    ".doc": "application/msword",
    ".msg": "application/vnd.ms-outlook",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
}
"""Types of old Office documents, which have one signature, by the end of their names. All are downloads."""


def find_type(source: BinaryIO, head: bytes, filename: str | None) -> str | None:
    """Return the type of a file that is an archive, else None. head: its first bytes."""
    if head.startswith(_ZIP):
        return _find_zip(source)
    if head.startswith(_OLE):
        return _OLE_TYPES.get(PurePath(filename or "").suffix.lower(), "application/x-ole-storage")
    return None


def _find_zip(source: BinaryIO) -> str:
    """Return the type of a ZIP archive, by the names in it."""
    try:
        with zipfile.ZipFile(source) as archive:
            names = archive.namelist()[:_MAX_ZIP_NAMES]
            if "mimetype" in names and archive.getinfo("mimetype").file_size < _MAX_TYPE_BYTES:
                named = archive.read("mimetype").decode("ascii").strip()
                return named if named in _ZIP_TYPES else "application/zip"
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        return "application/zip"
    finally:
        source.seek(0)
    if "[Content_Types].xml" in names:
        for folder, kind in _OFFICE_TYPES.items():
            if any(name.startswith(folder) for name in names):
                return f"application/vnd.openxmlformats-officedocument.{kind}"
    if "AndroidManifest.xml" in names:
        return "application/vnd.android.package-archive"
    return "application/java-archive" if "META-INF/MANIFEST.MF" in names else "application/zip"
