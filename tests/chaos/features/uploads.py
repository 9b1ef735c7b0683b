"""Sends the bytes of files to any server, and reads them back."""

from __future__ import annotations

import asyncio
import mimetypes
from urllib.parse import urlsplit

import httpx
import orjson

from tests.chaos.judges.history import Json
from tests.chaos.load.connection import AnswerLost, RequestFailed
from tests.chaos.load.requester import Requester

_SECONDS = 25.0


async def upload(requester: Requester, conversation: str, name: str, content: bytes) -> str:
    """Upload a file for a conversation, and return its id. Raises RequestFailed, GaveUp."""
    given = {
        "conversationId": conversation,
        "filename": name,
        "sizeBytes": len(content),
        "contentType": mimetypes.guess_type(name)[0],
        "idempotencyKey": name,
    }
    created: Json = await requester.request("createUpload", input=given)
    headers = {header["name"]: header["value"] for header in created["headers"]}
    try:
        await requester.repeat("PUT of a file", lambda: _put(requester, created["url"], content, headers))
    except RequestFailed as failed:
        # An earlier request, whose answer was lost, was carried out after a later one.
        if failed.code != "INVALID_INPUT":
            raise
    completed: Json = await requester.request("completeUpload", id=created["id"])
    return str(completed["id"])


async def download(requester: Requester, url: str) -> bytes | None:
    """Return the bytes at an address; None if there is no such file. Raises GaveUp."""

    async def attempt() -> bytes | None:
        response = await _send(requester, "GET", url)
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        _check(response, "GET of a file")
        return response.content

    content: bytes | None = await requester.repeat("GET of a file", attempt)
    return content


async def _put(requester: Requester, url: str, content: bytes, headers: dict[str, str]) -> None:
    _check(await _send(requester, "PUT", url, content=content, headers=headers), "PUT of a file")


async def _send(
    requester: Requester, method: str, url: str, *, content: bytes | None = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    """Send a request to any server: the name of a deployment has several addresses. Raises AnswerLost."""
    parts = urlsplit(url)
    server = requester.load.servers.pick(requester.rng)
    target = f"{server.url}{parts.path}?{parts.query}"
    try:
        async with asyncio.timeout(_SECONDS):
            return await requester.load.http.request(method, target, content=content, headers=headers)
    except (httpx.TransportError, TimeoutError) as error:
        raise AnswerLost(f"{type(error).__name__} by HTTP") from error


def _check(response: httpx.Response, operation: str) -> None:
    """Raise RequestFailed unless the request succeeded."""
    if response.is_success:
        return
    try:
        error = orjson.loads(response.content)["errors"][0]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        error = {"message": response.text, "extensions": {"code": f"HTTP {response.status_code}"}}
    raise RequestFailed(operation, error)
