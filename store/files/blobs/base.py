"""The protocol of blob stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from store.base.errors import StoreError

LONG = "long"
"""Kind of a blob of any length, in its name: "<file>/long-<random>"."""


def is_long(name: str) -> bool:
    """Return whether a blob is written by `write_long`."""
    return f"/{LONG}-" in name


class BlobMissing(StoreError):
    """There is no such blob."""


class BlobInfo(NamedTuple):
    """A whole blob.

    Attributes:
        name: Its name.
        size: Its length in bytes.
        sha256: Its checksum in hexadecimal digits; None if the store does not know it.
    """

    name: str
    size: int
    sha256: str | None


class DirectUpload(NamedTuple):
    """A request that a client sends to the store itself."""

    url: str
    method: str
    headers: Mapping[str, str]


class BlobStore(Protocol):
    """Keeps blobs: immutable sequences of bytes with names that are never used twice.

    The row that knows a blob's name is written before the blob (ADR 75). All calls raise Unreachable.
    """

    async def open(self) -> None:
        """Prepare the store: indexes, or a check of the bucket."""

    async def close(self) -> None:
        """End all connections."""

    async def write(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob while its bytes arrive. It can be read when this returns.

        If `content` raises, or this is cancelled, what was stored of it is deleted as far as the store answers.
        """

    async def write_long(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob of any length as `write` does. Neither memory nor disk of this process holds all of it.

        name: has the kind LONG.
        """

    def read(self, name: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Return the bytes from `start` up to, without, `end`, in pieces. Raises BlobMissing."""

    async def find(self, name: str) -> BlobInfo | None:
        """Return a blob; None if there is none, or not a whole one."""

    async def delete(self, names: Sequence[str]) -> None:
        """Delete blobs, and parts of blobs that were not stored as a whole. Those that are not there are skipped."""

    def list_names(self, after: str = "") -> AsyncIterator[Sequence[str]]:
        """Return all names above `after` in order, in pages, with those of blobs that are not whole."""

    def upload_request(self, name: str, size: int, sha256: str | None, seconds: int) -> DirectUpload | None:
        """Return the request by which a client stores a blob of this length and checksum; None: through Confab."""

    def download_url(self, name: str, content_type: str, disposition: str, seconds: int) -> str | None:
        """Return the address at which clients read a blob from the store itself; None: through Confab."""
