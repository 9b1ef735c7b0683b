"""Proxies with TLS in front of real servers: HAProxy, nginx and Caddy with the files of deploy/."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme

from server.embedded.ports import pick_free
from server.settings import load_settings
from server.sse.stream import StreamLimits
from tests.conftest import ON_CLUSTER, folder_in_memory
from tests.deployment.compose_file import ROOT, SERVERS
from tests.deployment.local_deployment import PROXY_PATH, Deployment, deployed
from tests.protocol.peer import Peer, open_socket
from tests.waiting import TIMEOUT_SECONDS, wait_for

HOST = "chat.example.org"
DEPLOY = ROOT / "deploy"
HAPROXY_FILE, NGINX_FILE, CADDY_FILE = (
    DEPLOY / "haproxy.cfg",
    DEPLOY / "tls" / "nginx.conf",
    DEPLOY / "tls" / "Caddyfile",
)
LIVE = "subscription { messageEvents { __typename ... on MessageCreated { message { content } } } }"
SEND = 'mutation { sendMessage(input: {toUserId: "bob", content: "%s"}) { message { id conversationId } } }'
UPLOAD = """mutation ($conversation: ID!, $size: Int!) {
    createUpload(input: {filename: "a.bin", sizeBytes: $size, conversationId: $conversation}) { url method } }"""


def replaced(text: str, *changes: tuple[str, str]) -> str:
    """Replace texts that must be there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


@dataclass(frozen=True)
class Certificate:
    """A certificate for HOST, in the files that proxies read."""

    chain: Path
    key: Path
    both: Path
    trusted: ssl.SSLContext


@dataclass(frozen=True)
class Start:
    """The addresses of a proxy that is about to start."""

    folder: Path
    port: int
    servers: tuple[int, int]
    certificate: Certificate


def haproxy_command(start: Start) -> list[str]:
    text = HAPROXY_FILE.read_text()
    (commented,) = re.findall(r"# With certificates in a mounted folder:  (bind .*)$", text, re.MULTILINE)
    bind = replaced(commented, (":8443", f"127.0.0.1:{start.port}"), ("/certs", str(start.certificate.both)))
    changes = [("    bind :8000\n", f"    {bind}\n")]
    changes += [(f"{name}:8000", f"127.0.0.1:{port}") for name, port in zip(SERVERS, start.servers, strict=True)]
    (start.folder / "haproxy.cfg").write_text(replaced(text, *changes))
    return ["haproxy", "-W", "-db", "-f", str(start.folder / "haproxy.cfg")]


def nginx_command(start: Start) -> list[str]:
    folders = "".join(
        f"{name}_temp_path {start.folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = replaced(
        NGINX_FILE.read_text(),
        ("listen 443 ", f"listen 127.0.0.1:{start.port} "),
        ("listen 80;", f"listen 127.0.0.1:{pick_free(start.port)};"),
        ("127.0.0.1:8001", f"127.0.0.1:{start.servers[0]}"),
        ("127.0.0.1:8002", f"127.0.0.1:{start.servers[1]}"),
        ("/etc/ssl/confab/fullchain.pem", str(start.certificate.chain)),
        ("/etc/ssl/confab/privkey.pem", str(start.certificate.key)),
        ("http {\n", "http {\n" + folders),
    )
    if os.geteuid() == 0:
        text = "user root;\n" + text
    (start.folder / "nginx.conf").write_text(text)
    directives = f"daemon off; worker_rlimit_nofile 50000; pid {start.folder}/pid;"
    return ["nginx", "-e", "stderr", "-c", str(start.folder / "nginx.conf"), "-g", directives]


def caddy_command(start: Start) -> list[str]:
    options = (
        "admin off",
        "auto_https disable_redirects",
        "skip_install_trust",
        "grace_period 1s",
        f"storage file_system {start.folder}",
    )
    text = replaced(
        CADDY_FILE.read_text(),
        ("\tgrace_period 15s\n", "".join(f"\t{option}\n" for option in options)),
        (f"{HOST} {{\n", f"https://{HOST}:{start.port} {{\n\ttls {start.certificate.chain} {start.certificate.key}\n"),
        ("127.0.0.1:8001", f"127.0.0.1:{start.servers[0]}"),
        ("127.0.0.1:8002", f"127.0.0.1:{start.servers[1]}"),
    )
    (start.folder / "Caddyfile").write_text(text)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(start.folder / "Caddyfile")]


PROXIES: dict[str, Callable[[Start], list[str]]] = {
    "haproxy": haproxy_command,
    "nginx": nginx_command,
    "caddy": caddy_command,
}


def installed(program: str) -> str | None:
    return shutil.which(program, path=PROXY_PATH)


proxies = pytest.mark.parametrize(
    "proxy",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(installed(name) is None, reason=f"{name} is not installed (apt-get install)")
        )
        for name in PROXIES
    ],
    indirect=True,
)
pytestmark = [
    pytest.mark.skipif(installed("haproxy") is None, reason="haproxy is not installed (apt-get install haproxy)"),
    pytest.mark.skipif(ON_CLUSTER, reason="brings a Redis of its own"),
]


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    name: str
    port: int
    log: Path
    trusted: ssl.SSLContext
    tokens: dict[str, str]

    def client(self, user: str) -> httpx.AsyncClient:
        headers = {"host": f"{HOST}:{self.port}", "authorization": f"Bearer {self.tokens[user]}"}
        return httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{self.port}",
            headers=headers,
            verify=self.trusted,
            trust_env=False,
            timeout=TIMEOUT_SECONDS,
            event_hooks={"request": [_name_host]},
        )

    async def socket(self, user: str, sockets: AsyncExitStack) -> Peer:
        url = f"wss://{HOST}:{self.port}/graphql"
        opened = open_socket(url, ssl=self.trusted, host="127.0.0.1", port=self.port, proxy=None)
        peer = Peer(await sockets.enter_async_context(opened))
        await peer.init({"Authorization": f"Bearer {self.tokens[user]}"})
        return peer


async def _name_host(request: httpx.Request) -> None:
    request.extensions["sni_hostname"] = HOST


@pytest.fixture(scope="module")
async def deployment() -> AsyncIterator[Deployment]:
    folder = Path(tempfile.mkdtemp(prefix="confab-proxies-", dir=folder_in_memory()))
    try:
        async with deployed(folder) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("certificate")
    authority = trustme.CA()
    issued = authority.issue_cert(HOST)
    chain, key, both = folder / "chain.pem", folder / "key.pem", folder / "both.pem"
    for blob in issued.cert_chain_pems:
        blob.write_to_path(str(chain), append=True)
    issued.private_key_pem.write_to_path(str(key))
    issued.private_key_and_cert_chain_pem.write_to_path(str(both))
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    return Certificate(chain, key, both, trusted)


@pytest.fixture(scope="module")
async def tokens(deployment: Deployment) -> dict[str, str]:
    found = await asyncio.gather(*(asyncio.to_thread(deployment.token, user) for user in ("alice", "bob")))
    return dict(zip(("alice", "bob"), found, strict=True))


@asynccontextmanager
async def _running(name: str, start: Start, tokens: dict[str, str]) -> AsyncIterator[Proxy]:
    program, *arguments = PROXIES[name](start)
    found = installed(program)
    assert found is not None
    log = start.folder / "log"
    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(found, *arguments, stdout=output, stderr=output)
    try:
        proxy = Proxy(name, start.port, log, start.certificate.trusted, tokens)
        async with asyncio.timeout(TIMEOUT_SECONDS), proxy.client("alice") as http:
            while True:
                assert process.returncode is None, log.read_text()
                with contextlib.suppress(httpx.TransportError):
                    if (await http.get("/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.05)
        yield proxy
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.wait()


@pytest.fixture
async def proxy(
    request: pytest.FixtureRequest,
    deployment: Deployment,
    certificate: Certificate,
    tokens: dict[str, str],
    tmp_path: Path,
) -> AsyncIterator[Proxy]:
    first, second = (deployment.processes[server].port for server in SERVERS)
    start = Start(tmp_path, pick_free(), (first, second), certificate)
    async with _running(request.param, start, tokens) as proxy:
        async with proxy.client("bob") as bob:
            assert (await bob.post("/graphql", json={"query": "{ me { id } }"})).json() == {
                "data": {"me": {"id": "bob"}}
            }
        yield proxy


@proxies
async def test_events_reach_websockets_and_event_streams_at_once(proxy: Proxy) -> None:
    async with AsyncExitStack() as sockets, proxy.client("alice") as alice, proxy.client("bob") as bob:
        peer = await proxy.socket("bob", sockets)
        await peer.subscribe("live", LIVE)
        assert (await peer.receive())["payload"]["data"]["messageEvents"]["__typename"] == "CaughtUp"
        status = 0
        async with asyncio.timeout(TIMEOUT_SECONDS):
            # A server on a busy machine may refuse requests.
            while status != 200:
                stream = await sockets.enter_async_context(
                    bob.stream("POST", "/graphql", json={"query": LIVE}, headers={"accept": "text/event-stream"})
                )
                status = stream.status_code
            lines = stream.aiter_lines()
            while "CaughtUp" not in await anext(lines):
                pass
            assert (await alice.post("/graphql", json={"query": SEND % proxy.name})).json()["data"]
            while proxy.name not in str(await peer.receive()):
                pass
            while proxy.name not in await anext(lines):
                pass


@proxies
async def test_only_pages_of_the_address_may_call(proxy: Proxy) -> None:
    query = {"query": "{ me { id } }"}
    async with proxy.client("alice") as alice:
        own = await alice.post("/graphql", json=query, headers={"origin": f"https://{HOST}:{proxy.port}"})
        foreign = await alice.post("/graphql", json=query, headers={"origin": "https://evil.example"})
    assert (own.status_code, foreign.status_code) == (200, 403)


@proxies
async def test_large_files_go_through(proxy: Proxy) -> None:
    content = b"x" * 3_000_000
    async with proxy.client("alice") as alice:
        sent = (await alice.post("/graphql", json={"query": SEND % "a file follows"})).json()["data"]["sendMessage"]
        variables = {"conversation": sent["message"]["conversationId"], "size": len(content)}
        made = (await alice.post("/graphql", json={"query": UPLOAD, "variables": variables})).json()
        upload = made["data"]["createUpload"]
        path = re.sub(r"^https?://[^/]+", "", upload["url"])
        assert (await alice.request(upload["method"], path, content=content)).status_code == 204


@proxies
async def test_the_log_has_no_secrets(proxy: Proxy) -> None:
    async with proxy.client("alice") as alice:
        await alice.post("/webhooks/h_7/t0p-s3cret")
        await alice.get("/graphql?query=t0p-s3cret")
        await alice.get("/files/last")
    if proxy.name == "caddy":
        assert "/files/" not in proxy.log.read_text(), "it has no log of requests"
    else:
        await wait_for(lambda: "/files/last" in proxy.log.read_text())
        assert "/webhooks/h_7/-" in proxy.log.read_text()
    assert "t0p-s3cret" not in proxy.log.read_text()


@pytest.mark.parametrize("file", [HAPROXY_FILE, NGINX_FILE, CADDY_FILE], ids=["haproxy", "nginx", "caddy"])
def test_live_connections_are_never_idle_for_the_time_limit(file: Path) -> None:
    pattern = r"^\s*(?:timeout (?:server|tunnel)|proxy_(?:read|send)_timeout|response_header_timeout) +(\d+)s"
    times = [int(seconds) for seconds in re.findall(pattern, file.read_text(), re.MULTILINE)]
    settings = load_settings(workers=True)
    limits = (
        2 * settings.ws_ping_interval_seconds,
        settings.operation_timeout_seconds,
        2 * StreamLimits().keep_alive_seconds,
    )
    assert times and min(times) > max(limits)
    kept = re.search(r"(?:keepalive_timeout|keepalive|pool-purge-delay) (\d+)s", file.read_text())
    assert kept is not None and int(kept[1]) < settings.keep_alive_seconds
