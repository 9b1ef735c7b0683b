"""Embedded servers: starting, killing, leftover processes and conflicts."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from redis import Redis

from server.embedded import EmbeddedError, EmbeddedServers, PortTaken, RunningServers, find_running, ports
from server.embedded.binaries import find_mongod, find_redis
from server.embedded.failures import explain_exit
from server.embedded.folder import DataFolder
from tests.conftest import folder_in_memory

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux only")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Like tmp_path, but deleted at once: MongoDB takes 300 MB."""
    path = Path(tempfile.mkdtemp(prefix="confab-embedded-", dir=folder_in_memory()))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedServers]:
    path = Path(tempfile.mkdtemp(prefix="confab-embedded-", dir=folder_in_memory()))
    try:
        with EmbeddedServers(path) as servers:
            yield servers
    finally:
        shutil.rmtree(path, ignore_errors=True)


def insert(url: str, value: str) -> None:
    with MongoClient[dict[str, Any]](url) as client:
        client.kept.values.insert_one({"value": value})


def inserted(url: str) -> list[str]:
    with MongoClient[dict[str, Any]](url) as client:
        return [document["value"] for document in client.kept.values.find()]


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)


@contextlib.contextmanager
def process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a process, and kill it afterwards."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def is_running(pid: int) -> bool:
    """Return whether a process is alive. A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_second_start_has_the_same_data_and_addresses(folder: Path) -> None:
    started = time.monotonic()
    with EmbeddedServers(folder / "new") as servers:
        first_seconds = time.monotonic() - started
        assert servers.was_empty
        first = (servers.mongo_url, servers.redis_url)
        insert(servers.mongo_url, "kept")
    started = time.monotonic()
    with EmbeddedServers(folder / "new") as servers:
        assert time.monotonic() - started < 2 * first_seconds + 4
        assert not servers.was_empty
        assert (servers.mongo_url, servers.redis_url) == first
        assert inserted(servers.mongo_url) == ["kept"]


def test_replica_set_moves_if_its_port_is_in_use(folder: Path) -> None:
    with EmbeddedServers(folder, redis=False) as servers:
        insert(servers.mongo_url, "kept")
        before = servers.mongo_url
        port = int(before.partition("127.0.0.1:")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port)), EmbeddedServers(folder, redis=False) as servers:
        assert servers.mongo_url != before
        assert inserted(servers.mongo_url) == ["kept"]
        insert(servers.mongo_url, "written")


def test_ctrl_c_in_the_terminal_does_not_reach_the_servers(running: EmbeddedServers) -> None:
    for pid in (running.mongo_pid, running.redis_pid):
        assert pid is not None
        assert os.getsid(pid) != os.getsid(0)


def test_killed_redis_restarts_empty_on_the_same_address(running: EmbeddedServers) -> None:
    pid, url = running.redis_pid, running.redis_url
    with Redis.from_url(url) as redis:
        redis.set("key", "value")
        running.kill_redis()
        assert running.redis_pid is None
        running.start_redis()
        assert (running.redis_url, redis.get("key")) == (url, None)
    assert running.redis_pid not in {None, pid}
    running.check()


def test_killed_mongodb_restarts_with_acknowledged_writes(running: EmbeddedServers) -> None:
    url = running.mongo_url
    insert(url, "acknowledged")
    running.kill_mongo()
    running.start_mongo()
    assert running.mongo_url == url
    assert "acknowledged" in inserted(url)


def test_unexpected_end_of_a_server_is_detected(running: EmbeddedServers) -> None:
    pid = running.redis_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: running.redis_pid is None)
    with pytest.raises(EmbeddedError, match=r"^Redis was killed, possibly because memory ran out"):
        running.check()
    running.start_redis()
    running.check()


def test_other_processes_find_running_servers(folder: Path) -> None:
    assert find_running(folder) is None
    with EmbeddedServers(folder, mongo=False) as servers:
        assert find_running(folder) == RunningServers(mongo_url=None, redis_url=servers.redis_url)
    assert find_running(folder) is None


PARENT = """
import sys, time
from pathlib import Path
from server.embedded import EmbeddedServers
with EmbeddedServers(Path(sys.argv[1])) as servers:
    print(servers.mongo_pid, servers.redis_pid, servers.mongo_url, flush=True)
    time.sleep(600)
"""


@on_linux
def test_servers_start_again_after_their_parent_was_killed(folder: Path) -> None:
    with process([sys.executable, "-c", PARENT, str(folder)]) as parent:
        assert parent.stdout is not None
        mongo_pid, redis_pid, mongo_url = parent.stdout.readline().split()
        insert(mongo_url, "kept")
        parent.kill()
    # At once, while the old servers are still stopping.
    with EmbeddedServers(folder) as servers:
        assert servers.mongo_url == mongo_url
        assert inserted(mongo_url) == ["kept"]
        assert not is_running(int(mongo_pid))
        assert not is_running(int(redis_pid))


@on_linux
def test_servers_end_with_their_parent(folder: Path) -> None:
    with process([sys.executable, "-c", PARENT, str(folder)]) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()[:2]]
        parent.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_leftover_server_is_stopped_by_the_next_start(folder: Path) -> None:
    home = folder / "redis"
    home.mkdir()
    port = ports.pick_free()
    command = [str(find_redis().path), "--dir", str(home), "--port", str(port), "--set-proc-title", "no", "--save", ""]
    messages: list[str] = []
    with process(command) as leftover:
        (folder / "redis.pid").write_text(str(leftover.pid))
        wait_until(lambda: not ports.is_free(port))
        with EmbeddedServers(folder, mongo=False, on_progress=messages.append):
            leftover.wait(60)
    assert "Stopped Redis, which a killed run had left behind" in messages


def test_other_process_with_a_reused_pid_is_not_stopped(folder: Path) -> None:
    with process(["sleep", "600"]) as stranger:
        (folder / "redis.pid").write_text(str(stranger.pid))
        with EmbeddedServers(folder, mongo=False):
            assert stranger.poll() is None


def test_data_folder_is_locked_by_one_process(folder: Path) -> None:
    with EmbeddedServers(folder, mongo=False) as first:
        with pytest.raises(EmbeddedError) as caught:
            EmbeddedServers(folder, mongo=False).start()
        first.check()
    assert str(caught.value) == (
        f"{folder} is in use by another Confab (process {os.getpid()}): "
        "stop it, or choose another folder with --data-dir."
    )


def test_given_port_in_use_is_refused(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken) as caught, EmbeddedServers(folder, mongo=False, redis_port=port):
            pass
    assert str(caught.value) == (f"Port {port} for Redis is in use: stop the other program, or choose another port.")


def test_damaged_ports_file_is_ignored(folder: Path) -> None:
    (folder / "ports.json").write_text('{"redis": "six')
    with EmbeddedServers(folder, mongo=False) as servers, Redis.from_url(servers.redis_url) as redis:
        assert redis.ping()


def test_file_instead_of_the_data_folder_is_reported(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(EmbeddedError, match=r"file is not a folder: move the file away"):
        EmbeddedServers(folder / "file").start()


def test_unwritable_data_folder_is_reported(folder: Path) -> None:
    folder.chmod(0o500)
    try:
        with _without_privileges(), pytest.raises(EmbeddedError, match=r"is not writable \(Permission denied\)"):
            EmbeddedServers(folder / "new").start()
    finally:
        folder.chmod(0o700)


@contextlib.contextmanager
def _without_privileges() -> Iterator[None]:
    """Run without the privileges of root, who may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_full_disk_is_reported_before_the_start(folder: Path) -> None:
    data = DataFolder(folder)
    data.open()
    with (
        contextlib.closing(data),
        pytest.raises(EmbeddedError, match=r"is full \(\d+ MB free, 1000000000000 MB needed\)"),
    ):
        data.check_free_space(10**18)


def fake_mongod(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, version: str = "v7.0.5") -> None:
    """Put a mongod on PATH that prints its version, and otherwise runs the script."""
    program = folder / "bin" / "mongod"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "db version {version}"; exit; fi\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "echo 'mongod: error while loading shared libraries: libcurl.so.4: cannot open shared object file' >&2; "
            "exit 127",
            "MongoDB needs libcurl.so.4, which is missing on this system: install it (on Debian and Ubuntu: apt-get "
            "install libcurl4), or set CONFAB_MONGO_URL to a server of your own.",
        ),
        (
            "kill -ILL $$",
            "MongoDB needs a newer processor (x86-64 with AVX): use another machine, or set CONFAB_MONGO_URL to a "
            "server of your own.",
        ),
        (
            "echo 'write failed: No space left on device'; exit 14",
            "The disk of {home} is full: free some space,",
        ),
        (
            """echo '{"s":"E","c":"X","msg":"Out of luck"}'; exit 3""",
            "MongoDB ended with exit code 3 (Out of luck): see {home}.log.",
        ),
    ],
)
def test_failed_start_is_explained_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    fake_mongod(folder, monkeypatch, script)
    with pytest.raises(EmbeddedError) as caught:
        EmbeddedServers(folder / "data", redis=False).start()
    assert str(caught.value).startswith(sentence.format(home=folder / "data" / "mongo"))
    assert find_running(folder / "data") is None


def test_mongod_that_cannot_be_executed_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mongod(folder, monkeypatch, "exit 1")
    program = folder / "bin" / "mongod"
    assert find_mongod().path == program
    program.write_bytes(b"\x7fELF of another machine")
    assert find_mongod().path != program


def test_mongod_that_is_too_old_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mongod(folder, monkeypatch, "exit 1", version="v4.4.29")
    assert find_mongod().path != folder / "bin" / "mongod"


def test_missing_programs_are_reported_with_a_remedy() -> None:
    with pytest.raises(
        EmbeddedError, match=r"mongod (was not found|is available).* set CONFAB_MONGO_URL to a server of your own\.$"
    ):
        find_mongod(search_path="", package="no-such-package")
    with pytest.raises(
        EmbeddedError,
        match=r"valkey-server (was not found|is available).* set CONFAB_REDIS_URL to a server of your own\.$",
    ):
        find_redis(search_path="", package="no-such-package")


def test_failed_start_leaves_no_process_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_mongod(folder, monkeypatch, "sleep 0.5; exit 3")
    servers = EmbeddedServers(folder / "data")
    with pytest.raises(EmbeddedError, match="MongoDB ended with exit code 3"):
        servers.start()
    assert not (folder / "data" / "redis.pid").exists()
    assert not (folder / "data" / "mongo.pid").exists()


@pytest.mark.parametrize(
    ("log_text", "exit_code", "sentence"),
    [
        (
            '{"s":"E","c":"CONTROL","id":20568,"ctx":"initandlisten","msg":"Error setting up listener",'
            '"attr":{"error":{"code":9001,"codeName":"SocketException","errmsg":"Address already in use"}}}',
            48,
            "Port 20123 for MongoDB is in use",
        ),
        (
            '{"s":"F","c":"CONTROL","id":20573,"ctx":"initandlisten","msg":"Wrong mongod version","attr":{}}',
            62,
            "{home} was written by another version of MongoDB",
        ),
        (
            '{"s":"E","c":"WT","id":22435,"ctx":"initandlisten","msg":"WiredTiger error message",'
            '"attr":{"error":-31809}}',
            -6,
            "MongoDB cannot read its data in {home}: move it away to start with an empty one",
        ),
        (
            "mongod: /lib/libc.so.6: version `GLIBC_2.38' not found",
            1,
            "MongoDB needs GLIBC_2.38, which is missing on this system",
        ),
        (
            "cannot execute /opt/mongod: Exec format error",
            1,
            "MongoDB cannot be executed on this system (Exec format error)",
        ),
        ("", -11, "MongoDB ended with SIGSEGV: see {home}.log."),
    ],
)
def test_reason_is_found_in_the_log_of_a_server(tmp_path: Path, log_text: str, exit_code: int, sentence: str) -> None:
    log = tmp_path.with_suffix(".log")
    reason = explain_exit("MongoDB", "CONFAB_MONGO_URL", log, log_text, exit_code, 20123, tmp_path)
    assert str(reason).startswith(sentence.format(home=tmp_path))
