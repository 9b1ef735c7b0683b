"""Signed addresses of files (ADR 76).

An address is valid until its end for everybody who has it. It has three parts:
    path    the file, and what of it: itself, or a thumbnail of a width
    until   end of its time: seconds since the Unix epoch
    sig     HMAC-SHA256, in base64url without padding, over the purpose and all other parts
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from urllib.parse import quote

from store.base.clock import Clock
from store.base.errors import Unreachable
from store.files.file import FileId

FILES_PATH = "/files"
PICTURES_PATH = "/previews"

VALID_SECONDS = 3600
"""Least time for which an address of a file is valid."""

ROUNDED_TO_SECONDS = 300
"""Ends of addresses are rounded up to this, so that answers within this time have the same addresses."""

ORIGINAL = "file"
"""Stands in the place of a width in the address of the file itself."""

_UPLOAD, _FILE, _PICTURE = "upload", "file", "picture"


def end_of_validity(now_ms: int) -> int:
    """Return the end of an address that is issued now, in seconds since the epoch."""
    end_ms, step_ms = now_ms + VALID_SECONDS * 1000, ROUNDED_TO_SECONDS * 1000
    return -(-end_ms // step_ms) * ROUNDED_TO_SECONDS


def sign(key: bytes, *parts: str) -> str:
    """Return the signature of parts. Only the last one may contain a line feed."""
    digest = hmac.digest(key, "\n".join(parts).encode("utf-8", "surrogatepass"), "sha256")
    return urlsafe_b64encode(digest)[:-1].decode()


def picture_name(url: str) -> str:
    """Return the name of a picture of an embed in addresses and in the blob store: a hash of its own address."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class FileAddresses:
    """Issues and verifies addresses.

    All methods raise Unreachable while no key is known: the process has not reached MongoDB yet.
    """

    def __init__(self, public_url: str, clock: Clock, list_keys: Callable[[], Sequence[bytes]]) -> None:
        """Create the issuer of a process.

        Args:
            public_url: Address at which clients reach the deployment, without a slash at its end.
            clock: The deployment's time.
            list_keys: Returns the keys: the first one signs, all are accepted.
        """
        self._base = public_url
        self._clock = clock
        self._list_keys = list_keys

    # Issuing

    def upload(self, file: FileId, until_ms: int) -> str:
        """Return the address to which the owner sends the bytes, by PUT. Valid until a time, rounded up to seconds."""
        until = str(-(-until_ms // 1000))
        signature = sign(self._key(), _UPLOAD, str(file), until)
        return f"{self._base}{FILES_PATH}/f_{file}?until={until}&sig={signature}"

    def file(self, file: FileId, filename: str, width: int | None = None) -> str:
        """Return the address of a file, or of its thumbnail of a width. Browsers save it by its filename.

        Call it only for those who may read the message at this moment, or for the owner.
        """
        variant = ORIGINAL if width is None else str(width)
        # Clients remove segments that have only dots.
        shown = filename if filename.strip(".") else ORIGINAL
        until = str(end_of_validity(self._clock.now_ms()))
        signature = sign(self._key(), _FILE, str(file), variant, until, shown)
        name = quote(shown, safe="", errors="replace")
        return f"{self._base}{FILES_PATH}/f_{file}/{variant}/{name}?until={until}&sig={signature}"

    def picture(self, url: str) -> str:
        """Return the address at which Confab serves a picture of another site."""
        until = str(end_of_validity(self._clock.now_ms()))
        signature = sign(self._key(), _PICTURE, until, url)
        source = quote(url, safe="", errors="replace")
        return f"{self._base}{PICTURES_PATH}/{picture_name(url)}?until={until}&sig={signature}&url={source}"

    # Verifying

    def accepts_upload(self, file: str, until: str, signature: str) -> bool:
        """Return whether the bytes of a file may be sent now. `file` is the number of its id, as the address has it."""
        return self._accepts(until, signature, _UPLOAD, file, until)

    def accepts_file(self, file: str, variant: str, filename: str, until: str, signature: str) -> bool:
        """Return whether a file may be read now. The arguments are the parts of the address."""
        return self._accepts(until, signature, _FILE, file, variant, until, filename)

    def accepts_picture(self, url: str, until: str, signature: str) -> bool:
        """Return whether a picture of another site may be read now."""
        return self._accepts(until, signature, _PICTURE, until, url)

    def _accepts(self, until: str, signature: str, *parts: str) -> bool:
        self._key()
        if any("\n" in part for part in parts[:-1]):
            return False
        given = signature.encode("utf-8", "surrogatepass")
        is_signed = False
        for key in self._list_keys():
            is_signed |= hmac.compare_digest(sign(key, *parts).encode(), given)
        # A signature is never issued for an end that is not a number.
        return is_signed and int(until) * 1000 > self._clock.now_ms()

    def _key(self) -> bytes:
        keys = self._list_keys()
        if not keys:
            raise Unreachable("the key of file addresses is not known yet")
        return keys[0]
