"""Settings of the blob store, which keeps the bytes of files, and their checks."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from server.settings.section import Section, variable
from server.settings.validators import check_http_url, check_readable_file

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_REGION = re.compile(r"[a-z0-9-]{1,64}\Z")
_MIN_KEY_CHARACTERS = 8


def _check_endpoint(url: str) -> str:
    try:
        parts = urlsplit(check_http_url(url))
        if not (parts.query or parts.fragment or parts.username or parts.password):
            return url.rstrip("/")
    except ValueError:
        pass
    raise ValueError("an address such as https://s3.eu-central-1.amazonaws.com, without a user and options")


def _check_bucket(name: str) -> str:
    if not _BUCKET.match(name):
        raise ValueError("3 to 63 lower-case letters, digits, dots and hyphens")
    return name


def _check_region(name: str) -> str:
    if not _REGION.match(name):
        raise ValueError("lower-case letters, digits and hyphens, such as eu-central-1")
    return name


def check_s3_secret(secret: SecretStr) -> SecretStr:
    """Accept secret keys of S3."""
    if len(secret.get_secret_value()) < _MIN_KEY_CHARACTERS:
        raise ValueError(f"at least {_MIN_KEY_CHARACTERS} characters")
    return secret


class BlobStoreSettings(Section):
    """Blob store.

    [Operations](operations/files-and-pictures.md) says which store to choose, and how to prepare a bucket.
    """

    blob_store: Literal["gridfs", "s3"] = "gridfs"
    """Where the bytes of files are: in MongoDB (GridFS), or in a bucket of S3. Files do not move if it is changed."""
    max_file_bytes: int = Field(26_214_400, ge=1024, le=2_147_483_647)
    """Largest file that may be uploaded."""
    s3_bucket: Annotated[str, AfterValidator(_check_bucket)] | None = None
    """Bucket that has nothing but the files of this deployment."""
    s3_region: Annotated[str, AfterValidator(_check_region)] = "us-east-1"
    """Region of the bucket. Services other than AWS often accept any."""
    s3_endpoint: Annotated[str, AfterValidator(_check_endpoint)] | None = None
    """Address of the service. None: that of AWS in `s3_region`."""
    s3_public_endpoint: Annotated[str, AfterValidator(_check_endpoint)] | None = None
    """Address at which clients reach the same service, if it is not `s3_endpoint`."""
    s3_path_style: bool = True
    """The bucket is in the path of addresses. If false, it is the first part of the host name."""
    s3_access_key: str | None = Field(None, min_length=1)
    """Id of the access key for the bucket."""
    s3_secret_key: Annotated[SecretStr, AfterValidator(check_s3_secret)] | None = None
    """Secret of the access key."""
    s3_secret_key_file: Annotated[Path, AfterValidator(check_readable_file)] | None = None
    """File that contains `s3_secret_key`. Surrounding white space is ignored."""


def find_blob_store_problems(settings: BlobStoreSettings) -> list[str]:
    """Return a sentence for each combination of these settings that makes no sense."""
    if settings.s3_secret_key is not None and settings.s3_secret_key_file is not None:
        return ["CONFAB_S3_SECRET_KEY and CONFAB_S3_SECRET_KEY_FILE are set together: set only one of them."]
    if settings.blob_store != "s3":
        unused = sorted(field for field in settings.model_fields_set if field.startswith("s3_"))
        return [
            f"{variable(field)} is set without CONFAB_BLOB_STORE=s3: set that too, or unset it." for field in unused
        ]
    problems = []
    required = {
        "CONFAB_S3_BUCKET": settings.s3_bucket,
        "CONFAB_S3_ACCESS_KEY": settings.s3_access_key,
        "CONFAB_S3_SECRET_KEY (or CONFAB_S3_SECRET_KEY_FILE)": settings.s3_secret_key or settings.s3_secret_key_file,
    }
    missing = [name for name, value in required.items() if value is None]
    if missing:
        problems.append(f"CONFAB_BLOB_STORE is s3, which also needs {' and '.join(missing)}.")
    if importlib.util.find_spec("botocore") is None:
        problems.append("CONFAB_BLOB_STORE is s3, but botocore is not installed: run pip install 'confab[s3]'.")
    return problems


def s3_endpoint(settings: BlobStoreSettings) -> str:
    """Return the address of the S3 service."""
    return settings.s3_endpoint or f"https://s3.{settings.s3_region}.amazonaws.com"
