"""Database servers for tests: embedded, or those of CONFAB_TEST_MONGO_URL and CONFAB_TEST_REDIS_URL."""

from __future__ import annotations

import functools
import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pymongo import MongoClient
from redis import Redis
from redis.cluster import RedisCluster

from server.embedded import EmbeddedServers, RunningServers, ports
from server.settings import UNLIMITED, Settings, load_settings, variable
from store.files.blobs.s3_signing import S3Options
from store.redis.cluster.url import parse_cluster_url
from tests.browser.programs import failed_once
from tests.cluster.nodes import redis_cluster
from tests.files.blobs.moto_server import moto_server
from tests.targeting import Watch, as_sharded

for _rate in UNLIMITED:
    # Tests send more than any person. Tests of rate limits set them.
    os.environ.setdefault(variable(_rate), "0")

# Of the processes of one run, each picks ports from a range of its own, so two rarely pick the same one.
_PORTS_PER_PROCESS = 1_000
if "PYTEST_XDIST_WORKER" in os.environ:
    _process = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % 10
    ports.FIRST += _process * _PORTS_PER_PROCESS
    ports.LAST = ports.FIRST + _PORTS_PER_PROCESS - 1

# No test fetches what its messages link to. Tests of previews have a site of their own.
os.environ.setdefault(variable("link_previews"), "false")

# Without CONFAB_TEST_LONG, examples are the same each time, so that a failure is caused by a change of the code. On a
# busy machine, examples and their generation may take long.
hypothesis_settings.register_profile(
    "confab",
    derandomize=os.environ.get("CONFAB_TEST_LONG") != "1",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("confab")

_LONGEST = {
    name: place
    for place, name in enumerate(
        (
            "test_in_demo.py",
            "test_import_continuing.py",
            "test_import_chat.py",
            "test_embedded.py",
            "test_cli.py",
            "test_in_playground.py",
        )
    )
}

_ROOT = Path(__file__).parent.parent

SLOW = tuple((_ROOT / "tests" / "slow_tests.txt").read_text().split())
"""Folders, modules and tests that `make test` leaves to `make slow`. Most start processes or wait for real time."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests, leave out the long ones, and run the slowest files first: others would wait for them."""
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker(pytest.mark.slow)
    if os.environ.get("CONFAB_TEST_LONG") != "1":
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    items.sort(key=lambda item: _LONGEST.get(item.path.name, len(_LONGEST)))


def is_slow(test: str) -> bool:
    """Return whether the list of slow tests names a test, its module or one of its folders."""
    return any(test.startswith(name) and (name[-1] == "/" or test[len(name) :][:1] in ("", ":", "[")) for name in SLOW)


def pytest_collection_finish() -> None:
    """Exclude objects that exist after collection from garbage collection, which would take a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the checks of browser programs that passed although they failed in one of two runs."""
    lines = failed_once(terminalreporter.getreports("passed"))
    if lines:
        terminalreporter.section("checks that failed in one of two runs", yellow=True)
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session", autouse=True)
def _long_deadlines() -> Iterator[None]:
    """Use long deadlines, so that no test depends on the speed of the machine.

    In production, services start after two seconds, and answer UNAVAILABLE until the databases are prepared. Requests
    wait 12 s for a load, or for a change of a group, and two seconds for the locks of several users, before they answer
    UNAVAILABLE. Searches end after two seconds, with what they have found. A database or a server without an answer for
    one or two seconds counts as away, and a server that stops gives its jobs back within one second.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.services.START_WAIT_SECONDS", 120.0)
        patch.setattr("store.redis.single_flight._TIMEOUT_SECONDS", 60.0)
        patch.setattr("resolvers.search.message_search.SEARCH_SECONDS", 60.0)
        patch.setattr("store.sessions.user_locks._MAX_WAIT_FOR_ALL_SECONDS", 20.0)
        patch.setattr("server.services._CHECK_SECONDS", 20.0)
        patch.setattr("subscriptions.realtime.ring.server_ring.ANSWER_SECONDS", 20.0)
        patch.setattr("resolvers.jobs.job_worker._GIVE_BACK_SECONDS", 20.0)
        yield


@pytest.fixture(scope="session")
def database_servers() -> Iterator[RunningServers]:
    """Servers for all tests of one process. Tests that stop or flush a server start their own EmbeddedServers."""
    mongo_url = os.environ.get("CONFAB_TEST_MONGO_URL")
    redis_url = os.environ.get("CONFAB_TEST_REDIS_URL")
    if ON_CLUSTER and redis_url is None:
        with redis_cluster() as cluster, pytest.MonkeyPatch.context() as patch:
            patch.setenv("CONFAB_TEST_REDIS_URL", cluster.url)
            yield from _servers(mongo_url, cluster.url)
        return
    yield from _servers(mongo_url, redis_url)


def folder_in_memory() -> str | None:
    """Return a folder in memory if it has room for the data of several processes, and otherwise None.

    On a disk, creating the indexes of a database takes twice as long, because each of them is flushed.
    """
    folder = "/dev/shm"
    is_usable = Path(folder).is_dir() and os.access(folder, os.W_OK)
    return folder if is_usable and shutil.disk_usage(folder).free >= _BYTES_IN_MEMORY else None


_BYTES_IN_MEMORY = 6 * 2**30


def _servers(mongo_url: str | None, redis_url: str | None) -> Iterator[RunningServers]:
    if mongo_url and redis_url:
        yield RunningServers(mongo_url, redis_url)
        return
    # pytest's tmp_path would keep the folders of the last three runs, 300 MB each.
    folder = Path(tempfile.mkdtemp(prefix="confab-tests-", dir=folder_in_memory()))
    try:
        with EmbeddedServers(folder, mongo=not mongo_url, redis=not redis_url) as servers:
            if not mongo_url:
                _keep_expired_rows(servers.mongo_url)
            yield RunningServers(mongo_url or servers.mongo_url, redis_url or servers.redis_url)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep_expired_rows(mongo_url: str) -> None:
    """Stop MongoDB from removing expired rows. Clocks of tests may be far behind its clock."""
    with MongoClient[dict[str, Any]](mongo_url) as client:
        client.admin.command("setParameter", 1, ttlMonitorEnabled=False)


@pytest.fixture(scope="session")
def _as_sharded() -> Iterator[Watch | None]:
    """With CONFAB_TEST_SHARDED, stores treat MongoDB as a sharded cluster, and their commands are checked."""
    if not os.environ.get("CONFAB_TEST_SHARDED"):
        yield None
        return
    with as_sharded(filled=True) as watch:
        yield watch


@pytest.fixture(autouse=True)
def _named_shards(_as_sharded: Watch | None) -> Iterator[None]:
    """Check that no command of the test went to all shards."""
    yield
    if _as_sharded is not None:
        untargeted, _as_sharded.untargeted = _as_sharded.untargeted, []
        assert untargeted == []


@pytest.fixture(scope="session")
def mongo_url(database_servers: RunningServers) -> str:
    assert database_servers.mongo_url is not None
    return database_servers.mongo_url


@pytest.fixture(scope="session")
def redis_url(database_servers: RunningServers) -> str:
    assert database_servers.redis_url is not None
    return database_servers.redis_url


@pytest.fixture(scope="session")
def _mongo_janitor(mongo_url: str) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](mongo_url) as client:
        yield client
        for drop in _drops:
            drop.result()


@pytest.fixture(scope="session")
def _redis_janitor(redis_url: str) -> Iterator[Redis | RedisCluster]:
    with redis_client(redis_url) as client:
        yield client


ON_CLUSTER = os.environ.get("CONFAB_TEST_REDIS") == "cluster"
"""True if the suite's Redis is a cluster (`make cluster`)."""

of_one_redis = pytest.mark.skipif(ON_CLUSTER, reason="about one Redis, not a cluster")


def redis_client(url: str) -> Redis | RedisCluster:
    """Return a client for one Redis or for a Redis Cluster."""
    cluster = parse_cluster_url(url)
    return Redis.from_url(url) if cluster is None else RedisCluster.from_url(cluster.node_url(cluster.seeds[0]))


_dropper = ThreadPoolExecutor(1, thread_name_prefix="dropper")
_drops: list[Future[None]] = []


def drop_soon(janitor: MongoClient[dict[str, Any]], database: str) -> None:
    """Drop a database in the background. It takes a tenth of a second; the session waits for it at its end."""
    _drops.append(_dropper.submit(janitor.drop_database, database))


@contextmanager
def own_database(janitor: MongoClient[dict[str, Any]]) -> Iterator[str]:
    """Provide the name of a new database, and drop it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    yield name
    drop_soon(janitor, name)


def send_to_redis(url: str, *words: str) -> None:
    """Send a command to Redis, or to every node of a cluster."""
    with redis_client(url) as client:
        client.execute_command(*words, **({"target_nodes": "all"} if isinstance(client, RedisCluster) else {}))


@contextmanager
def own_prefix(janitor: Redis | RedisCluster) -> Iterator[str]:
    """Provide a new key prefix, and delete its keys afterwards."""
    prefix = f"t{secrets.token_hex(6)}:"
    yield prefix
    keys = list(janitor.scan_iter(match=f"{prefix}*", count=1000))
    if keys:
        janitor.delete(*keys)


@pytest.fixture(scope="module")
def _module_database(_mongo_janitor: MongoClient[dict[str, Any]]) -> Iterator[str]:
    with own_database(_mongo_janitor) as name:
        yield name


@pytest.fixture
def emptied_database(_module_database: str, _mongo_janitor: MongoClient[dict[str, Any]]) -> Iterator[str]:
    """The module's database, which is emptied after each test: creating its indexes takes longer than most tests.

    For tests that leave no process and no transaction behind.
    """
    yield _module_database
    database = _mongo_janitor[_module_database]
    for collection in database.list_collection_names(filter={"name": {"$not": {"$regex": "^system\\."}}}):
        database[collection].delete_many({})


@pytest.fixture
def mongo_database_name(_mongo_janitor: MongoClient[dict[str, Any]]) -> Iterator[str]:
    """A database for one test."""
    with own_database(_mongo_janitor) as name:
        yield name


@pytest.fixture
def redis_prefix(_redis_janitor: Redis | RedisCluster) -> Iterator[str]:
    """A key prefix for one test."""
    with own_prefix(_redis_janitor) as prefix:
        yield prefix


@pytest.fixture
def settings_with(
    mongo_url: str, redis_url: str, mongo_database_name: str, redis_prefix: str
) -> Callable[..., Settings]:
    """Settings with a database and a key prefix for one test: `settings_with(data_center=7)`."""
    return functools.partial(
        load_settings,
        mongo_url=mongo_url,
        redis_url=redis_url,
        mongo_database=mongo_database_name,
        redis_prefix=redis_prefix,
    )


@pytest.fixture(scope="module")
def module_settings(
    mongo_url: str, redis_url: str, _mongo_janitor: MongoClient[dict[str, Any]], _redis_janitor: Redis | RedisCluster
) -> Iterator[Settings]:
    """Settings with a database and a key prefix for all tests of a module."""
    with own_database(_mongo_janitor) as database, own_prefix(_redis_janitor) as prefix:
        yield load_settings(mongo_url=mongo_url, redis_url=redis_url, mongo_database=database, redis_prefix=prefix)


@pytest.fixture
def settings(settings_with: Callable[..., Settings]) -> Settings:
    return settings_with()


@pytest.fixture(scope="session")
def s3_options() -> Iterator[S3Options]:
    """A bucket of S3, for all tests of one process."""
    with moto_server() as address:
        options = S3Options("confab-files", "us-east-1", "key", "secret-key", address)
        httpx.put(options.address(), trust_env=False, timeout=60).raise_for_status()
        yield options
