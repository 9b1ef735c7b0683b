"""Conditional requests and ranges of bytes (RFC 9110, 13 and 14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

# Longer numbers are valid, but servers may ignore any range.
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*\Z", re.IGNORECASE)


class ByteRange(NamedTuple):
    """The bytes from `start` up to, without, `end`."""

    start: int
    end: int


class Unsatisfiable(Exception):
    """Raised when no byte of the content is in the range."""


def find_range(headers: Mapping[str, str], size: int, etag: str) -> ByteRange | None:
    """Return the range that a GET request asks for; None: the whole content.

    Several ranges, other units and malformed ranges are answered with the whole content. So is a range of an earlier
    version: `If-Range` must have the strong ETag. Raises Unsatisfiable.
    """
    given = headers.get("range")
    if given is None or headers.get("if-range", etag).strip() != etag:
        return None
    match = _RANGE.match(given.strip())
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        length = int(match[2])
        start, end = max(0, size - length), size
    else:
        start, end = int(match[1]), size
        if match[2] != "":
            last = int(match[2])
            if last < start:
                return None
            end = min(size, last + 1)
    if start >= end:
        raise Unsatisfiable
    return ByteRange(start, end)


def is_unchanged(headers: Mapping[str, str], etag: str) -> bool:
    """Return whether the client has this version already, by `If-None-Match`."""
    given = headers.get("if-none-match")
    if given is None:
        return False
    known = [each.strip().removeprefix("W/") for each in given.split(",")]
    return "*" in known or etag in known
