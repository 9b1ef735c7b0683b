"""Multipart uploads to S3: blobs of unknown length, of which a part at a time is in memory.

Parts of an upload that was not completed are shown by no listing of objects. So only blobs whose names say it are sent
this way, and deleting such a blob ends its uploads too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from urllib.parse import quote, urlencode
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import httpx

from store.base.errors import StoreError, Unreachable
from store.files.blobs.base import BlobInfo
from store.files.blobs.pieces import cut
from store.files.blobs.s3_signing import S3Options

PART_BYTES = 16 * 1024 * 1024
"""Size of all parts but the last one. S3 takes up to 10,000 parts: 160 GB."""

_CLEANUP_SECONDS = 3.0

Send = Callable[..., AbstractAsyncContextManager[httpx.Response]]
"""`S3Blobs` sends a signed request: method, address, headers, content, its SHA-256."""


class MultipartUploads:
    """Uploads in parts to one bucket."""

    def __init__(self, options: S3Options, send: Send, part_bytes: int = PART_BYTES) -> None:
        self._options = options
        self._send = send
        self._part_bytes = part_bytes

    async def write(self, name: str, content: AsyncIterable[bytes]) -> BlobInfo:
        """Store a blob while its bytes arrive. It exists when this returns. Raises Unreachable."""
        upload = await self._begin(name)
        try:
            return await self._write_parts(name, upload, content)
        except BaseException:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_CLEANUP_SECONDS):
                    await self._end(name, upload)
            raise

    async def delete_parts(self, name: str) -> None:
        """End all uploads of a blob that were not completed, and delete their parts."""
        query = {"uploads": "", "prefix": name}
        async with self._send("GET", f"{self._options.address()}?{_encode(query)}") as answer:
            root = ElementTree.fromstring(await _body(answer))
        for upload in root.iterfind("{*}Upload"):
            if upload.findtext("{*}Key") == name:
                await self._end(name, upload.findtext("{*}UploadId") or "")

    async def _begin(self, name: str) -> str:
        async with self._send("POST", self._address(name, {"uploads": ""})) as answer:
            found = ElementTree.fromstring(await _body(answer)).findtext("{*}UploadId")
        if not found:
            raise Unreachable("S3: the answer has no id of the upload")
        return found

    async def _write_parts(self, name: str, upload: str, content: AsyncIterable[bytes]) -> BlobInfo:
        checksum, size, tags = hashlib.sha256(), 0, list[str]()
        async with aclosing(cut(content, self._part_bytes)) as parts:
            async for part in parts:
                tags.append(await self._send_part(name, upload, len(tags) + 1, part))
                await asyncio.to_thread(checksum.update, part)
                size += len(part)
        if not tags:
            # S3 completes no upload without parts.
            tags.append(await self._send_part(name, upload, 1, b""))
        await self._complete(name, upload, tags)
        return BlobInfo(name, size, checksum.hexdigest())

    async def _send_part(self, name: str, upload: str, number: int, part: bytes) -> str:
        address = self._address(name, {"partNumber": str(number), "uploadId": upload})
        sha256 = (await asyncio.to_thread(hashlib.sha256, part)).hexdigest()
        headers = {"content-length": str(len(part))}
        async with self._send("PUT", address, headers, _content_of(part), sha256) as answer:
            await _body(answer)
            return answer.headers["etag"]

    async def _complete(self, name: str, upload: str, tags: list[str]) -> None:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        headers = {"content-length": str(len(body)), "content-type": "application/xml"}
        address, sha256 = self._address(name, {"uploadId": upload}), hashlib.sha256(body).hexdigest()
        async with self._send("POST", address, headers, _content_of(body), sha256) as answer:
            # S3 may answer 200 before it knows the outcome.
            if not ElementTree.fromstring(await _body(answer)).tag.endswith("CompleteMultipartUploadResult"):
                raise Unreachable("S3: an upload was not completed")

    async def _end(self, name: str, upload: str) -> None:
        async with self._send("DELETE", self._address(name, {"uploadId": upload})) as answer:
            await _body(answer, 200, 204, 404)

    def _address(self, name: str, query: Mapping[str, str]) -> str:
        return f"{self._options.address(name)}?{_encode(query)}"


def _encode(query: Mapping[str, str]) -> str:
    return urlencode(sorted(query.items()), quote_via=quote, safe="")


def _content_of(data: bytes) -> Callable[[], AsyncIterator[bytes]]:
    async def content() -> AsyncIterator[bytes]:
        yield data

    return content


async def _body(answer: httpx.Response, *statuses: int) -> bytes:
    if answer.status_code not in (statuses or (200,)):
        # The body may quote the signature, and would end up in the log.
        raise Unreachable(f"S3: {answer.request.method}: status {answer.status_code}")
    return await answer.aread()
