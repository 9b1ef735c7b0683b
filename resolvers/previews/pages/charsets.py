"""Decodes pages to text while they arrive."""

from __future__ import annotations

import codecs
import re

_DECLARATION = re.compile(rb"""<(?:meta|\?xml)\b[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?\s*([\w:.-]{1,30})""", re.I)
_DECLARED_WITHIN = 4096
"""Bytes at the beginning of a page in which its encoding is looked for."""

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

_DEFAULT = "utf-8"
_LEGACY = "cp1252"

_CODECS = {
    **dict.fromkeys(("ascii", "us-ascii", "latin1", "iso-8859-1", "iso8859-1", "windows-1252"), _LEGACY),
    **{f"iso-8859-{n}": f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
    **{f"windows-125{n}": f"cp125{n}" for n in (0, 1, 3, 4, 5, 6, 7, 8)},
    **dict.fromkeys(("gbk", "gb2312", "gb18030", "x-gbk"), "gb18030"),
    **dict.fromkeys(("shift_jis", "shift-jis", "sjis", "x-sjis", "windows-31j"), "cp932"),
    **dict.fromkeys(("euc-kr", "ks_c_5601-1987", "windows-949"), "cp949"),
    **{name: name for name in ("utf-8", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "big5", "euc-jp", "iso-2022-jp")},
    "utf8": _DEFAULT,
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "iso-8859-9": "cp1254",
    "iso-8859-11": "cp874",
    "tis-620": "cp874",
    "windows-874": "cp874",
    "macintosh": "mac-roman",
    "big5-hkscs": "big5hkscs",
}
"""Decoders by the names that pages use. Python has others that are no encodings of text."""


class PageDecoder:
    """Decodes the pieces of one page. Its encoding comes from the header, a byte order mark, or the page's beginning.

    Wrong bytes become replacement characters.
    """

    def __init__(self, charset: str | None) -> None:
        """Begin. `charset`: what the header names."""
        self._charset = charset
        self._decoder: codecs.IncrementalDecoder | None = None

    def decode(self, piece: bytes) -> str:
        """Return the text of a piece. The first one should have the beginning of the page as far as `is_enough`."""
        if self._decoder is None:
            name = self._find_name(piece)
            self._decoder = codecs.getincrementaldecoder(name)(errors="replace")
        return self._decoder.decode(piece)

    @staticmethod
    def is_enough(beginning: bytes) -> bool:
        """Return whether the beginning of a page is long enough to find its encoding."""
        return len(beginning) >= _DECLARED_WITHIN

    def _find_name(self, beginning: bytes) -> str:
        for mark, name in _BYTE_ORDER_MARKS:
            if beginning.startswith(mark):
                return name
        declared = _DECLARATION.search(beginning[:_DECLARED_WITHIN])
        for label in (self._charset, declared[1].decode("ascii", "replace") if declared else None):
            found = _CODECS.get(label.lower()) if label is not None else None
            if found is not None:
                # A page whose declaration can be read as ASCII is not in UTF-16, whatever the declaration says.
                return _DEFAULT if label != self._charset and found.startswith("utf-16") else found
        try:
            # A longer page may go on within a character.
            codecs.getincrementaldecoder(_DEFAULT)().decode(beginning, not self.is_enough(beginning))
        except UnicodeDecodeError:
            return _LEGACY
        return _DEFAULT
