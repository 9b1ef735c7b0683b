"""Exports in a bucket of S3: sent in parts, and read from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from store.files.blobs.s3_signing import S3Options
from tests.api.client import Api, private_id
from tests.api.conftest import OpenApi
from tests.api.export.calls import Zip, export, get
from tests.api.files.calls import complete, create_upload
from tests.api.files.test_s3_uploads import send, settings_of

CONTENT = bytes(range(256)) * 16


@pytest.fixture(scope="module")
def bucket(s3_options: S3Options) -> S3Options:
    bucket = replace(s3_options, bucket="confab-exports")
    httpx.put(bucket.address(), trust_env=False, timeout=60).raise_for_status()
    return bucket


@pytest.fixture(scope="module")
async def process(open_api: OpenApi, bucket: S3Options) -> AsyncIterator[Api]:
    async with open_api("s3", workers=False, **settings_of(bucket)) as api:
        yield api


async def test_an_export_is_in_the_bucket(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    upload = await create_upload(api, ann, private_id(ann, bob), CONTENT)
    await send(upload, CONTENT)
    await complete(api, ann, upload["id"])
    done = await export(api, ann)
    redirect = await get(api, done["url"], follow=False)
    assert redirect.status_code == 302
    query = parse_qs(urlsplit(redirect.headers["location"]).query)
    assert query["response-content-disposition"][0].startswith("attachment; filename=")
    zip = Zip((await get(api, done["url"])).content)
    (file,) = zip.lines("files")
    assert zip.read(file["path"]) == CONTENT
