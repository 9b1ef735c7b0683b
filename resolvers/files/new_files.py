"""Checks of the input of createUpload."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

import orjson

from resolvers.base.checks import check_encodable, check_key
from resolvers.base.errors import FileTooLarge, InvalidInput
from resolvers.base.names import accept_name
from store.base.ids import ConversationId

LONGEST_FILENAME = 255
LONGEST_DESCRIPTION = 1_000
LONGEST_TYPE = 255

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_TYPE = re.compile(r"[\x20-\x7e]+\Z")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that a caller wants to send."""

    filename: str
    size: int
    conversation: str
    type_hint: str | None = None
    sha256: str | None = None
    description: str | None = None
    spoiler: bool = False
    key: str | None = None

    def accepted(self, max_bytes: int) -> NewFile:
        """Return the input as it is stored. Raises InvalidInput, FileTooLarge.

        Characters of the filename that are hidden or change the direction of text are removed, as in other names: the
        name comes from the device, and its user could not correct it.
        """
        check_key(self.key)
        filename = _accept_filename(self.filename)
        _check_size(self.size, max_bytes)
        if self.sha256 is not None and not _SHA256.match(self.sha256):
            raise InvalidInput("sha256 must have 64 lower-case hexadecimal digits", field="sha256")
        if self.type_hint is not None and (len(self.type_hint) > LONGEST_TYPE or not _TYPE.match(self.type_hint)):
            raise InvalidInput(
                f"contentType must be a media type of 1 to {LONGEST_TYPE} ASCII characters", field="contentType"
            )
        _check_description(self.description)
        return replace(self, filename=filename, description=self.description or None)

    def digest(self, conversation: ConversationId) -> str:
        """Return a digest of the accepted input, by which a repeated call is recognised."""
        parts = [conversation, self.filename, self.size, self.type_hint, self.sha256, self.description, self.spoiler]
        return hashlib.blake2b(orjson.dumps(parts), digest_size=12).hexdigest()


def _accept_filename(filename: str) -> str:
    accepted = accept_name(filename, "filename", LONGEST_FILENAME)
    if "/" in accepted or "\\" in accepted or accepted.strip() in (".", ".."):
        raise InvalidInput("filename must be a name without a path", field="filename")
    return accepted


def _check_size(size: int, max_bytes: int) -> None:
    if size < 1:
        raise InvalidInput("sizeBytes must be at least 1", field="sizeBytes")
    if size > max_bytes:
        raise FileTooLarge(
            f"this file is too large; send one of at most {max_bytes:,} bytes ({max_bytes / _MIB:.4g} MiB)",
            field="sizeBytes",
        )


def _check_description(description: str | None) -> None:
    if description is None:
        return
    if len(description) > LONGEST_DESCRIPTION:
        raise InvalidInput(f"description must have at most {LONGEST_DESCRIPTION:,} characters", field="description")
    if "\0" in description:
        raise InvalidInput("description must not contain a NUL character", field="description")
    check_encodable(description, "description")
