"""Calls about files, as a frontend makes them, and the PUT of their bytes."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from server.files.upload_endpoint import UploadEndpoint
from tests.api.client import Api, Json

FILE = "id filename contentType sizeBytes description state url width height thumbHash thumbnailUrl spoiler"
CREATE_UPLOAD = """mutation ($input: CreateUploadInput!) { createUpload(input: $input) {
    id url method headers { name value } expiresAt } }"""
COMPLETE = f"mutation ($id: ID!) {{ completeUpload(uploadId: $id) {{ {FILE} }} }}"
CANCEL = "mutation ($id: ID!) { cancelUpload(uploadId: $id) }"
ATTACHMENT = f"query ($id: ID!) {{ attachment(id: $id) {{ {FILE} }} }}"
NODE = f"query ($id: ID!) {{ node(id: $id) {{ id ... on Attachment {{ {FILE} }} }} }}"

BYTES = b"some bytes"


def upload_input(conversation: str, content: bytes = BYTES, **fields: Any) -> Json:
    return {"conversationId": conversation, "filename": "notes.txt", "sizeBytes": len(content)} | fields


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def create_upload(api: Api, user: str, conversation: str, content: bytes = BYTES, **fields: Any) -> Json:
    created: Json = (await api.data(user, CREATE_UPLOAD, input=upload_input(conversation, content, **fields)))[
        "createUpload"
    ]
    return created


async def put(
    api: Api,
    url: str,
    content: bytes | AsyncIterator[bytes] = BYTES,
    endpoint: UploadEndpoint | None = None,
    **headers: str,
) -> httpx.Response:
    """Send bytes to the endpoint of a process."""
    routes = [Route("/files/{file}", endpoint or UploadEndpoint(api.services.app), methods=["PUT"])]
    transport = httpx.ASGITransport(Starlette(routes=routes))
    parts = urlsplit(url)
    async with httpx.AsyncClient(transport=transport, base_url="http://files") as client:
        return await client.put(f"{parts.path}?{parts.query}", content=content, headers=headers)


async def complete(api: Api, user: str, upload: str) -> Json:
    completed: Json = (await api.data(user, COMPLETE, id=upload))["completeUpload"]
    return completed


async def upload_file(api: Api, user: str, conversation: str, content: bytes = BYTES, **fields: Any) -> Json:
    """Return a file whose upload is complete."""
    upload = await create_upload(api, user, conversation, content, **fields)
    assert (await put(api, upload["url"], content)).status_code == 204
    return await complete(api, user, upload["id"])


async def find_file(api: Api, user: str, file: str) -> Json | None:
    found: Json | None = (await api.data(user, ATTACHMENT, id=file))["attachment"]
    assert (await api.data(user, NODE, id=file))["node"] == found
    return found


def rows(api: Api, collection: str = "files") -> list[Json]:
    """Return all rows of a collection in order."""
    return list(api.database[collection].find().sort("_id"))


def blob_names(api: Api) -> set[str]:
    """Return the names of all blobs, also of those that are not whole."""
    found = {row["_id"] for row in rows(api, "blobs.files")}
    return found | {row["files_id"] for row in rows(api, "blobs.chunks")}
