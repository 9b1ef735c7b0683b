"""Settings of the store of files: what is refused, and the store that they make."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from server.blob_store import open_blob_store
from server.settings import SettingsError, load_settings
from store.files.blobs.gridfs import GridFSBlobs
from store.files.blobs.s3 import S3Blobs
from store.mongo.client import Mongo
from tests.architecture.sources import ROOT

S3 = {"blob_store": "s3", "s3_bucket": "confab-files", "s3_access_key": "id", "s3_secret_key": "a-secret-key"}


def problems(**given: object) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load_settings(**given)
    return raised.value.problems


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"s3_bucket": None}, "CONFAB_BLOB_STORE is s3, which also needs CONFAB_S3_BUCKET."),
        ({"s3_access_key": None, "s3_secret_key": None}, "CONFAB_S3_ACCESS_KEY and CONFAB_S3_SECRET_KEY (or"),
        ({"blob_store": "gridfs"}, "CONFAB_S3_ACCESS_KEY is set without CONFAB_BLOB_STORE=s3"),
        ({"blob_store": "disk"}, "CONFAB_BLOB_STORE is 'disk', but should be one of gridfs, s3."),
        ({"s3_secret_key": "short"}, "CONFAB_S3_SECRET_KEY should be at least 8 characters."),
        ({"s3_secret_key_file": Path(__file__)}, "CONFAB_S3_SECRET_KEY and CONFAB_S3_SECRET_KEY_FILE are set together"),
        ({"s3_bucket": "Files"}, "CONFAB_S3_BUCKET is 'Files'"),
        ({"s3_region": "eu central"}, "CONFAB_S3_REGION is 'eu central'"),
        ({"s3_endpoint": "s3.example.org"}, "CONFAB_S3_ENDPOINT is 's3.example.org'"),
        ({"s3_endpoint": "https://user:pass@s3.example.org"}, "CONFAB_S3_ENDPOINT is 'https://***@s3.example.org'"),
        ({"s3_public_endpoint": "https://s3.example.org/?a=b"}, "CONFAB_S3_PUBLIC_ENDPOINT is"),
        ({"max_file_bytes": 1023}, "CONFAB_MAX_FILE_BYTES is '1023'"),
        ({"max_file_bytes": 2**31}, "CONFAB_MAX_FILE_BYTES is"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, object], named: str) -> None:
    given = {name: value for name, value in (S3 | changed).items() if value is not None}
    found = problems(**given)
    assert found[0].startswith(named) or named in found[0]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "botocore" else find_spec(name))
    assert problems(**S3) == ["CONFAB_BLOB_STORE is s3, but botocore is not installed: run pip install 'confab[s3]'."]


def test_the_secret_key_is_read_from_a_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("a-secret-key\n")
    given = {name: value for name, value in S3.items() if name != "s3_secret_key"}
    settings = load_settings(**given, s3_secret_key_file=file)
    assert settings.s3_secret_key is not None and settings.s3_secret_key.get_secret_value() == "a-secret-key"
    assert "a-secret-key" not in repr(settings)
    file.write_text("short")
    assert problems(**given, s3_secret_key_file=file) == [
        "The file of CONFAB_S3_SECRET_KEY_FILE should contain at least 8 characters."
    ]


@pytest.mark.long
def test_the_libraries_of_s3_are_imported_only_for_s3() -> None:
    program = "import server.app, server.cli.commands, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "server.app" in loaded.stdout.split() and "botocore" not in loaded.stdout.split()


async def test_the_settings_choose_the_store() -> None:
    mongo = Mongo("mongodb://127.0.0.1:1/", "nothing")
    assert isinstance(open_blob_store(load_settings(), mongo), GridFSBlobs)
    for given, address in (
        ({}, "https://s3.us-east-1.amazonaws.com/confab-files/1/a"),
        (
            {"s3_region": "eu-central-1", "s3_path_style": False},
            "https://confab-files.s3.eu-central-1.amazonaws.com/1/a",
        ),
        (
            {"s3_endpoint": "http://minio:9000", "s3_public_endpoint": "https://f.example"},
            "https://f.example/confab-files/1/a",
        ),
    ):
        s3 = open_blob_store(load_settings(**S3, **given), mongo)
        assert isinstance(s3, S3Blobs)
        url = s3.download_url("1/a", "text/plain", "inline", 60)
        assert url is not None and url.partition("?")[0] == address
        await s3.close()
    await mongo.close()
