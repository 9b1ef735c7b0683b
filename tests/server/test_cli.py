"""The command line: output, errors and exit codes."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import graphql
import httpx
import jwt
import pytest
from pymongo import MongoClient
from structlog.testing import capture_logs

from server.app import create_app
from server.cli import commands as cli
from server.embedded import find_running, ports
from server.settings import DEVELOPMENT_SECRET, load_settings
from store.mongo.sharding import SHARD_KEYS
from tests.conftest import folder_in_memory
from tests.protocol.peer import open_admitted_socket
from tests.server.tokens import SECRET, bearer

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A clean environment, and an empty working directory."""
    for name in [name for name in os.environ if name.startswith("CONFAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.fixture
def confab(environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Outcome]]:
    """Run a command within this process."""

    def run(*arguments: str) -> Outcome:
        environment.setattr(sys, "argv", ["confab", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        output = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Outcome(caught.value.code, output.out, output.err)

    hang_up = signal.getsignal(signal.SIGHUP)
    yield run
    signal.signal(signal.SIGHUP, hang_up)


def assert_refused(outcome: Outcome, reason: str) -> None:
    assert outcome.code == 2
    assert outcome.out == ""
    assert re.search(reason, outcome.err)
    assert outcome.err.count("\n") == 1


def test_token_prints_only_the_token_to_stdout(confab: Callable[..., Outcome]) -> None:
    outcome = confab("token", "alice")
    assert outcome.code == 0
    token = outcome.out.removesuffix("\n")
    claims = jwt.decode(token, DEVELOPMENT_SECRET, ["HS256"])
    assert (claims["sub"], claims["role"]) == ("alice", "user")
    assert claims["exp"] - claims["iat"] == pytest.approx(86_400, abs=1)
    assert "development secret" in outcome.err


def test_token_is_signed_with_the_configured_secret(
    confab: Callable[..., Outcome], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("CONFAB_JWT_SECRET", SECRET)
    outcome = confab("token", "bridge", "--role", "service", "--name", "The Bridge", "--ttl", "30d")
    claims = jwt.decode(outcome.out.strip(), SECRET, ["HS256"])
    assert (claims["sub"], claims["role"], claims["name"]) == ("bridge", "service", "The Bridge")
    assert claims["exp"] - claims["iat"] == pytest.approx(30 * 86_400, abs=1)
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["token", "white space"], "^A user id is"),
        (["token", "alice", "--ttl", "soon"], "^--ttl is 'soon', but should be"),
        (["token", "alice", "--ttl", "0"], "above 0"),
        (["token", "alice", "--role", "king"], "king"),
        (["token"], "Missing argument"),
        ([], "Missing command"),
        (["destroy"], "No such command 'destroy'"),
        (["dev", "--port", "http"], "--port"),
        (["dev", "--port", "65536"], "^CONFAB_PORT is '65536', but should be a whole number from 1 to 65535"),
        (["serve", "--workers", "0"], "--workers"),
        (["serve", "--workers", "32"], "less than or equal to 31"),
        (["import-chat", "no-such-file.jsonl", "--group", "Ubuntu"], "^no-such-file.jsonl is not a readable file"),
        (["import-chat", "no-such.jsonl", "--workspace", "W"], "^no-such.jsonl is not a readable file"),
        (["import-chat", "a.jsonl"], "^Give --group, or --workspace"),
        (["import-chat", "a.jsonl", "--group", "G", "--workspace", "W"], "^Give --group, or --workspace"),
        (["import-chat", "a.jsonl", "a.jsonl", "--group", "G"], "^Only one file can be imported into a group"),
        (["token", "helper", "--bot"], r"^No confab dev is running on \.data: set CONFAB_MONGO_URL"),
        (["revoke"], "Missing argument"),
        (["revoke", "alice"], r"^No confab dev is running on \.data: set CONFAB_MONGO_URL"),
        (["serve"], "^No key to check tokens with"),
    ],
)
def test_wrong_usage_gives_one_sentence(confab: Callable[..., Outcome], arguments: list[str], reason: str) -> None:
    assert_refused(confab(*arguments), reason)


def test_token_cannot_be_issued_with_a_jwk_set(confab: Callable[..., Outcome], environment: pytest.MonkeyPatch) -> None:
    environment.setenv("CONFAB_JWKS_URL", "https://id.example.org/jwks")
    assert_refused(confab("token", "alice"), "^Tokens are checked with a JWK set")


def test_serve_refuses_the_development_secret(confab: Callable[..., Outcome], environment: pytest.MonkeyPatch) -> None:
    environment.setenv("CONFAB_JWT_SECRET", DEVELOPMENT_SECRET)
    assert_refused(confab("serve"), "^CONFAB_JWT_SECRET is the development secret")
    environment.setenv("CONFAB_DEVELOPMENT", "true")
    assert_refused(confab("serve"), "^CONFAB_DEVELOPMENT is set")


def test_serve_warns_of_foreign_tokens_before_it_starts(
    confab: Callable[..., Outcome], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("CONFAB_JWKS_URL", "https://id.example.org/jwks")
    for command in (["serve", "--host", "192.0.2.1"], ["config"]):
        warning, *_ = confab(*command).err.splitlines()
        assert warning.startswith("Warning: CONFAB_JWT_AUDIENCE and CONFAB_JWT_ISSUER are not set: every token")
    with capture_logs() as logs:
        create_app(load_settings())
    assert [line["event"] for line in logs] == ["foreign_tokens_accepted"]
    environment.setenv("CONFAB_JWT_AUDIENCE", "chat")
    environment.setenv("CONFAB_JWT_ISSUER", "https://id.example.org/")
    assert_refused(confab("serve", "--host", "192.0.2.1"), r"^192\.0\.2\.1 is not an address")
    with capture_logs() as logs:
        create_app(load_settings())
    assert logs == []


def test_serve_warns_that_the_address_of_the_deployment_is_a_guess(
    confab: Callable[..., Outcome], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("CONFAB_JWT_SECRET", SECRET)
    environment.setattr("server.observability.logs.configure_logging", lambda _settings: None)
    environment.setattr("server.cli.serve.serve", lambda _app, _settings, sock, **_how: sock.close())
    with capture_logs() as logs:
        assert confab("serve", "--port", str(ports.pick_free()), "--host", "0.0.0.0").code == 0
    (warning,) = [line for line in logs if line["event"] == "public_url_not_set"]
    assert "addresses of files begin with http://localhost:" in warning["reason"]
    environment.setenv("CONFAB_PUBLIC_URL", "https://chat.example.org")
    with capture_logs() as logs:
        assert confab("serve", "--port", str(ports.pick_free())).code == 0
    assert logs == []


@pytest.mark.parametrize("user", ["auth0|7", "user_2N", "google-oauth2|103", "@ann:example.org", "größe/7%"])
def test_token_can_be_issued_for_ids_of_identity_providers(confab: Callable[..., Outcome], user: str) -> None:
    claims = jwt.decode(confab("token", "--role", "user", "--", user).out.strip(), DEVELOPMENT_SECRET, ["HS256"])
    assert claims["sub"] == user


def test_serve_reports_that_the_port_is_in_use(confab: Callable[..., Outcome], environment: pytest.MonkeyPatch) -> None:
    environment.setenv("CONFAB_JWT_SECRET", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(confab("serve", "--port", str(port)), rf"^Port {port} on 127\.0\.0\.1 is in use")


def test_serve_refuses_an_address_of_another_machine(
    confab: Callable[..., Outcome], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("CONFAB_JWT_SECRET", SECRET)
    assert_refused(confab("serve", "--host", "192.0.2.1"), r"^192\.0\.2\.1 is not an address of this machine")


def test_schema_prints_the_sdl(confab: Callable[..., Outcome]) -> None:
    outcome = confab("schema")
    assert outcome.code == 0
    assert graphql.build_schema(outcome.out).query_type is not None


# Separate processes


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="confab-cli-", dir=folder_in_memory()))
    yield path / "data"
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def started(*arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command as a process, and end it afterwards."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CONFAB_")}
    command = [sys.executable, "-m", "server.cli", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=clean | settings
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """Return the output of a process up to the line with `last`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if last in line:
            return lines
    raise AssertionError("it ended early:\n" + "\n".join(lines))


def rest_of(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=PATIENCE)
    return out


def wait_until_ready(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    process.kill()
    raise AssertionError("it does not serve:\n" + rest_of(process))


def ask_who_i_am(port: str | int, authorization: str) -> object:
    """Return the response of the API at this port."""
    response = httpx.post(
        f"http://127.0.0.1:{port}/graphql",
        json={"query": "{ me { id } }"},
        headers={"authorization": authorization},
        timeout=PATIENCE,
    )
    return response.json()


def workers_of(process: subprocess.Popen[str]) -> int:
    """Return the number of worker processes. Reads /proc, so Linux only."""
    # multiprocessing starts a helper process too.
    task = Path(f"/proc/{process.pid}/task/{process.pid}")
    children = (task / "children").read_text().split()
    return sum(b"multiprocessing.spawn" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)


def test_dev_starts_serves_and_stops(data_dir: Path, confab: Callable[..., Outcome]) -> None:
    port = str(ports.pick_free())
    other_port = str(ports.pick_free())
    dev = ("dev", "--data-dir", str(data_dir), "--port")
    with started(*dev, port) as process:
        output = lines_until(process, "Ctrl-C stops everything")
        tokens = {name: output[output.index(f"  {name}") + 1] for name in ("alice", "bob", "carol")}
        for name, token in tokens.items():
            assert ask_who_i_am(port, f"Bearer {token}") == {"data": {"me": {"id": name}}}

        assert_refused(confab(*dev, port), rf"^Port {port} on 127\.0\.0\.1 is in use")
        in_use = rf"^{data_dir} is in use by another Confab \(process {process.pid}\)"
        assert_refused(confab(*dev, other_port), in_use)

        process.send_signal(signal.SIGINT)
        out = rest_of(process)
        assert process.returncode == 0
        assert "Traceback" not in out
        assert out.rstrip().endswith("Stopped")
    assert find_running(data_dir) is None
    assert not list(data_dir.glob("*.pid"))
    assert (data_dir / "vapid_private_key").exists()


@pytest.mark.long
def test_dev_stops_with_the_reason_when_a_database_dies(data_dir: Path) -> None:
    with started("dev", "--data-dir", str(data_dir), "--port", str(ports.pick_free())) as process:
        lines_until(process, "Ctrl-C stops everything")
        os.kill(int((data_dir / "mongo.pid").read_text()), signal.SIGKILL)
        out = rest_of(process)
        assert process.returncode == 2
    assert "Traceback" not in out
    assert "MongoDB was killed" in out
    assert not list(data_dir.glob("*.pid"))


SEND = 'mutation { sendMessage(input: {toUserId: "bob", content: "hello"}) { message { id } } }'


@contextmanager
def held_writes(mongo_url: str) -> Iterator[Callable[[], None]]:
    """Block writes of MongoDB until the returned function is called, or the block ends."""
    with MongoClient[dict[str, object]](mongo_url) as mongo:
        held = True

        def let_go() -> None:
            nonlocal held
            if held:
                held = False
                mongo.admin.command("fsyncUnlock")

        mongo.admin.command("fsync", lock=True)
        try:
            yield let_go
        finally:
            let_go()


@pytest.mark.parametrize(("workers", "children"), [pytest.param("1", 0, marks=pytest.mark.long), ("2", 2)])
async def test_serve_answers_and_stops_gracefully(
    workers: str, children: int, mongo_url: str, redis_url: str, mongo_database_name: str, redis_prefix: str
) -> None:
    port = ports.pick_free()
    settings = {
        "CONFAB_MONGO_URL": mongo_url,
        "CONFAB_MONGO_DATABASE": mongo_database_name,
        "CONFAB_REDIS_URL": redis_url,
        "CONFAB_REDIS_PREFIX": redis_prefix,
        "CONFAB_JWT_SECRET": SECRET,
    }
    with started("serve", "--port", str(port), "--workers", workers, **settings) as process:
        wait_until_ready(process, port)
        tokens = {user: bearer(sub=user, exp=time.time() + 60) for user in ("alice", "bob")}
        for user, token in tokens.items():
            assert ask_who_i_am(port, token) == {"data": {"me": {"id": user}}}
        assert sys.platform != "linux" or workers_of(process) == children
        async with AsyncExitStack() as sockets:
            # Enough sockets to make it unlikely that one worker has all of them.
            url = f"ws://127.0.0.1:{port}/graphql"
            peers = [await sockets.enter_async_context(open_admitted_socket(url)) for _ in range(6)]
            for peer in peers:
                await peer.init({"Authorization": tokens["alice"]})
            with held_writes(mongo_url) as let_go:
                await peers[0].subscribe("send", SEND)
                assert await peers[0].is_alive()
                process.terminate()
                farewells = await asyncio.gather(*(peer.closed() for peer in peers[1:]))
                let_go()
            answer = await peers[0].receive()
            assert (answer["id"], answer["type"]) == ("send", "next")
            assert "errors" not in answer["payload"]
            assert (await peers[0].receive())["type"] == "complete"
            farewells.append(await peers[0].closed())
            for code, reason in farewells:
                assert code == 1012
                assert re.fullmatch(r"Service restart; retry in \d+ ms", reason)
            assert len({reason for _, reason in farewells}) > 1
        out = await asyncio.to_thread(rest_of, process)
        assert process.returncode == 0
    assert "Traceback" not in out


def test_shard_prints_commands_for_the_mongodb_shell(
    confab: Callable[..., Outcome], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("CONFAB_MONGO_DATABASE", "talk")
    lines = confab("shard").out.splitlines()
    assert lines[0] == 'sh.enableSharding("talk")'
    assert 'sh.shardCollection("talk.messages", { c: 1, b: 1 })' in lines
    assert 'sh.shardCollection("talk.sessions", { _id: 1 })' in lines
    assert 'db.getSiblingDB("talk").users.createIndex({ _id: "hashed" })' in lines
    divided = [line.split('"')[1] for line in lines if line.startswith("sh.shardCollection")]
    assert divided == [f"talk.{name}" for name in SHARD_KEYS]


def test_shard_refuses_a_mongodb_that_is_not_sharded(
    confab: Callable[..., Outcome], environment: pytest.MonkeyPatch, mongo_url: str, mongo_database_name: str
) -> None:
    environment.setenv("CONFAB_MONGO_URL", mongo_url)
    environment.setenv("CONFAB_MONGO_DATABASE", mongo_database_name)
    assert_refused(
        confab("shard", "--apply"), "is not a sharded cluster: set CONFAB_MONGO_URL to a mongos. Nothing was changed."
    )
    with MongoClient[dict[str, object]](mongo_url) as client:
        assert client[mongo_database_name].list_collection_names() == []
