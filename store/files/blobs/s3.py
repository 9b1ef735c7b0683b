"""Blobs in a bucket of S3, or of a service with its API.

A blob is sent by one request with its length and checksum, so S3 has it as a whole or not at all. Content of unknown
length goes through a temporary file. Only blobs of any length are sent in parts (`s3_multipart`): an upload that was
not completed leaves parts that no listing of objects shows.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import BinaryIO, NamedTuple
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

import httpx

from store.base.errors import StoreError, Unreachable, failures
from store.files.blobs.base import BlobInfo, BlobMissing, DirectUpload, is_long
from store.files.blobs.pieces import cut
from store.files.blobs.s3_multipart import MultipartUploads
from store.files.blobs.s3_signing import NO_CONTENT, S3Options, S3Signer, to_base64, to_hexadecimal

_PIECE_BYTES = 512 * 1024
"""Bytes that are read from or written to a file at once."""

_NAMES_PER_PAGE = 1_000
_DELETES_AT_ONCE = 8
_CONNECTIONS = 100
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.3
_CONNECT_SECONDS = 3.0
_CLEANUP_SECONDS = 3.0
"""Time limit for deleting a blob whose upload failed."""

_REPEATABLE = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which a request is repeated. All requests may be: names are never used twice."""

Content = Callable[[], AsyncIterator[bytes]]


class _Upload(NamedTuple):
    """A blob that was collected in a temporary file."""

    file: BinaryIO
    info: BlobInfo

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the bytes from the beginning."""
        position = 0
        while piece := await asyncio.to_thread(self._read, position):
            yield piece
            position += len(piece)

    def _read(self, position: int) -> bytes:
        self.file.seek(position)
        return self.file.read(_PIECE_BYTES)


class S3Blobs:
    """Keeps blobs in a bucket. A request that fails is repeated twice; each attempt has a time limit."""

    def __init__(self, options: S3Options, *, timeout_seconds: float = 10.0, signer: S3Signer | None = None) -> None:
        """Prepare the connections; opens none.

        Args:
            options: The bucket.
            timeout_seconds: Longest wait for the next bytes of a request or an answer.
            signer: Signs the requests; None: with the current time.
        """
        self._options = options
        self._signer = signer or S3Signer(options)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)),
            headers={"accept-encoding": "identity"},
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            trust_env=False,
        )
        self._in_parts = MultipartUploads(options, self._send)

    async def open(self) -> None:
        """Raise Unreachable unless the bucket exists and the key has access to it."""
        async with self._send("HEAD", self._options.address()) as answer:
            _expect(answer, 200)

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def write(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob. Its bytes are collected in a temporary file first, because S3 needs the length and checksum."""
        with tempfile.TemporaryFile() as file:
            upload = _Upload(file, await _collect(name, content, file))
            size, sha256 = upload.info.size, upload.info.sha256 or ""
            headers = {
                "content-length": str(size),
                "x-amz-checksum-sha256": to_base64(sha256),
                "x-amz-sdk-checksum-algorithm": "SHA256",
            }
            address = self._options.address(name)
            try:
                async with self._send("PUT", address, headers, upload.content, sha256) as answer:
                    _expect(answer, 200)
            except BaseException:
                # S3 may have received all of it.
                with suppress(StoreError, TimeoutError):
                    async with asyncio.timeout(_CLEANUP_SECONDS):
                        await self.delete([name])
                raise
        return upload.info

    async def write_long(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob in parts of 16 MiB, of which one is in memory."""
        return await self._in_parts.write(name, content)

    async def read(self, name: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a range as they arrive. Raises BlobMissing."""
        if end is not None and end <= start:
            if await self.find(name) is None:
                raise BlobMissing(name)
            return
        last = "" if end is None else end - 1
        headers = {} if start == 0 and end is None else {"range": f"bytes={start}-{last}"}
        async with self._send("GET", self._options.address(name), headers) as answer:
            if answer.status_code == 404:
                raise BlobMissing(name)
            if answer.status_code == 416:
                # The blob ends before the range.
                return
            _expect(answer, 206 if headers else 200)
            async for piece in answer.aiter_raw():
                yield piece

    async def find(self, name: str) -> BlobInfo | None:
        """Return a blob; None if there is none. S3 knows the checksum if the blob was sent with it."""
        async with self._send("HEAD", self._options.address(name), {"x-amz-checksum-mode": "ENABLED"}) as answer:
            if answer.status_code == 404:
                return None
            _expect(answer, 200)
            checksum = to_hexadecimal(answer.headers.get("x-amz-checksum-sha256"))
            return BlobInfo(name, int(answer.headers["content-length"]), checksum)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete blobs. Those that are not there are skipped."""
        for start in range(0, len(names), _DELETES_AT_ONCE):
            calls = map(self._delete, names[start : start + _DELETES_AT_ONCE])
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome

    async def _delete(self, name: str) -> None:
        async with self._send("DELETE", self._options.address(name)) as answer:
            _expect(answer, 200, 204, 404)
        if is_long(name):
            await self._in_parts.delete_parts(name)

    async def list_names(self, after: str = "") -> AsyncIterator[Sequence[str]]:
        """Yield all names above `after` in order, in pages."""
        while True:
            query = {"list-type": "2", "max-keys": str(_NAMES_PER_PAGE)} | ({"start-after": after} if after else {})
            url = f"{self._options.address()}?{urlencode(sorted(query.items()), quote_via=quote, safe='')}"
            async with self._send("GET", url) as answer:
                _expect(answer, 200)
                page = ElementTree.fromstring(await answer.aread())
            names = [key.text or "" for key in page.iterfind("{*}Contents/{*}Key")]
            if names:
                yield names
                after = names[-1]
            if page.findtext("{*}IsTruncated") != "true":
                return

    def upload_request(self, name: str, size: int, sha256: str | None, seconds: int) -> DirectUpload | None:
        """Return a presigned PUT. S3 refuses another length or another checksum."""
        url, headers = self._signer.sign_upload(name, size, sha256, seconds)
        return DirectUpload(url, "PUT", headers)

    def download_url(self, name: str, content_type: str, disposition: str, seconds: int) -> str | None:
        """Return a presigned address, valid for up to five minutes longer than `seconds`."""
        return self._signer.sign_download(name, content_type, disposition, seconds)

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        content: Content | None = None,
        content_sha256: str = NO_CONTENT,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and provide its answer, whose body is not read yet. Raises Unreachable, also while reading."""
        try:
            answer = await self._send_repeatedly(method, url, headers, content, content_sha256)
            try:
                yield answer
            finally:
                await answer.aclose()
        except (httpx.HTTPError, OSError, ElementTree.ParseError) as error:
            failures["s3"] += 1
            raise Unreachable(f"S3: {method}: {type(error).__name__}: {error}") from error

    async def _send_repeatedly(
        self, method: str, url: str, headers: Mapping[str, str] | None, content: Content | None, content_sha256: str
    ) -> httpx.Response:
        for attempt in range(1, _ATTEMPTS + 1):
            signed = self._signer.sign(method, url, headers, content_sha256)
            request = self._client.build_request(method, url, headers=signed, content=content() if content else None)
            try:
                answer = await self._client.send(request, stream=True)
            except httpx.TransportError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                if answer.status_code not in _REPEATABLE or attempt == _ATTEMPTS:
                    return answer
                await answer.aclose()
            await asyncio.sleep(_PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable")


def _expect(answer: httpx.Response, *statuses: int) -> None:
    if answer.status_code not in statuses:
        failures["s3"] += 1
        # The body may quote the signature, and would end up in the log.
        raise Unreachable(f"S3: {answer.request.method}: status {answer.status_code}")


async def _collect(name: str, content: AsyncIterable[bytes], file: BinaryIO) -> BlobInfo:
    """Write content to a file. Returns its length and checksum."""
    checksum, size = hashlib.sha256(), 0

    def append(piece: bytes) -> None:
        checksum.update(piece)
        file.write(piece)

    async with aclosing(cut(content, _PIECE_BYTES)) as pieces:
        async for piece in pieces:
            await asyncio.to_thread(append, piece)
            size += len(piece)
    return BlobInfo(name, size, checksum.hexdigest())
