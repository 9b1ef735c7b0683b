"""The key of addresses: the setting, or one that all servers of the deployment read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from server.file_address_keys import file_addresses
from server.settings import SettingsError, load_settings
from store.base.clock import DeploymentClock
from store.base.errors import Unreachable
from store.deployment.deployment import Deployment
from store.files.file import FileId
from store.mongo.client import Mongo
from store.mongo.collections import DEPLOYMENT
from store.redis.cache import Cache
from store.scripts import read_scripts
from tests.clock import ManualClock

CLOCK = DeploymentClock(ManualClock())
KEY, PREVIOUS_KEY = "b0f5a9c7d2e84163908f7a6b5c4d3e21", "0d2b8e84163908f7a6b5c4d3e21b0f5a"


OpenServer = Callable[[], Deployment]


@pytest.fixture
async def new_server(
    mongo_url: str, mongo_database_name: str, redis_url: str, redis_prefix: str
) -> AsyncIterator[OpenServer]:
    """Return a function that makes a server of one deployment, with connections of its own."""
    async with AsyncExitStack() as stack:

        def new() -> Deployment:
            mongo, cache = Mongo(mongo_url, mongo_database_name), Cache(redis_url, read_scripts, prefix=redis_prefix)
            stack.push_async_callback(mongo.close)
            stack.push_async_callback(cache.close)
            return Deployment(mongo, cache, cache.keys, CLOCK)

        yield new


@pytest.mark.parametrize("is_older", [False, True], ids=["a new deployment", "one of an earlier version"])
async def test_servers_that_start_together_have_the_same_key(new_server: OpenServer, is_older: bool) -> None:
    if is_older:
        first = new_server()
        await first.open()
        await first._mongo.update_one(DEPLOYMENT, {"_id": 1}, {"$unset": {"fkey": ""}})
    servers = [new_server() for _ in range(3)]
    issuers = [file_addresses(load_settings(jwt_secret=KEY), CLOCK, server) for server in servers]
    with pytest.raises(Unreachable):
        issuers[0].file(FileId(7), "photo.jpg")
    await asyncio.gather(*(server.open() for server in servers))
    (key,) = {server.file_address_key for server in servers}
    assert key is not None and len(key) == 32
    (address,) = {issuer.file(FileId(7), "photo.jpg") for issuer in issuers}
    later = new_server()
    await later.open()
    assert later.file_address_key == key
    # A key of the settings is used instead.
    assert file_addresses(load_settings(file_address_key=KEY), CLOCK, later).file(FileId(7), "photo.jpg") != address


def test_keys_are_read_from_files(tmp_path: Path) -> None:
    key, previous = tmp_path / "key", tmp_path / "previous"
    key.write_text(f"{KEY}\n")
    previous.write_text(f"{PREVIOUS_KEY}\n")
    settings = load_settings(file_address_key_file=key, file_address_previous_keys_file=previous)
    assert settings.file_address_key is not None
    assert settings.file_address_key.get_secret_value() == KEY
    assert [each.get_secret_value() for each in settings.file_address_previous_keys] == [PREVIOUS_KEY]
    with pytest.raises(SettingsError) as caught:
        load_settings(
            file_address_key=KEY,
            file_address_key_file=key,
            file_address_previous_keys=[PREVIOUS_KEY],
            file_address_previous_keys_file=previous,
        )
    assert caught.value.problems == [
        "CONFAB_FILE_ADDRESS_KEY and CONFAB_FILE_ADDRESS_KEY_FILE are set together: set only one of them.",
        "CONFAB_FILE_ADDRESS_PREVIOUS_KEYS and CONFAB_FILE_ADDRESS_PREVIOUS_KEYS_FILE are set together: "
        "set only one of them.",
    ]
