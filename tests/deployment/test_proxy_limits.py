"""The limits of deploy/haproxy.cfg, with a real HAProxy, smaller numbers, and no servers."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from server.embedded.ports import pick_free
from tests.deployment.compose_file import ROOT
from tests.deployment.local_deployment import PROXY_PATH
from tests.waiting import TIMEOUT_SECONDS, wait_for

HAPROXY = shutil.which("haproxy", path=PROXY_PATH)

pytestmark = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed (apt-get install haproxy)")

LIMITS = {
    "sc0_conn_cur gt 1000": "sc0_conn_cur gt 5",
    "sc0_conn_rate gt 1000": "sc0_conn_rate gt 30",
    "sc0_http_req_rate gt 5000": "sc0_http_req_rate gt 10",
    "retries 3": "retries 0",
}


@pytest.fixture
def port(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """Run the proxy, and return its port. An indirect parameter adds limits."""
    text = (ROOT / "deploy" / "haproxy.cfg").read_text()
    for limit, smaller in (LIMITS | getattr(request, "param", {})).items():
        assert text.count(limit) == 1, limit
        text = text.replace(limit, smaller)
    chosen = pick_free()
    text = text.replace("bind :8000", f"bind 127.0.0.1:{chosen}")
    text = re.sub(r"server-\d:8000", f"127.0.0.1:{pick_free(chosen)}", text)
    config = tmp_path / "haproxy.cfg"
    config.write_text(text)
    assert HAPROXY is not None
    checked = subprocess.run([HAPROXY, "-c", "-f", str(config)], capture_output=True, text=True, timeout=20)
    assert (checked.returncode, "WARNING" in checked.stderr) == (0, False), checked.stderr
    with (tmp_path / "log").open("w") as log, ExitStack() as ending:
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(config)], stdout=log, stderr=log)
        ending.callback(process.wait, 20)
        ending.callback(process.kill)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                # From another address, so that this connection is not counted with those of the test.
                with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as client:
                    client.get(f"http://127.0.0.1:{chosen}/proxy")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield chosen


async def open_and_read(port: int, sent: bytes = b"") -> bytes:
    """Open a connection. Return its first line, or nothing if the proxy closes it."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return b""
    try:
        writer.write(sent)
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_an_address_has_a_limited_number_of_connections(port: int) -> None:
    reading = [asyncio.create_task(open_and_read(port)) for _ in range(7)]
    await wait_for(lambda: sum(task.done() for task in reading) >= 2)
    await asyncio.sleep(0.15)
    assert [task.result() for task in reading if task.done()] == [b""] * 2
    for task in reading:
        task.cancel()
    line = b""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        # The proxy notices the end of a connection a moment later.
        while not line:
            line = await open_and_read(port, b"GET /proxy HTTP/1.1\r\nhost: a\r\n\r\n")
    assert line.startswith(b"HTTP/1.1 ")


async def test_an_address_has_a_limited_rate_of_connections(port: int) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        lines = [await open_and_read(port, b"GET /proxy HTTP/1.0\r\n\r\n") for _ in range(33)]
    assert lines[0] and lines[-1] == b""


async def test_an_address_has_a_limited_rate_of_requests(port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        answers = [await client.get("/graphql") for _ in range(12)]
        assert 429 not in [answer.status_code for answer in answers[:9]]
        assert (answers[-1].status_code, answers[-1].headers["retry-after"]) == (429, "1")
        (error,) = json.loads(answers[-1].content)["errors"]
        assert error["extensions"] == {"code": "RATE_LIMITED", "retryable": True, "retryAfterMs": 1000}
        # Checks of the proxy itself go on.
        assert (await client.get("/proxy")).status_code != 429


@pytest.mark.parametrize("port", [{"timeout http-request 10s": "timeout http-request 1s"}], indirect=True, ids=["1s"])
@pytest.mark.parametrize("body", [b"", b"content-length: 100\r\n\r\n{"], ids=["head", "body"])
async def test_incomplete_requests_time_out_at_the_proxy(port: int, body: bytes) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        line = await open_and_read(port, b"POST /graphql HTTP/1.1\r\nhost: a\r\n" + body)
    assert line.startswith(b"HTTP/1.1 408 ")


async def test_the_log_has_no_token_of_a_webhook(port: int, tmp_path: Path) -> None:
    paths = ["/webhooks/h_7/secret", "/WEBHOOKS/h_7/secret/", "/x/webhooks/h_7/secret?a=secret", "/graphql"]
    paths += ["/webhooks/h_7/secret/webhooks/h_7/secret"]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        for path in paths:
            await client.post(path)
        for _ in range(10):
            await client.post("/webhooks/h_8/secret")

    def read() -> str:
        return (tmp_path / "log").read_text()

    await wait_for(lambda: read().count("/webhooks/h_8/-") == 10)
    logged = read()
    assert " /webhooks/h_7/- " in logged and " /WEBHOOKS/h_7/- " in logged and " /x/webhooks/h_7/- " in logged
    assert " /graphql " in logged and " 429 " in logged
    assert "secret" not in logged
