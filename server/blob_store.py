"""Opens the blob store that the settings name."""

from __future__ import annotations

import structlog

from server.settings.blob_store import BlobStoreSettings, s3_endpoint
from store.base.errors import StoreError
from store.files.blobs.base import BlobStore
from store.files.blobs.gridfs import GridFSBlobs
from store.mongo.client import Mongo

_log = structlog.get_logger(__name__)


def open_blob_store(settings: BlobStoreSettings, mongo: Mongo) -> BlobStore:
    """Return the blob store of the settings. Its first call connects."""
    if settings.blob_store == "gridfs":
        return GridFSBlobs(mongo)
    # botocore is optional, and takes 3 MB of memory.
    from store.files.blobs.s3 import S3Blobs
    from store.files.blobs.s3_signing import S3Options

    secret = settings.s3_secret_key.get_secret_value() if settings.s3_secret_key is not None else ""
    return S3Blobs(
        S3Options(
            bucket=settings.s3_bucket or "",
            region=settings.s3_region,
            access_key=settings.s3_access_key or "",
            secret_key=secret,
            endpoint=s3_endpoint(settings),
            public_endpoint=settings.s3_public_endpoint,
            path_style=settings.s3_path_style,
        )
    )


async def check_blob_store(blobs: BlobStore) -> None:
    """Log a warning if the store does not answer. The server works without it, except for files."""
    try:
        await blobs.open()
    except StoreError as error:
        _log.warning("blob_store_unreachable", reason=str(error))
